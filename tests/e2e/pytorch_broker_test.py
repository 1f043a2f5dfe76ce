"""pytorch_broker_test -- a PyTorch script and the fortunes of its broker.

timeout: 300
"""
import json
import os
import signal
import subprocess
import time
import unittest

import hooked
from hooked import EXAMPLES, MIB, PYTHON, Broker, clean_env, losses, run

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False

SCRIPT = [PYTHON, os.path.join(EXAMPLES, "transformer.py"), "--width", "128", "--batch", "8",
          "--length", "64"]


def start(broker, *cmd, options=(), **env):
    return subprocess.Popen(
        broker.command(*cmd, options=["--cores", "fixed:1", *options]), env=clean_env(**env),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_until(process, word):
    """Read the output up to the line that has `word`."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if word in line:
            break
    return "".join(seen)


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def status(broker):
    return json.loads(run([hooked.ZICO, "status", "--json", "--socket", broker.socket]).stdout)


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Fortunes(unittest.TestCase):
    def setUp(self):
        self.want = losses(run([*SCRIPT, "--steps", "8"]).stdout)

    def test_killed_for_good(self):
        """The broker and its keeper are killed in the middle: the script ends as if nothing was."""
        with Broker(1024 * MIB) as b:
            p = start(b, *SCRIPT, "--steps", "8", "--pause", "0.2")
            out = lines_until(p, "step 2")
            pid = status(b)["broker_pid"]
            os.kill(pid, signal.SIGSTOP)  # else it could take its keeper's place
            b.process.send_signal(signal.SIGKILL)
            b.process.wait()
            os.kill(pid, signal.SIGKILL)
            code, rest, err = finish(p)
        self.assertEqual(0, code, err)
        self.assertEqual(self.want, losses(out + rest))

    def test_comes_back(self):
        """A second broker on the same socket: the job is in its list again."""
        with Broker(1024 * MIB) as b:
            p = start(b, *SCRIPT, "--steps", "8", "--pause", "1")
            out = lines_until(p, "step 1")
            first = status(b)["broker_pid"]
            os.kill(first, signal.SIGKILL)
            if first == b.process.pid:  # nobody restarts it but us
                b.process.wait()
                os.unlink(b.socket)
                b.start()
            end = time.monotonic() + 20
            names = []
            while not names and time.monotonic() < end and p.poll() is None:
                time.sleep(0.2)
                seen = run([hooked.ZICO, "status", "--json", "--socket", b.socket], check=False)
                if seen.returncode == 0:
                    names = [j["name"] for j in json.loads(seen.stdout)["jobs"]]
            code, rest, err = finish(p)
        self.assertEqual(0, code, err)
        self.assertIn("transformer", names)
        self.assertEqual(self.want, losses(out + rest))

    def test_max_wait(self):
        """A paused job's wait is visible, and --max-wait ends it with PyTorch's own error."""
        with Broker(1024 * MIB) as b:
            p = start(b, *SCRIPT, "--steps", "50", "--pause", "0.3", options=["--max-wait", "2s"])
            lines_until(p, "step 2")
            run([hooked.ZICO, "pause", "--socket", b.socket, "transformer"])
            reasons = set()
            while p.poll() is None:
                for job in status(b)["jobs"]:
                    reasons.add(job["reason"])
                time.sleep(0.1)
            code, _, err = finish(p)
        self.assertEqual(1, code, err)
        self.assertIn("can't allocate memory", err)
        self.assertIn(9, reasons)  # ZI_REASON_PAUSED

    def test_limit(self):
        """zico.limit() from inside lowers the job's own maximum."""
        code = ("import numpy as np, zico\na = np.ones(1 << 20)\nprint(zico.limit('64M'))\n"
                "try:\n    np.ones(1 << 24)\nexcept MemoryError:\n    print('refused')\n"
                "print(zico.stats()['n_refused'])\n")
        with Broker(1024 * MIB) as b:
            p = run(b.command(PYTHON, "-c", code), clean_env(ZICO_VERBOSE=0))
        self.assertEqual(f"{64 * MIB}\nrefused\n1\n", p.stdout, p.stderr)


if __name__ == "__main__":
    hooked.main()
