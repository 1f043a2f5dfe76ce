"""zico_cycle_test -- which of several optimizers ends a step.  timeout: 30"""
import unittest

from zico.cycle import Cycle


def ends(cycle, text):
    return "".join("|" if cycle.step(c) else "." for c in text)


class CycleTest(unittest.TestCase):
    def test_one_optimizer(self):
        """Each step of a single optimizer ends a step."""
        self.assertEqual(ends(Cycle(), "AAAA"), "||||")

    def test_two_in_turn(self):
        """A B A B: once seen twice, only B ends the step."""
        self.assertEqual(ends(Cycle(), "ABABABAB"), "||||" + ".|.|")

    def test_five_to_one(self):
        """D D D D D G: the step ends at G."""
        c = Cycle()
        ends(c, "DDDDDG" * 2)
        self.assertEqual(ends(c, "DDDDDG" * 3), ".....|" * 3)

    def test_order_breaks(self):
        """When the order changes, learning begins anew and no end is lost meanwhile."""
        c = Cycle()
        ends(c, "ABAB")
        self.assertEqual(ends(c, "AB"), ".|")
        self.assertEqual(ends(c, "B"), "|")
        self.assertEqual(ends(c, "BBB"), "|||")

    def test_no_cycle(self):
        """An order that never repeats counts every step and keeps its memory bounded."""
        c = Cycle()
        n = 0
        for i in range(2000):
            n += c.step(bin(i).count("1") % 2)
        self.assertLessEqual(len(c.seen), 300)
        self.assertGreater(n, 500)


if __name__ == "__main__":
    unittest.main()
