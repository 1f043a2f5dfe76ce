#!/usr/bin/python3
"""Two training jobs in the memory of one: they share, stay within it, and change no bit.

timeout: 240
"""
import json
import os
import subprocess
import tempfile
import time
import unittest

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
JOBS = {"a": ["resnet20:size=16", "--batch", "32"],
        "b": ["mobilenet_v2:size=32,classes=10", "--batch", "16", "--optimizer", "momentum"]}
COMMON = ["--steps", "8", "--threads", "1", "--eval", "0", "--json"]


class Sharing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.dir = self.folder.name
        self.broker = None

    def tearDown(self):
        if self.broker:
            self.broker.terminate()
            self.broker.wait(timeout=20)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, job, save, env=ENV, *more):
        return subprocess.Popen([ZICO, "train", *JOBS[job], *COMMON, "--save", self.path(save),
                                 *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=env)

    def end(self, process):
        out, err = process.communicate(timeout=150)
        self.assertEqual(0, process.returncode, err)
        return json.loads(out.splitlines()[-1])

    def serve(self, budget):
        self.broker = subprocess.Popen([ZICO, "serve", "--socket", self.path("s"), "--budget",
                                        str(budget)], stderr=subprocess.DEVNULL, env=ENV)
        for _ in range(200):
            if os.path.exists(self.path("s")):
                return
            time.sleep(0.05)
        self.fail("no broker")

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_shared_runs_are_the_same_bits(self):
        alone = {job: self.end(self.start(job, job + ".alone")) for job in JOBS}
        peaks = [alone[job]["peak_bytes"] for job in JOBS]
        budget = int(max(peaks) * 1.5) + (16 << 20)
        self.serve(budget)
        env = dict(ENV, ZICO_SOCKET=self.path("s"))
        together = {job: self.start(job, job + ".shared", env) for job in JOBS}
        together = {job: self.end(p) for job, p in together.items()}
        for job in JOBS:
            self.assertEqual(self.read(job + ".alone"), self.read(job + ".shared"))
            self.assertEqual(alone[job]["loss"], together[job]["loss"])
            self.assertLessEqual(together[job]["peak_bytes"], budget)


if __name__ == "__main__":
    unittest.main()
