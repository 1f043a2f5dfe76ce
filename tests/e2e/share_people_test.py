"""share_people_test -- what people do to jobs while they run: stop, pause, limit.

timeout: 240
"""
import signal
import subprocess
import unittest

import hooked
from hooked import MIB, Broker, clean_env
from shared import Native, job_of, status, wait_for


class People(unittest.TestCase):
    def setUp(self):
        self.jobs = []

    def tearDown(self):
        for j in self.jobs:
            j.close()

    def start(self, *args, **more):
        job = Native(*args, **more)
        self.jobs.append(job)
        return job

    def zico(self, broker, *words):
        return subprocess.run([hooked.ZICO, *words, "--socket", broker.socket], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_env(),
                              timeout=30, check=True).stdout

    def step(self, broker, name):
        return (job_of(status(broker.socket), name) or {}).get("step_no", 0)

    def step_goes_on(self, broker, name, by=2):
        now = self.step(broker, name)
        wait_for(f"{name} goes on", lambda: self.step(broker, name) >= now + by)

    def test_stopped(self):
        """A job is stopped in the middle of a step for a while.  A newcomer, which would have to be
        alone, waits and is told that somebody hangs; the small one beside it goes on; afterwards
        all go on."""
        with Broker(90 * MIB) as b:
            big = self.start("mobile", 100000, b.socket)
            wait_for("big learns", lambda: self.step(b, "mobile") >= 2)
            small = self.start("gpt", 100000, b.socket)
            wait_for("small learns", lambda: self.step(b, "gpt") >= 2)
            wait_for("big is in a step and holds memory", lambda: self.stop_inside(b, big))
            late = self.start("late", 100000, b.socket, net="mobile")
            wait_for("late is told of the hang",
                     lambda: any("hang" in j["reason_name"] for j in status(b.socket)["jobs"]
                                 if j["name"] != "mobile"), 60)
            self.step_goes_on(b, "gpt", 3)
            big.kill(signal.SIGCONT)
            self.step_goes_on(b, "late")
            self.step_goes_on(b, "mobile")
            self.step_goes_on(b, "gpt")
            self.assertIsNone(late.process.poll())
            self.assertIsNone(small.process.poll())

    def stop_inside(self, broker, job):
        """Stop the job; if that was between two steps, let it go on."""
        job.kill(signal.SIGSTOP)
        seen = job_of(status(broker.socket), job.name)
        if seen["state_name"] == "in step" and seen["step_bytes"] > 0:
            return True
        job.kill(signal.SIGCONT)
        return False

    def test_pause_and_limits(self):
        """Pause holds a job and resume frees it; the budget goes down and up while both run, and
        what they hold follows."""
        with Broker(160 * MIB) as b:
            self.start("mobile", 100000, b.socket)
            self.start("gpt", 100000, b.socket)
            self.step_goes_on(b, "mobile")
            self.step_goes_on(b, "gpt")
            self.zico(b, "pause", "mobile")
            held = wait_for("mobile is paused", lambda: (
                lambda j: j if "paused" in j["reason_name"] else None)(job_of(status(b.socket), "mobile")))
            self.step_goes_on(b, "gpt", 3)
            self.assertEqual(held["step_no"], self.step(b, "mobile"))
            self.zico(b, "limit", "--budget", "80M")
            wait_for("the budget sank", lambda: status(b.socket)["budget_bytes"] == 80 * MIB)
            self.assertLessEqual(status(b.socket)["kernel_bytes"], 80 * MIB)
            self.zico(b, "resume", "mobile")
            self.step_goes_on(b, "mobile")
            self.step_goes_on(b, "gpt")
            self.zico(b, "limit", "--budget", "160M")
            self.assertEqual(160 * MIB, status(b.socket)["budget_bytes"])
            self.step_goes_on(b, "mobile")
            self.assertEqual(0, status(b.socket)["n_over"])


if __name__ == "__main__":
    hooked.main()
