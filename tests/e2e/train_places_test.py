#!/usr/bin/python3
"""train_places_test -- in a broker each computing thread of a native job has a core of its own.

timeout: 120
"""
import os
import subprocess
import time
import unittest

import hooked
from hooked import MIB, Broker, clean_env

NET = ["mlp:hidden=512", "--batch", "256", "--optimizer", "sgd", "--steps", "1000000", "--eval", "0", "--quiet"]


def places(pid):
    """The sets of cores that threads of a process are kept to, and how many threads have each."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            cores = frozenset(os.sched_getaffinity(int(tid)))
        except OSError:
            continue
        found[cores] = found.get(cores, 0) + 1
    return found


@unittest.skipUnless(os.sched_getaffinity(0) == {0, 1}, "wants a machine with two cores")
class Places(unittest.TestCase):
    def start(self, broker, **env):
        e = clean_env(ZICO_SOCKET=broker.socket, **env)
        e.pop("OMP_NUM_THREADS", None)
        p = subprocess.Popen([hooked.ZICO, "train", *NET], env=e, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (p.kill(), p.communicate()))
        return p

    def wait_for(self, what, *jobs):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for j in jobs:
                self.assertIsNone(j.poll(), "a job ended")
            if what():
                return
            time.sleep(0.003)
        self.fail("never so: " + str([places(j.pid) for j in jobs]))

    def test_team_of_one_job(self):
        """Alone, one thread computes on each core."""
        with Broker(512 * MIB) as b:
            job = self.start(b)
            self.wait_for(lambda: {frozenset({0}), frozenset({1})} <= set(places(job.pid)), job)

    def test_two_jobs(self):
        """Beside each other, all that computes is on one core in the one and on the other in the other."""
        def apart():
            kept = [[c for c in places(j.pid) if len(c) == 1] for j in jobs]
            return all(len(k) == 1 for k in kept) and kept[0] != kept[1]

        with Broker(512 * MIB, "--policy", "spatial") as b:
            jobs = [self.start(b, ZICO_CORES="fixed:1"), self.start(b, ZICO_CORES="fixed:1")]
            self.wait_for(apart, *jobs)

    def test_as_the_user_wants_it(self):
        """Who has said where OpenMP's threads run is left alone."""
        with Broker(512 * MIB) as b:
            job = self.start(b, OMP_PLACES="{0:2}")
            self.wait_for(lambda: len(os.listdir(f"/proc/{job.pid}/task")) > 3, job)
            for _ in range(200):
                self.assertEqual({frozenset({0, 1})}, set(places(job.pid)))
                time.sleep(0.005)


if __name__ == "__main__":
    unittest.main()
