"""pytorch_wait_test -- what does not fit now waits, visibly and bounded; what never fits is denied.

timeout: 300
"""
import json
import os
import subprocess
import time
import unittest

import hooked
from hooked import EXAMPLES, MIB, PYTHON, Broker, anonymous, clean_env, losses, run

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False

ADMISSION, MEMORY = 8, 1

# 184 MiB that stay (parameters, gradients, Adam's two moments), hardly anything that comes and goes
SCRIPT = [PYTHON, os.path.join(EXAMPLES, "gan.py"), "--width", "2048", "--batch", "64", "--steps", "5"]

# holds 160 MiB for a while and trains nothing
HOLDER = ("import numpy as np, sys\na = np.ones(160 << 17)\nprint('holds', flush=True)\n"
          "sys.stdin.readline()\n")


def status(broker):
    p = run([hooked.ZICO, "status", "--json", "--socket", broker.socket], check=False)
    return json.loads(p.stdout)["jobs"] if p.returncode == 0 else []


def start(broker, *cmd, options=(), **more):
    return subprocess.Popen(broker.command(*cmd, options=["--cores", "fixed:1", *options]),
                            env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **more)


def until(broker, process, seen):
    """Look until `seen` is true of some job; the job."""
    while process.poll() is None:
        for job in status(broker):
            if seen(job):
                return job
        time.sleep(0.1)
    return None


def baseline():
    """Of a Python that has torch and has done something with it."""
    code = ("import torch\nm = torch.nn.Linear(8, 8)\no = torch.optim.Adam(m.parameters())\n"
            "m(torch.ones(4, 8)).sum().backward()\no.step()\nprint('up', flush=True)\ninput()\n")
    p = subprocess.Popen([PYTHON, "-c", code], env=clean_env(), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    size = anonymous(p.pid)
    p.communicate("\n")
    return size


class Waits(unittest.TestCase):
    def hold(self, broker):
        p = start(broker, PYTHON, "-c", HOLDER, options=["--name", "holder"], stdin=subprocess.PIPE)
        self.addCleanup(lambda: (p.kill(), p.communicate()))
        self.assertEqual("holds\n", p.stdout.readline())
        return p

    def test_before_training(self):
        """A block that fits only when another program has ended waits, says why, and comes."""
        code = "import numpy as np\na = np.ones(160 << 17)\nprint('has it')\n"
        with Broker(256 * MIB) as b:
            holder = self.hold(b)
            late = start(b, PYTHON, "-c", code, options=["--name", "late"])
            job = until(b, late, lambda j: j["name"] == "late" and j["reason"])
            self.assertIsNotNone(job, late.poll())
            self.assertIn(job["reason"], (ADMISSION, MEMORY))
            holder.communicate("\n")
            out, err = late.communicate(timeout=60)
        self.assertEqual((0, "has it\n"), (late.returncode, out), err)

    def test_bounded(self):
        """--max-wait turns the same wait into MemoryError; what can never fit is denied at once."""
        code = ("import numpy as np, sys\nfor n in (160 << 17, 400 << 17):\n"
                "    try:\n        np.ones(n)\n    except MemoryError:\n        print('no')\n")
        with Broker(256 * MIB) as b:
            self.hold(b)
            p = run(b.command(PYTHON, "-c", code, options=["--max-wait", "1s"]))
        self.assertEqual("no\nno\n", p.stdout, p.stderr)

    def finish(self, broker, procs):
        """All end well; their losses, and the most memory that the kernel counted meanwhile."""
        most = 0
        for p in procs:
            self.addCleanup(lambda p=p: (p.kill(), p.communicate()))
        while any(p.poll() is None for p in procs):
            # one that gives back while another takes must not count twice: looked at before and after
            before = [anonymous(p.pid) for p in procs]
            seen = run([hooked.ZICO, "status", "--json", "--socket", broker.socket], check=False)
            pool = json.loads(seen.stdout) if seen.returncode == 0 else None
            if pool:
                now = sum(min(a, anonymous(p.pid)) for a, p in zip(before, procs))
                most = max(most, now + pool["leased_bytes"] + pool["idle_bytes"])
            time.sleep(0.05)
        ends = [(p.returncode, *p.communicate()) for p in procs]
        for code, _, err in ends:
            self.assertEqual(0, code, err)
        return [losses(out) for _, out, _ in ends], most

    def fit_one_after_the_other(self, script, second_after):
        want = losses(run(script).stdout)
        with Broker(360 * MIB) as b:
            procs = [start(b, *script, options=["--name", "one"])]
            for line in procs[0].stdout if second_after else ():
                if line.startswith(second_after):
                    break
            procs.append(start(b, *script, options=["--name", "two"]))
            got, most = self.finish(b, procs)
            peak = json.loads(run([hooked.ZICO, "status", "--json", "--socket", b.socket]).stdout)
        self.assertEqual([want[-len(got[0]):], want], got)
        self.assertLessEqual(peak["peak_bytes"], 360 * MIB)
        self.assertLessEqual(most, 360 * MIB + 2 * baseline())

    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_at_once(self):
        """Two scripts fit only one after the other and start at once.  Both grow late, the second
        network's gradients and moments in the fourth step.  Both finish with the right losses,
        within the budget by the book and by the kernel's count."""
        self.fit_one_after_the_other([*SCRIPT, "--critic", "3"], None)

    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_staggered(self):
        """The same, and the second comes while the first trains."""
        self.fit_one_after_the_other(SCRIPT, "step 1")

    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_too_large(self):
        """A script that needs more than the budget by itself gets PyTorch's own error, at once and
        with the numbers in zico's line."""
        with Broker(150 * MIB) as b:
            p = run(b.command(*SCRIPT, options=["--cores", "fixed:1"]), check=False)
        self.assertEqual(1, p.returncode)
        self.assertIn("RuntimeError", p.stderr)
        self.assertIn("can't allocate memory", p.stderr)
        self.assertRegex(p.stderr, r"zico: error: a block of \S+ MiB was refused: .*"
                                   r"asked for .*of a budget of 150 MiB")

    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_kept_in(self):
        """--spill none: the memory of these stays, and the second gets PyTorch's own error."""
        with Broker(330 * MIB) as b:
            procs = [start(b, *SCRIPT, options=["--spill", "none"]) for _ in range(2)]
            ends = [(*p.communicate(timeout=120), p.returncode) for p in procs]
        codes = sorted(code for _, _, code in ends)
        self.assertEqual(0, codes[0], ends)
        for _, err, code in ends:
            if code != 0:
                self.assertIn("can't allocate memory", err)


if __name__ == "__main__":
    hooked.main()
