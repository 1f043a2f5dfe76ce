"""hook_places_test -- programs that compute at once run on cores of their own, and only inside their steps.

timeout: 120
"""
import json
import os
import signal
import subprocess
import unittest

import hooked
from hooked import MIB, PYTHON, Broker, clean_env, run

# Says where it is in its steps and between them, and where its children are.
PROGRAM = """
import os, subprocess, sys, time
import numpy as np
import zico

def cores(): return sorted(os.sched_getaffinity(0))
def child(*argv): return int(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
COUNT = "import os; print(len(os.sched_getaffinity(0)))"

zico.step()
for step in range(int(sys.argv[1])):
    blocks = [np.full(1 << 20, step, np.float32)]  # it begins
    for _ in range(20):
        print("in", time.monotonic(), *cores(), flush=True)
        blocks.append(np.full(1 << 18, step, np.float32))
        time.sleep(0.005)
    if step % 8 == 3:
        # our own cores may change while it starts, and it cannot tell then: three tries
        print("started", max(child(sys.executable, "-c", COUNT) for _ in range(3)))
        print("pinned", child("taskset", "-c", "1", sys.executable, "-c", COUNT))
        pid = os.fork()
        if pid == 0: os._exit(len(os.sched_getaffinity(0)))
        print("forked", os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
    del blocks
    zico.step()
    print("between", time.monotonic(), *cores(), flush=True)
    time.sleep(0.002)
"""


def told(out, word):
    return [line.split()[1:] for line in out.splitlines() if line.startswith(word + " ")]


@unittest.skipUnless(os.sched_getaffinity(0) == {0, 1}, "wants a machine with two cores")
class Places(unittest.TestCase):
    def start(self, broker, steps, name, **env):
        e = clean_env(PYTHONPATH=f"{hooked.SOURCE}/python", **env)
        e.pop("OMP_NUM_THREADS")
        p = subprocess.Popen(broker.command(PYTHON, "-c", PROGRAM, str(steps),
                                            options=["--cores", "follow", "--name", name]),
                             env=e, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (p.kill(), p.communicate()))
        return p

    def finish(self, p):
        out, err = p.communicate(timeout=100)
        self.assertEqual(0, p.returncode, err)
        for cores in told(out, "between"):
            self.assertEqual(["0", "1"], cores[1:])
        for word in ("started", "forked"):
            self.assertEqual({"2"}, {n for (n,) in told(out, word)}, word)
        self.assertEqual({"1"}, {n for (n,) in told(out, "pinned")})
        return out

    def test_alone(self):
        """All cores, in steps and between them."""
        with Broker(512 * MIB) as b:
            out = self.finish(self.start(b, 8, "one"))
        inside = [c[1:] for c in told(out, "in")]
        self.assertTrue(inside)
        self.assertTrue(all(c in (["0", "1"], ["0"]) for c in inside))  # or its own seat of the team

    def test_two(self):
        """Both cores come to be somebody's own while both compute; between steps, and for children, all are there."""
        with Broker(512 * MIB) as b:
            both = [self.start(b, 40, name) for name in ("one", "two")]
            outs = [self.finish(p) for p in both]
        alone = [{tuple(c[1:]) for c in told(out, "in")} for out in outs]
        self.assertTrue(any(("0",) in a for a in alone), alone)
        self.assertTrue(any(("1",) in a for a in alone), alone)

    def test_broker_dies(self):
        """Nobody stays on one core for good when the broker dies and another takes its place."""
        with Broker(512 * MIB) as b:
            both = [self.start(b, 40, name) for name in ("one", "two")]
            for p in both:
                p.stdout.readline()
            picture = run([hooked.ZICO, "status", "--json", "--socket", b.socket]).stdout
            os.kill(json.loads(picture)["broker_pid"], signal.SIGKILL)
            for p in both:
                self.finish(p)


if __name__ == "__main__":
    hooked.main()
