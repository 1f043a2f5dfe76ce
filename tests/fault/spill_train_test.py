#!/usr/bin/python3
"""spill_train_test -- whatever happens to the spill file, a run says so, and its checkpoint is good.

timeout: 240
"""
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build/dev")
ZICO = os.path.join(BUILD, "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
NET = ["train", "resnet20", "--batch", "16", "--synthetic", "--threads", "1", "--eval", "0", "--json"]
LITTLE = ["--budget", "30%", "--planner", "capuchin"]  # so little that tensors must move


def small_files():
    """No file may grow beyond 8 MiB: to a program this looks like a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))


class SpillTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.spill = self.path("spill")
        os.mkdir(self.spill)

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_zico(self, *words, **how):
        return subprocess.run([ZICO, *words], text=True, timeout=120, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=how.pop("env", ENV), **how)

    def losses(self, out):
        return {s["step"]: s["loss"] for s in map(json.loads, out.splitlines()) if s["event"] == "step"}

    def refused(self, tier, *words, **how):
        done = self.run_zico(*NET, *LITTLE, "--steps", "3", "--tier", "file:" + tier, *words, **how)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        self.assertIn(tier, done.stderr)
        self.assertEqual({}, self.losses(done.stdout))

    def test_missing(self):
        """No such directory: named, before anything is computed."""
        self.refused(self.path("nowhere"))

    def test_not_a_folder(self):
        """A file in its place."""
        with open(self.path("file"), "w"):
            pass
        self.refused(self.path("file"))

    def test_read_only(self):
        """A directory in which nothing can be made."""
        if os.getuid() == 0:
            self.refused("/sys/kernel")  # permissions do not stop root
        else:
            os.chmod(self.spill, 0o500)
            self.refused(self.spill)

    def test_full(self):
        """No room: said before the first step, with another way; a folder that nobody named is done without."""
        self.refused(self.spill, preexec_fn=small_files)
        done = self.run_zico(*NET, "--budget", "60%", "--steps", "4", preexec_fn=small_files,
                             env=dict(ENV, TMPDIR=self.spill))
        self.assertEqual(0, done.returncode, done.stderr)
        whole = self.run_zico(*NET, "--steps", "4")
        self.assertEqual(self.losses(whole.stdout), self.losses(done.stdout))
        self.assertEqual(0, json.loads(done.stdout.splitlines()[-1])["tier_out_bytes"])

    def spill_fd(self, pid):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = f"/proc/{pid}/fd/{fd}"
            try:
                if os.readlink(link).startswith(self.spill):
                    return link
            except OSError:
                pass
        return None

    def begin(self, *words):
        return subprocess.Popen([ZICO, *NET, *LITTLE, "--tier", "file:" + self.spill, "--save",
                                 self.path("c.safetensors"), "--every", "2", *words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)

    def until_saved(self, job):
        for line in job.stdout:
            if json.loads(line)["event"] == "saved":
                return
        self.fail(job.stderr.read())

    def resumed(self, steps):
        """The checkpoint is whole: going on from it gives the bits of a run that was never disturbed."""
        done = self.run_zico(*NET, "--steps", str(steps), "--resume", self.path("c.safetensors"))
        self.assertEqual(0, done.returncode, done.stderr)
        whole = self.losses(self.run_zico(*NET, "--steps", str(steps)).stdout)
        for step, loss in self.losses(done.stdout).items():
            self.assertEqual(whole[step], loss)

    def test_vanishing(self):
        """The file's bytes go while the run needs them: it ends with an error, and the checkpoint is good."""
        job = self.begin("--steps", "400")
        self.until_saved(job)
        link = self.spill_fd(job.pid)
        self.assertIsNotNone(link)
        self.assertEqual([], os.listdir(self.spill))  # it has no name, so nobody removes it
        with open(link, "r+b") as f:
            f.truncate(0)
        out, err = job.communicate(timeout=100)
        self.assertEqual(1, job.returncode, out)
        self.assertIn("step", err)
        self.assertIn("--resume", err)
        last = json.loads(out.splitlines()[-1])
        self.assertEqual("end", last["event"])
        self.resumed(last["step"] + 4)

    def test_killed(self):
        """kill -9 leaves nothing behind but a good checkpoint, and the next run starts."""
        job = self.begin("--steps", "400")
        self.until_saved(job)
        job.kill()
        job.communicate()
        self.assertEqual([], os.listdir(self.spill))
        self.assertEqual(["c.safetensors"], [n for n in os.listdir(self.folder.name) if n != "spill"
                                             and not n.startswith("c.safetensors.")])
        again = self.run_zico(*NET, *LITTLE, "--steps", "8", "--tier", "file:" + self.spill, "--resume",
                              self.path("c.safetensors"))
        self.assertIn(again.returncode, (0, 2), again.stderr)  # 2: it had come further than step 8
        self.assertEqual([], os.listdir(self.spill))


if __name__ == "__main__":
    unittest.main()
