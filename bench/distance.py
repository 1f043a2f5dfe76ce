"""distance.py -- how far apart the cores are while something is measured.

A virtual machine's cores move about the real ones.  While they share a cache, a network that trains with both is
half as fast again as while they do not, and two networks with a core each are not.  So benchmarks look where the
cores are, and tell figures for each distance by itself.
"""
import os
import subprocess
import threading
import time

BUILD = os.environ.get("ZI_BUILD_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/release"))
SAME = 2.0  # distances that differ by less are one
STRETCH = 2.0  # seconds with the cores where they are that are worth a figure


def cores_apart():
    """Nanoseconds from one core to another and back, now."""
    p = subprocess.run([os.path.join(BUILD, "bench", "cores_apart"), "2"], stdout=subprocess.PIPE, text=True,
                       check=True)
    return int(p.stdout)


def is_same(distances):
    return max(distances) <= SAME * min(distances)


def stretches(looks):
    """(time, distance) in order: cut where the cores moved."""
    found = [looks[:1]]
    for look in looks[1:]:
        if is_same([ns for _, ns in found[-1]] + [look[1]]):
            found[-1].append(look)
        else:
            found.append([look])
    return found


def length(stretch):
    return stretch[-1][0] - stretch[0][0]


def ranges(distances):
    """All distances seen, as (least, most) of those that are one."""
    found = []
    for ns in sorted(distances):
        if not found or ns > SAME * found[-1][0]:
            found.append([ns, ns])
        found[-1][1] = ns
    return found


class Looks:
    """Looks once a second, or as often as is said, as long as it is open."""

    def __init__(self, every=1.0):
        self.every = every
        self.looks = [(time.perf_counter(), cores_apart())]  # if it cannot be told, we hear of it here
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.every):
            self.looks.append((time.perf_counter(), cores_apart()))

    def within(self, begin, end):
        """Stretches between two times, each (begin, end, distance)."""
        seen = [x for x in self.looks if begin <= x[0] <= end]
        return [(s[0][0], s[-1][0], s[0][1]) for s in (stretches(seen) if seen else [])]

    def close(self):
        self.over.set()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
