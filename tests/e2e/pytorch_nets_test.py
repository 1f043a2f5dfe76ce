"""pytorch_nets_test -- every network gives the losses of the plain script bit for bit, alone under
the hook and beside others in two thirds of the memory.

ZI_FULL=1 (make test-full) takes the whole list, else a sample.  timeout: 400
"""
import json
import os
import subprocess
import unittest

import hooked
from hooked import EXAMPLES, MIB, PYTHON, Broker, clean_env, losses, plain_losses, run

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False

SAMPLE = [
    ["resnet.py", "--net", "mobilenet_v2", "--size", "32", "--batch", "16"],
    ["resnet.py", "--net", "vit_small", "--size", "32", "--batch", "32"],
    ["lstm.py", "--hidden", "128", "--batch", "64"],
]
ALL = SAMPLE + [
    ["resnet.py", "--net", "resnet18", "--batch", "16"],
    ["resnet.py", "--net", "resnet50", "--size", "32", "--batch", "16"],
    ["resnet.py", "--net", "densenet121", "--size", "32", "--batch", "16"],
    ["resnet.py", "--net", "vgg11_bn", "--size", "32", "--batch", "8"],
    ["transformer.py", "--batch", "8"],
]
CHOSEN = ALL if os.environ.get("ZI_FULL") else SAMPLE
STEPS = 4

def words(job):
    return [*job, "--steps", str(STEPS)]


def at_home(job):
    return [os.path.join(EXAMPLES, job[0]), *words(job)[1:]]


def peak_of(broker):
    return json.loads(run([hooked.ZICO, "status", "--json", "--socket", broker.socket]).stdout)["peak_bytes"]


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Nets(unittest.TestCase):
    def under(self, broker, jobs):
        procs = [subprocess.Popen(broker.command(PYTHON, *at_home(job), options=["--cores", "fixed:1"]),
                                  env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) for job in jobs]
        ends = [(*p.communicate(timeout=300), p.returncode) for p in procs]
        for out, err, code in ends:
            self.assertEqual(0, code, err)
        return [losses(out) for out, _, _ in ends]

    def test_alone_and_together(self):
        want = plain_losses([words(job) for job in CHOSEN])
        peaks = []
        for job, losses_wanted in zip(CHOSEN, want):
            self.assertEqual(STEPS, len(losses_wanted), job)
            with self.subTest(alone=job), Broker(4096 * MIB) as b:
                self.assertEqual([losses_wanted], self.under(b, [job]))
                peaks.append(peak_of(b))
        for i in range(0, len(CHOSEN), 3):
            jobs, some = CHOSEN[i:i + 3], peaks[i:i + 3]
            budget = max(int(0.67 * sum(some)), max(some) + max(some) // 4)
            with self.subTest(together=jobs), Broker(budget) as b:
                self.assertEqual(want[i:i + 3], self.under(b, jobs))
                self.assertLessEqual(peak_of(b), budget)


if __name__ == "__main__":
    hooked.main()
