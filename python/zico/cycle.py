"""Which of several optimizers ends a step?  Learnt from the order in which they step.

One optimizer: each of its steps is one.  Several (a GAN, a sparse and a dense part): they take
turns in a cycle that repeats, such as D D D D D G; the step of the whole job ends when the
cycle does.  Until a cycle has been seen twice every optimizer's step counts, which is finer than
need be and harms nothing; when the order breaks, learning begins anew.
"""

LONGEST = 64


class Cycle:
    def __init__(self):
        self.seen = []    # who stepped, since learning began
        self.period = 0   # 0: not known yet
        self.place = 0    # steps of the present cycle that are done
        self.turns = []   # one cycle, once known

    def step(self, who):
        """`who` has stepped.  Does the job's step end here?"""
        if self.period:
            if self.turns[self.place] == who:
                self.place = (self.place + 1) % self.period
                return self.place == 0
            self.__init__()
        self.seen.append(who)
        self._learn()
        return True

    def _learn(self):
        n = len(self.seen)
        if n > 4 * LONGEST:
            del self.seen[:-2 * LONGEST]
            n = len(self.seen)
        if len(set(self.seen)) < 2:
            return
        for period in range(2, min(LONGEST, n // 2) + 1):
            turns = self.seen[-period:]
            # a cycle ends where its first turn is about to come again, having changed hands
            if turns == self.seen[-2 * period:-period] and turns[0] != turns[-1]:
                if set(turns) == set(self.seen):
                    self.period, self.turns, self.place = period, turns, 0
                    return
