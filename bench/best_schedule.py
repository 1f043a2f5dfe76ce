"""best_schedule.py -- of the gain that two jobs have without a limit, how much can any schedule keep in a budget?

    /usr/bin/python3 bench/best_schedule.py A.tide FIXED_A B.tide FIXED_B BUDGET...      bytes; tides as zico run --record keeps them

A schedule is a path over the plane of (how far A is in its step, how far B is in its own).  Both advance, which takes
2 / gain of the time of one alone, or only one does; a place where the two hold more than the budget is not entered.
The shortest path around, over a step or two of each, is found exactly on a grid of GRID places for the shorter step, from
every tenth of B's step.  Mispredictions, switching and learning cost nothing here: no policy can do better than this.
"""
import re
import sys

GRID = 100
INF = float("inf")


def read_tide(path):
    """(length, [(time, height)]) of a tide's text."""
    points, height, length = [], 0, 0
    with open(path, encoding="ascii") as f:
        for line in f:
            m = re.match(r"([+-])(\d+)([KMG]?) @(\d+)ns", line)
            if m:
                size = int(m[2]) << {"": 0, "K": 10, "M": 20, "G": 30}[m[3]]
                height += size if m[1] == "+" else -size
                points.append((int(m[4]), height))
            elif "length=" in line:
                length = int(re.search(r"length=(\d+)ns", line)[1])
    return length, points


def cells(tide, fixed, cell):
    """The most that is held in each cell of time; the first one lies between two steps."""
    length, points = tide
    out, held, k = [fixed], 0, 0
    for i in range(max(1, round(length / cell))):
        most = held
        while k < len(points) and points[k][0] < (i + 1) * cell:
            held = points[k][1]
            most = max(most, held)
            k += 1
        out.append(most + fixed)
    return out


def shortest(a, b, begin, steps, both, budget):
    """Time of the shortest path over so many steps of each, from B's place `begin`; one alone takes 1 for a cell."""
    n_a, n_b = len(a), len(b)
    before = None
    for i in range(n_a * steps[0] + 1):
        row = [INF] * (n_b * steps[1] + 1)
        for j in range(len(row)):
            if a[i % n_a] + b[(begin + j) % n_b] > budget:
                continue
            if i == 0 and j == 0:
                row[j] = 0
                continue
            least = row[j - 1] + 1 if j else INF
            if i:
                least = min(least, before[j] + 1)
            if i and j:
                least = min(least, before[j - 1] + both)
            row[j] = least
        before = row
    return before[-1]


def kept(tides, fixed, budget, gain):
    """Part of the gain (of both at once over one at a time) that the best schedule keeps."""
    cell = min(t[0] for t in tides) / GRID
    a, b = (cells(t, f, cell) for t, f in zip(tides, fixed))
    best = 0
    for steps in ((1, 1), (2, 1), (1, 2), (3, 2), (2, 3)):
        if not 0.75 < steps[0] * len(a) / (steps[1] * len(b)) < 1.34:
            continue  # one would have far more of the device than the other
        work = steps[0] * len(a) + steps[1] * len(b)
        for begin in range(0, len(b), max(1, len(b) // 10)):
            best = max(best, work / shortest(a, b, begin, steps, 2 / gain, budget) - 1)
    return best / (gain - 1)


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    tides = [read_tide(sys.argv[1]), read_tide(sys.argv[3])]
    fixed = [int(sys.argv[2]), int(sys.argv[4])]
    for budget in sys.argv[5:]:
        print(f"{int(budget) >> 20} MiB: {kept(tides, fixed, int(budget), 1.2):.2f} of the gain")


if __name__ == "__main__":
    main()
