"""drift.py -- by how much does this machine's speed differ from one stretch of time to the next?

    make release && /usr/bin/python3 bench/drift.py          three minutes, with nothing else on the machine

One network alone trains for a while, with all cores, with one, and two of it with one core each.  For stretches of one step, two,
four, ... it tells by how much a stretch differs from the next one (Allan deviation, percent of a step).  Where long stretches differ
as much as short ones a longer leg of bench/share.py tells no more than a short one, and only more of them do.
"""
import contextlib
import json
import os
import statistics
import subprocess
import sys

ZICO = os.path.join(os.environ.get("ZI_BUILD_DIR", "build/release"), "zico")
NETWORK = ["mobilenet_v2:classes=10,size=64", "--batch", "64", "--optimizer", "momentum"]
COLD = 4  # first steps that do not count
FEWEST = 6  # stretches of a length, or it is not told


@contextlib.contextmanager
def training(threads, steps):
    """A job in a session of its own, so that Ctrl-C ends it without a checkpoint; none is left behind."""
    process = subprocess.Popen(
        [ZICO, "train", *NETWORK, "--steps", str(steps), "--eval", "0", "--json", "--threads", str(threads)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=dict(os.environ, GOMP_SPINCOUNT="10000"))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def seconds_of_steps(process):
    """Of a job that has ended."""
    said = [json.loads(line) for line in process.communicate()[0].splitlines()]
    if process.returncode != 0:
        raise RuntimeError(f"zico train ended with {process.returncode}")
    return [s["device_ns"] / 1e9 for s in said if s["event"] == "step"][COLD:]


def allan(steps):
    """[(seconds, percent), ...]"""
    whole, out, n = statistics.mean(steps), [], 1
    while len(steps) // n >= FEWEST:
        means = [statistics.mean(steps[i * n:(i + 1) * n]) for i in range(len(steps) // n)]
        square = sum((a - b) ** 2 for a, b in zip(means, means[1:])) / (2 * (len(means) - 1))
        out.append((n * whole, 100 * square ** 0.5 / whole))
        n *= 2
    return out


def show(name, steps):
    print(f"{name:24} {statistics.mean(steps) * 1e3:5.0f} ms a step  "
          + "  ".join(f"{s:.1f} s: {p:.1f} %" for s, p in allan(steps)), flush=True)


def main():
    if not os.path.exists(ZICO):
        sys.exit(f"drift.py: there is no {ZICO}; make release, or set ZI_BUILD_DIR")
    with training(os.cpu_count(), 240) as one:
        show("all cores", seconds_of_steps(one))
    with training(1, 120) as one:
        show("one core", seconds_of_steps(one))
    with training(1, 120) as first, training(1, 120) as second:
        for i, process in enumerate([first, second]):
            show(f"one core each, {i + 1} of 2", seconds_of_steps(process))


if __name__ == "__main__":
    main()
