#!/usr/bin/python3
"""Suspended by hand: memory gone, bits kept, whoever dies meanwhile.

timeout: 280
"""
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
TRAIN = [ZICO, "train", "resnet20:size=16", "--batch", "16", "--threads", "1", "--eval", "0",
         "--steps", "300", "--json"]
PAUSED, LEAVING, SUSPENDED = 3, 4, 5  # zi_job_state
STOPPED = 130  # exit code of a run that was told to stop


class Suspended(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.dir = self.folder.name
        os.mkdir(self.path("spill"))
        self.jobs = []
        with open(self.path("log"), "w") as log:
            self.broker = subprocess.Popen([ZICO, "serve", "--socket", self.path("s"),
                                            "--budget", "256M"], stderr=log, env=ENV)
        self.until(lambda: os.path.exists(self.path("s")), "no broker")

    def tearDown(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.communicate()
        self.broker.terminate()
        self.broker.wait(timeout=30)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.dir, name)

    def until(self, what, why, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        self.fail(why)

    def start(self, save, env, *more, net=None, **how):
        train = [*TRAIN[:2], net or TRAIN[2], *TRAIN[3:]]
        how.setdefault("stdout", subprocess.PIPE)
        job = subprocess.Popen([*train, "--save", self.path(save), *more], env=env, text=True,
                               stderr=subprocess.PIPE, **how)
        self.jobs.append(job)
        return job

    def shared(self, save, *more, **how):
        return self.start(save, dict(ENV, ZICO_SOCKET=self.path("s"), TMPDIR=self.path("spill")),
                          *more, **how)

    def end(self, job):
        out, err = job.communicate(timeout=200)
        self.assertEqual(0, job.returncode, err)
        return json.loads(out.splitlines()[-1])

    def say(self, verb, job):
        done = subprocess.run([ZICO, verb, job, "--socket", self.path("s")], text=True, env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
        self.assertEqual(0, done.returncode, done.stderr)

    def status(self):
        done = subprocess.run([ZICO, "status", "--json", "--socket", self.path("s")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, timeout=30)
        return json.loads(done.stdout.splitlines()[0]) if done.returncode == 0 else {"jobs": []}

    def job(self, pid):
        return next((j for j in self.status()["jobs"] if j["pid"] == pid), None)

    def in_state(self, job, state):
        def look():
            j = self.job(job.pid)
            return j if j and j["state"] == state else None
        return self.until(look, "never in state %d" % state)

    def going(self, job, steps=3):
        def look():
            j = self.job(job.pid)
            return j if j and j["step_no"] >= steps else None
        return self.until(look, "no step %d" % steps)

    def rss(self, pid):
        with open("/proc/%d/status" % pid) as f:
            row = {l.split(":")[0]: l.split()[1] for l in f if l.startswith("Rss")}
        return int(row["RssShmem"]) * 1024

    def cpu(self, pid):
        with open("/proc/%d/stat" % pid) as f:
            row = f.read().rsplit(")", 1)[1].split()
        return int(row[11]) + int(row[12])

    def log(self):
        with open(self.path("log")) as f:
            return f.read()

    def same(self, a, b):
        with open(self.path(a), "rb") as x, open(self.path(b), "rb") as y:
            self.assertEqual(x.read(), y.read())

    def test_memory_is_gone_and_bits_are_kept(self):
        alone = self.end(self.start("alone", ENV))
        job = self.shared("moved")
        name = self.going(job)["name"]
        for _ in range(3):
            self.say("suspend", name)
            out = self.in_state(job, SUSPENDED)
            self.assertEqual(0, self.status()["leased_bytes"])
            self.assertEqual(0, self.status()["kernel_bytes"])
            self.assertEqual(0, self.rss(job.pid))
            self.assertEqual([], os.listdir(self.path("spill")))
            before = self.cpu(job.pid)
            time.sleep(0.3)
            self.assertLessEqual(self.cpu(job.pid) - before, 2)
            self.say("resume", name)
            self.going(job, out["step_no"] + 2)
        moved = self.end(job)
        self.assertEqual(alone["loss"], moved["loss"])
        self.same("alone", "moved")

    def test_killed_while_out(self):
        job = self.shared("killed")
        self.say("suspend", self.going(job)["name"])
        self.in_state(job, SUSPENDED)
        job.kill()
        job.wait()
        self.until(lambda: not self.status()["jobs"], "the dead job is still listed")
        self.assertEqual(0, self.status()["leased_bytes"])
        self.assertEqual([], os.listdir(self.path("spill")))
        self.end(self.shared("next"))

    def spilled(self, pid):
        """Blocks of its files in the spill folder; they have no name there."""
        fds, blocks = "/proc/%d/fd" % pid, 0
        for n in os.listdir(fds):
            try:
                if os.readlink(os.path.join(fds, n)).startswith(self.path("spill")):
                    blocks += os.stat(os.path.join(fds, n)).st_blocks
            except OSError:
                continue
        return blocks

    def killed_while(self, job, name):
        """Stop the job as soon as bytes are in its spill file, so that it is half out; then kill it."""
        subprocess.Popen([ZICO, "suspend", name, "--socket", self.path("s")], env=ENV,
                         stdout=subprocess.DEVNULL).wait(timeout=30)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self.spilled(job.pid) > 0:
                os.kill(job.pid, signal.SIGSTOP)
                break
        state = self.job(job.pid)["state"]
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        return state

    def test_killed_while_moving_out(self):
        for _ in range(5):  # until it was caught half way
            job = self.shared("killed", "--batch", "4", net="resnet18:classes=10,size=32")
            state = self.killed_while(job, self.going(job)["name"])
            self.until(lambda: not self.status()["jobs"], "the dead job is still listed")
            self.assertEqual(0, self.status()["leased_bytes"])
            self.assertEqual([], os.listdir(self.path("spill")))
            if state == LEAVING:
                break
        self.assertEqual(LEAVING, state)
        self.end(self.shared("next"))

    def test_broker_dies_while_a_job_is_out(self):
        self.end(self.start("alone", ENV))
        job = self.shared("moved")
        name = self.going(job)["name"]
        self.say("suspend", name)
        self.in_state(job, SUSPENDED)
        old = self.status()["broker_pid"]
        os.kill(old, signal.SIGKILL)
        self.until(lambda: self.status().get("broker_pid", old) != old, "no successor")
        self.in_state(job, SUSPENDED)  # a person wanted it so: the successor knows
        time.sleep(0.5)
        self.in_state(job, SUSPENDED)
        self.say("resume", name)
        self.end(job)
        self.same("alone", "moved")

    def stopped(self, job, sig):
        job.send_signal(sig)
        out, err = job.communicate(timeout=60)
        self.assertEqual(STOPPED, job.returncode, err)
        return err

    def test_stopped_while_out(self):
        self.end(self.start("alone", ENV))
        job = self.shared("moved")
        self.say("suspend", self.going(job)["name"])
        self.in_state(job, SUSPENDED)
        self.assertIn("saved", self.stopped(job, signal.SIGTERM))
        self.end(self.start("moved", ENV, "--resume", self.path("moved")))
        self.same("alone", "moved")

    def test_stopped_while_it_waits(self):
        """For its turn, and for memory before its first step: it ends, and leaves nothing."""
        first = self.shared("first", "--batch", "4", net="resnet18:classes=10,size=32")
        self.say("pause", self.going(first)["name"])
        self.in_state(first, PAUSED)
        second = self.shared("second", "--batch", "4", net="resnet18:classes=10,size=32")
        self.until(lambda: self.job(second.pid) and self.job(second.pid)["asked_bytes"] > 0,
                   "the second does not wait")
        self.stopped(second, signal.SIGTERM)
        self.assertIn("saved", self.stopped(first, signal.SIGINT))
        self.until(lambda: not self.status()["jobs"], "a dead job is still listed")
        self.assertEqual(0, self.status()["leased_bytes"])

    def test_random_suspends(self):
        """Out and in at random moments, a dozen times (1,000 in the soak, ZI_SUSPENDS=N): no bit
        changes."""
        times = int(os.environ.get("ZI_SUSPENDS", "1000" if os.environ.get("ZI_SOAK") else "12"))
        r = random.Random(int(os.environ.get("ZI_SEED", "7")))
        # nobody reads its lines while it runs, and they would fill a pipe
        job = self.shared("moved", "--steps", "1000000", stdout=subprocess.DEVNULL)
        name = self.going(job)["name"]
        for _ in range(times):
            time.sleep(r.random() * 0.05)
            self.say("suspend", name)
            if r.random() < 0.7:
                self.in_state(job, SUSPENDED)
            self.say("resume", name)  # else it is called back while it moves out
            if r.random() < 0.5:
                self.going(job, self.job(job.pid)["step_no"] + 1)
        # mostly inside a step, which it finishes
        self.assertIn("saved " + self.path("moved"), self.stopped(job, signal.SIGTERM))
        with open(self.path("moved"), "rb") as f:
            head = f.read(int.from_bytes(f.read(8), "little"))
        steps = json.loads(head)["__metadata__"]["step"]
        alone = self.start("alone", ENV, "--steps", steps, stdout=subprocess.DEVNULL)
        self.assertEqual(0, alone.wait(timeout=600))
        self.same("alone", "moved")

    def test_disk_full(self):
        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
        job = self.shared("full", preexec_fn=small, restore_signals=False)
        name = self.going(job)["name"]
        self.say("suspend", name)
        self.until(lambda: "cannot be suspended" in self.log(), "the log does not say so")
        step = self.job(job.pid)["step_no"]
        j = self.going(job, step + 2)  # it stays and goes on
        self.assertIn("cannot be suspended", j["note"])


if __name__ == "__main__":
    unittest.main()
