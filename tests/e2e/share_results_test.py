"""share_results_test -- sharing changes no bit, whatever happens to the others and to the broker.

timeout: 240
"""
import os
import signal
import unittest

import hooked
from hooked import MIB, Broker
from shared import NETS, Native, Sampler, job_of, status, wait_for

STEPS = 10


class Results(unittest.TestCase):
    def setUp(self):
        self.jobs = []

    def tearDown(self):
        for j in self.jobs:
            j.close()

    def start(self, *args, **more):
        job = Native(*args, **more)
        self.jobs.append(job)
        return job

    def test_same_bits(self):
        """Three jobs in two thirds of their memory; one of a fourth kind is killed on the way, and
        so is the broker: the three lose nothing, and the kernel never counts more than the budget."""
        alone = {}
        with Broker(1024 * MIB) as b:
            for name in NETS:
                alone[name] = self.start(name, STEPS, b.socket).losses()
            self.assertEqual([STEPS] * 3, [len(x) for x in alone.values()])
        with Broker(110 * MIB) as b:
            watch = Sampler(b.socket)
            watch.start()
            jobs = {n: self.start(n, STEPS, b.socket) for n in NETS}
            victim = self.start("victim", 1000, b.socket, net="conv")
            wait_for("the victim's second step",
                     lambda: (job_of(status(b.socket), "victim") or {}).get("step_no", 0) >= 2)
            victim.kill()
            wait_for("the victim's end", lambda: not job_of(status(b.socket), "victim"))
            pid = status(b.socket)["broker_pid"]
            os.kill(pid, signal.SIGKILL)
            together = {n: j.losses() for n, j in jobs.items()}
            most = watch.stop()
        for name in NETS:
            self.assertEqual(alone[name], together[name], name)
        self.assertLessEqual(most, 110 * MIB)
        self.assertGreater(most, 0)


if __name__ == "__main__":
    hooked.main()
