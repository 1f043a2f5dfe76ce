"""pytorch_wait_test -- what does not fit now waits, visibly and bounded; what never fits is denied.

timeout: 300
"""
import json
import os
import subprocess
import time
import unittest

import hooked
from hooked import EXAMPLES, MIB, PYTHON, Broker, clean_env, run

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
