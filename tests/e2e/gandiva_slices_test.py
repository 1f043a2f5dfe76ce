#!/usr/bin/python3
"""Three jobs in the memory of one or two, in slices of a second: all finish, no bit changes; also
when the broker dies while one is out, and when a job dies as lanes change.

timeout: 300
"""
import json
import os
import signal
import subprocess
import time
import unittest

from trained import ZICO, Folder

SUSPENDED = 5  # zi_job_state
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
# large parameters, so that what stays between steps does not fit either
NETS = {"a": ("resnet18:classes=10,size=32", 8, 40), "b": ("resnet18:classes=10,size=32", 4, 50),
        "c": ("mobilenet_v2:size=32,classes=10", 16, 40)}


class Slices(Folder):
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

    # -- a broker of our own ----------------------------------------------------------------------

    def serve(self, policy, budget):
        self.broker = subprocess.Popen([ZICO, "serve", "--policy", policy, "--budget", str(budget),
                                        "--socket", self.path("b")], env=ENV,
                                       stderr=subprocess.DEVNULL)
        self.addCleanup(self.broker.wait, 30)
        self.addCleanup(self.broker.terminate)
        self.until(lambda: os.path.exists(self.path("b")))

    def start(self, save, net, batch, steps):
        job = subprocess.Popen([ZICO, "train", net, "--batch", str(batch), "--steps", str(steps),
                                "--threads", "1", "--eval", "0", "--quiet", "--save", self.path(save)],
                               env=dict(ENV, ZICO_SOCKET=self.path("b"), TMPDIR=self.dir),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def end(self, job):
        _, err = job.communicate(timeout=150)
        self.assertEqual(0, job.returncode, err)

    def status(self):
        done = subprocess.run([ZICO, "status", "--json", "--socket", self.path("b")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV, timeout=30)
        return json.loads(done.stdout.splitlines()[0]) if done.returncode == 0 else {"jobs": []}

    def until(self, look, seconds=90):
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            found = look()
            if found:
                return found
            time.sleep(0.02)
        self.fail("waited in vain")

    def test_broker_dies_while_one_is_out(self):
        """The policy moved it out, no person: the successor brings it back, and no bit changes."""
        net, batch, steps = "resnet18:classes=10,size=32", 4, 40
        NETS["d"] = (net, batch, steps)
        self.addCleanup(NETS.pop, "d")
        peak = self.alone("d")["peak_bytes"]
        self.serve("gandiva:slice=1", int(peak * 1.25) + (8 << 20))
        jobs = [self.start("d%d" % i, net, batch, steps) for i in range(2)]
        self.until(lambda: any(j["state"] == SUSPENDED for j in self.status()["jobs"]))
        os.kill(self.status()["broker_pid"], signal.SIGKILL)
        for job in jobs:
            self.end(job)
        for i in range(2):
            with open(self.path("d.alone"), "rb") as x, open(self.path("d%d" % i), "rb") as y:
                self.assertEqual(x.read(), y.read())

    def test_job_dies_as_lanes_change(self):
        """A newcomer changes the lanes and is killed in that moment: the others finish in theirs."""
        self.serve("salus:pack", 128 << 20)
        jobs = [self.start("l%d" % i, "resnet20", 16, 120) for i in range(2)]

        def lanes():
            return {j["pid"]: j["lane"] for j in self.status()["jobs"]}
        self.until(lambda: sum(l >= 0 for l in lanes().values()) == 2)
        late = self.start("late", "resnet20", 64, 1000)
        self.until(lambda: lanes().get(late.pid, -1) >= 0)
        late.kill()
        late.wait()
        self.until(lambda: late.pid not in lanes())
        for job in jobs:
            self.end(job)
        self.until(lambda: not self.status()["jobs"])
        self.assertEqual(0, self.status()["leased_bytes"])


if __name__ == "__main__":
    unittest.main()
