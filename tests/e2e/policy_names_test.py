#!/usr/bin/python3
"""Policies as people type them: wrong ones are named before anything starts, several are compared.

timeout: 200
"""
import glob
import json
import os
import subprocess
import unittest

from trained import ZICO, Folder

ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
JOBS = """budget: 96M
%sjobs:
  - name: a
    train: resnet20:size=16
    batch: 8
    steps: 4
    args: [--eval, '0']
  - name: b
    train: resnet20:size=16
    batch: 16
    steps: 3
    args: [--eval, '0']
"""


class Names(Folder):
    def run_jobs(self, *words, head=""):
        path = os.path.join(self.dir, "jobs.yaml")
        with open(path, "w") as f:
            f.write(JOBS % head)
        return subprocess.run([ZICO, "run", *words, "--quiet", "--out", os.path.join(self.dir, "out"), path],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=180,
                              env=dict(ENV, TMPDIR=self.dir, XDG_RUNTIME_DIR=self.dir))

    def test_a_wrong_name_is_told_at_once(self):
        for words, head in ((["--policy", "salos"], ""), (["--policy", "salus:lifo"], ""),
                            (["--policy", "gandiva:slice=0"], ""), ([], "policy: fair\n"),
                            (["--compare", "--policy", "salus:srtf,ziko"], "")):
            done = self.run_jobs(*words, head=head)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("is no policy", done.stderr)
            self.assertNotIn("==", done.stderr)

    def test_a_list_is_compared(self):
        done = self.run_jobs("--compare", "--json", "--policy", "salus:srtf,gandiva:slice=1,zico")
        self.assertEqual(0, done.returncode, done.stderr)
        rows = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(["temporal", "spatial", "zico", "salus:srtf", "gandiva:slice=1"],
                         [r["policy"] for r in rows])
        for r in rows:
            self.assertEqual(0, r["failed"])
            self.assertTrue(0 < r["mean_wall_ns"] <= r["wall_ns"])
        self.assert_no_locks()

    def test_no_table_of_a_broker_that_cannot_start(self):
        done = self.run_jobs("--compare", "--budget", "900T")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("more than the device has", done.stderr)
        self.assertEqual("", done.stdout)
        self.assert_no_locks()

    def assert_no_locks(self):
        self.assertEqual([], glob.glob(os.path.join(self.dir, "zico", "run-*.sock.*")), "locks left behind")


if __name__ == "__main__":
    unittest.main()
