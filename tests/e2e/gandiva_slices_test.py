#!/usr/bin/python3
"""Three jobs in the memory of one or two, in slices of a second: all finish, no bit changes.

timeout: 240
"""
import json
import os
import subprocess
import tempfile
import unittest

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
# large parameters, so that what stays between steps does not fit either
NETS = {"a": ("resnet18:classes=10,size=32", 8, 40), "b": ("resnet18:classes=10,size=32", 4, 50),
        "c": ("mobilenet_v2:size=32,classes=10", 16, 40)}


class Slices(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.dir = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.dir, name)

    def alone(self, name):
        net, batch, steps = NETS[name]
        done = subprocess.run([ZICO, "train", net, "--batch", str(batch), "--steps", str(steps),
                               "--threads", "1", "--eval", "0", "--save", self.path(name + ".alone"),
                               "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=ENV, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_all_finish_with_the_same_bits(self):
        peak = max(self.alone(name)["peak_bytes"] for name in NETS)
        text = "budget: %d\njobs:\n" % (peak * 1.25 + (8 << 20))
        for name, (net, batch, steps) in NETS.items():
            text += ("  - name: %s\n    train: %s\n    batch: %d\n    steps: %d\n"
                     "    cores: fixed:1\n    args: [--eval, '0', --threads, '1', --save, %s]\n"
                     % (name, net, batch, steps, self.path(name + ".sliced")))
        with open(self.path("jobs.yaml"), "w") as f:
            f.write(text)
        done = subprocess.run([ZICO, "run", "--policy", "gandiva:slice=1", "--quiet", "--out",
                               self.path("out"), "--socket", self.path("s"), self.path("jobs.yaml")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(ENV, TMPDIR=self.dir), timeout=200)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for name in NETS:
            with open(self.path(name + ".alone"), "rb") as x:
                with open(self.path(name + ".sliced"), "rb") as y:
                    self.assertEqual(x.read(), y.read(), name)
        self.assertEqual([], [n for n in os.listdir(self.dir) if "spill" in n])


if __name__ == "__main__":
    unittest.main()
