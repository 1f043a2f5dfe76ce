"""pytorch_two_test -- two unmodified PyTorch scripts share a pool of 65 % of what they need alone.

timeout: 300
"""
import json
import os
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

STEPS = "4"
JOBS = [  # little that stays, much that comes and goes
    ["resnet.py", "--net", "mobilenet_v2", "--size", "64", "--batch", "24", "--steps", STEPS],
    ["transformer.py", "--width", "128", "--batch", "16", "--length", "128", "--steps", STEPS],
]


def words(job):
    return [PYTHON, os.path.join(EXAMPLES, job[0]), *job[1:]]


def status(broker):
    p = run([hooked.ZICO, "status", "--json", "--socket", broker.socket], check=False)
    return json.loads(p.stdout) if p.returncode == 0 else None


def field(picture, name):
    """A number of the device, wherever the JSON keeps it."""
    found = picture.get(name, picture.get("device", {}).get(name)
                        if isinstance(picture.get("device"), dict) else None)
    assert found is not None, picture
    return found


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Two(unittest.TestCase):
    def alone(self, job):
        """Losses and peak of a job that has the device for itself."""
        with Broker(2048 * MIB) as b:
            out = run(b.command(*words(job), options=["--cores", "fixed:1"]), clean_env())
            return losses(out.stdout), field(status(b), "peak_bytes")

    def together(self, broker, env):
        procs = [subprocess.Popen(broker.command(*words(job), options=["--cores", "fixed:1"]),
                                  env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) for job in JOBS]
        most = 0
        try:
            while any(p.poll() is None for p in procs):
                seen = status(broker)
                if seen:
                    used = field(seen, "kernel_bytes")
                    most = max(most, used)
                time.sleep(0.1)
            return [(p.returncode, *p.communicate()) for p in procs], most
        finally:
            for p in procs:
                if p.poll() is None:
                    p.kill()
                p.wait()

    def test_share(self):
        """All finish, every loss is the same bit for bit, and the budget holds: by the broker's
        book and by the kernel's count."""
        plain = [losses(run(words(job), clean_env()).stdout) for job in JOBS]
        solo = [self.alone(job) for job in JOBS]
        self.assertEqual(plain, [loss for loss, _ in solo])
        budget = int(0.65 * sum(peak for _, peak in solo)) // MIB * MIB
        with Broker(budget) as b:
            ended, kernel = self.together(b, clean_env())
            peak = field(status(b), "peak_bytes")
        for (code, out, err), want in zip(ended, plain):
            self.assertEqual(0, code, err)
            self.assertEqual(want, losses(out), err)
        self.assertLessEqual(peak, budget)
        self.assertLessEqual(kernel, budget)
        print(f"solo peaks {[p >> 20 for _, p in solo]} MiB, budget {budget >> 20} MiB, "
              f"peak {peak >> 20} MiB, kernel {kernel >> 20} MiB")


if __name__ == "__main__":
    hooked.main()
