"""hook_promise_test -- programs that break their promise (--steady) wait for each other, and none is lost.

A claim sinks once a steady program is past its high tide, and others use what is free.  These two
rise again after it, both, so that each holds what the other waits for.  The broker then moves one of
them out in the middle of its step, with what it holds of the pool, and in again when the other is done.

timeout: 180
"""
import subprocess
import time
import unittest

import hooked
from hooked import MIB, PYTHON, Broker, clean_env, run

PEAK, FLOOR, FAITHFUL, STEPS = 20, 4, 8, 40  # blocks of 4 MiB; steps

PROGRAM = f"""
import time, sys
import numpy as np
import zico

def rise(blocks, step):
    while len(blocks) < {PEAK}:
        blocks.append(np.full(1 << 20, step * 100 + len(blocks), np.float32))
        time.sleep(0.001)

def fall(blocks, step):
    while len(blocks) > {FLOOR}:
        value = step * 100 + len(blocks) - 1
        block = blocks.pop()
        assert block.min() == block.max() == value, (step, value, block.min(), block.max())
        del block
        time.sleep(0.001)

zico.step()  # from here on it trains
for step in range({STEPS}):
    blocks = []
    for again in range(2 if step >= {FAITHFUL} else 1):
        rise(blocks, step)
        fall(blocks, step)
    blocks.clear()
    zico.step()
print("done", zico.stats()["n_asides"])
"""


class Promise(unittest.TestCase):
    def both_break_it(self):
        """Both finish, and the budget holds; how often one of them stepped aside."""
        with Broker(30 * 4 * MIB) as b:
            both = [subprocess.Popen(b.command(PYTHON, "-c", PROGRAM,
                                               options=["--cores", "own", "--steady", "--name", name]),
                                     env=clean_env(PYTHONPATH=f"{hooked.SOURCE}/python"),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for name in ("one", "two")]
            for p in both:
                self.addCleanup(lambda p=p: (p.kill(), p.communicate()))
            while any(p.poll() is None for p in both):
                time.sleep(0.1)
            ends = [(p.returncode, *p.communicate()) for p in both]
            seen = run([hooked.ZICO, "status", "--json", "--socket", b.socket]).stdout
        for code, out, err in ends:
            self.assertEqual((0, "done"), (code, out[:4]), err)
            self.assertNotIn("refused", err)
        self.assertIn('"n_over":0', seen.replace(" ", ""))
        return sum(int(out.split()[1]) for _, out, _ in ends)

    def test_both_break_it(self):
        """Each sees its own bytes in every block, also when it was moved out in between."""
        for _ in range(8):  # whether they meet is chance
            if self.both_break_it() > 0:
                return
        self.fail("nobody stepped aside in eight runs")


if __name__ == "__main__":
    hooked.main()
