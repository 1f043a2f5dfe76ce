#!/usr/bin/python3
"""pytorch_share -- unmodified PyTorch scripts under zico against the same scripts without it.

    pytorch_share.py [--rounds N] [--steps N] [--mixes 2,3,4] [--parts solo,mix,limit,threads]

solo     step time under the hook over plain, in turns, medians
mix      2, 3 and 4 scripts whose solo peaks add up to 160 % of the budget: one after the other
         (each alone with its best thread count), all at once without a limit, and under zico;
         the kernel's figures beside the broker's
limit    the same scripts without zico, each under its share of the same budget as ulimit -v:
         who dies
threads  the mix of two with the default thread counts (all cores each), without and with zico
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.environ.get("ZI_SOURCE_DIR", os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.environ.get("ZI_BUILD_DIR", os.path.join(SOURCE, "build/release"))
ZICO = os.path.join(BUILD, "zico")
PYTHON = "/usr/bin/python3"
MIB = 1 << 20

JOBS = [
    ["resnet.py", "--net", "resnet18", "--size", "96", "--batch", "72"],
    ["transformer.py", "--width", "128", "--batch", "32", "--length", "192"],
    ["resnet.py", "--net", "mobilenet_v2", "--size", "96", "--batch", "36"],
    ["lstm.py", "--hidden", "256", "--length", "160", "--batch", "128"],
]


def name(job):
    return job[2] if job[1] == "--net" else job[0][:-3]


def words(job, steps):
    return [PYTHON, os.path.join(SOURCE, "examples/pytorch", job[0]), *job[1:], "--steps", str(steps)]


def env(threads):
    e = {k: v for k, v in os.environ.items()
         if not k.startswith("ZICO_") and k not in ("LD_PRELOAD", "PYTHONPATH", "OMP_NUM_THREADS")}
    e["GOMP_SPINCOUNT"] = "10000"  # the same on all sides
    e["PYTHONDONTWRITEBYTECODE"] = "1"
    if threads:
        e["OMP_NUM_THREADS"] = str(threads)
    return e


def step_times(text):
    return [float(t) for t in re.findall(r"^step \d+ .* time (\S+)", text, re.M)][2:]


class Broker:
    def __init__(self, budget):
        self.dir = tempfile.TemporaryDirectory(prefix="zi-bench-")
        self.socket = os.path.join(self.dir.name, "b.sock")
        self.process = subprocess.Popen([ZICO, "serve", "--socket", self.socket, "--budget",
                                         str(budget)], env=env(0), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.01)

    def command(self, cmd, cores):
        return [ZICO, "run", "--socket", self.socket, "--cores", cores, "--", *cmd]

    def status(self):
        p = subprocess.run([ZICO, "status", "--json", "--socket", self.socket], env=env(0),
                           stdout=subprocess.PIPE, text=True)
        return json.loads(p.stdout) if p.returncode == 0 else None

    def pool_bytes(self, pid):
        """What the kernel has in the broker's memfds."""
        total = 0
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                if "memfd:" in os.readlink(path):
                    total += os.stat(path).st_blocks * 512
        except OSError:
            pass
        return total

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.dir.cleanup()


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            return int(re.search(r"Anonymous:\s+(\d+)", f.read()).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


def run_all(commands, envs, limit=None, watch=None):
    """Start all, wait for all.  Seconds, outcomes, and the highest sum that `watch` saw."""
    def bounded():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begin = time.perf_counter()
    procs = [subprocess.Popen(c, env=e, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=bounded) for c, e in zip(commands, envs)]
    out = [None] * len(procs)

    def collect(i):
        out[i] = procs[i].communicate()
    readers = [threading.Thread(target=collect, args=(i,)) for i in range(len(procs))]
    for r in readers:
        r.start()
    most = 0
    while any(p.poll() is None for p in procs):
        if watch:
            most = max(most, watch([p.pid for p in procs]))
        time.sleep(0.2)
    for r in readers:
        r.join()
    return time.perf_counter() - begin, [(p.returncode, *o) for p, o in zip(procs, out)], most


def must(outcomes):
    for code, _, err in outcomes:
        if code != 0:
            sys.exit(f"pytorch_share: a script failed ({code}):\n{err}")


def part_solo(args, jobs):
    print(f"{'solo, 1 thread':24} {'plain':>10} {'under zico':>10} {'ratio':>8}")
    for job in jobs:
        plain, under = [], []
        for _ in range(args.rounds):
            _, o, _ = run_all([words(job, args.steps)], [env(1)])
            must(o)
            plain += step_times(o[0][1])
            with Broker(8192 * MIB) as b:
                _, o, _ = run_all([b.command(words(job, args.steps), "fixed:1")], [env(1)])
                must(o)
                under += step_times(o[0][1])
        p, u = statistics.median(plain), statistics.median(under)
        print(f"{name(job):24} {p * 1e3:8.0f}ms {u * 1e3:8.0f}ms {u / p:8.3f}", flush=True)


def peak_of(job):
    with Broker(8192 * MIB) as b:
        _, o, _ = run_all([b.command(words(job, 4), "fixed:1")], [env(1)])
        must(o)
        return b.status()["peak_bytes"]


def baseline():
    """Anonymous memory of Python with torch imported, before any training."""
    p = subprocess.Popen([PYTHON, "-c", "import torch, torchvision, time; print('up', flush=True); "
                          "time.sleep(60)"], env=env(1), stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    size = anonymous(p.pid)
    p.kill()
    p.wait()
    return size


def best_alone(job, steps, cores):
    times = []
    for threads in sorted({1, cores}):
        t, o, _ = run_all([words(job, steps)], [env(threads)])
        must(o)
        times.append(t)
    return min(times)


def part_mix(args, jobs, peaks, base):
    cores = os.cpu_count() or 1
    alone = {name(j): best_alone(j, args.steps, cores) for j in jobs}
    print(f"\n{'mix':6} {'budget':>8} {'peak':>8} {'kernel':>8} {'allowed':>8} "
          f"{'in turn':>8} {'no limit':>8} {'zico':>8} {'gain':>6} {'kept':>6}")
    for n in args.mixes:
        mix = jobs[:n]
        budget = int(sum(peaks[name(j)] for j in mix) / 1.6)
        per_job = max(1, cores // n)
        turn = sum(alone[name(j)] for j in mix)
        free, o, _ = run_all([words(j, args.steps) for j in mix], [env(per_job)] * n)
        must(o)
        with Broker(budget) as b:
            pid = b.status()["broker_pid"]

            def real(pids):
                return sum(map(anonymous, pids)) + b.pool_bytes(pid)
            shared, o, kernel = run_all(
                [b.command(words(j, args.steps), f"fixed:{per_job}") for j in mix],
                [env(per_job)] * n, watch=real)
            must(o)
            peak = b.status()["peak_bytes"]
        gain, kept = turn / free, (turn / shared) / (turn / free)
        print(f"{n:<6} {budget >> 20:7}M {peak >> 20:7}M {kernel >> 20:7}M "
              f"{(budget + n * base) >> 20:7}M {turn:7.1f}s {free:7.1f}s {shared:7.1f}s "
              f"{gain:6.2f} {kept:6.2f}", flush=True)
        if peak > budget:
            sys.exit("pytorch_share: over budget")


def part_limit(args, jobs, peaks):
    p = subprocess.Popen([PYTHON, "-c", "import torch, torchvision; print('up', flush=True); input()"],
                         env=env(1), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
        virtual = int(re.search(r"VmPeak:\s+(\d+)", f.read()).group(1)) * 1024
    p.kill()
    p.wait()
    print("\nwithout zico, each under ulimit -v of its own baseline and its share of the budget")
    for n in args.mixes:
        mix = jobs[:n]
        share = int(sum(peaks[name(j)] for j in mix) / 1.6) // n
        _, o, _ = run_all([words(j, args.steps) for j in mix], [env(1)] * n, limit=virtual + share)
        ends = []
        for j, (code, _, err) in zip(mix, o):
            why = (err.strip().splitlines() or ["?"])[-1]
            ends.append(f"{name(j)} {'finishes' if code == 0 else 'dies: ' + why[:60]}")
        print(f"{n:<6} " + "; ".join(ends), flush=True)


def part_threads(args, jobs, peaks):
    mix = jobs[:2]
    budget = int(sum(peaks[name(j)] for j in mix) / 1.6)
    cores = os.cpu_count() or 1
    free, o, _ = run_all([words(j, args.steps) for j in mix], [env(cores)] * 2)
    must(o)
    with Broker(budget) as b:
        own, o, _ = run_all([b.command(words(j, args.steps), f"fixed:{cores}") for j in mix],
                            [env(cores)] * 2)
        must(o)
    with Broker(budget) as b:
        follow, o, _ = run_all([b.command(words(j, args.steps), "follow") for j in mix], [env(0)] * 2)
        must(o)
    print(f"\ntwo scripts with all {cores} cores each: no limit {free:.1f}s; zico's memory, same "
          f"threads {own:.1f}s; zico's memory and threads (follow) {follow:.1f}s", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--mixes", default="2,3,4")
    p.add_argument("--parts", default="solo,mix,limit,threads")
    args = p.parse_args()
    args.mixes = [int(n) for n in args.mixes.split(",")]
    parts = args.parts.split(",")
    jobs = JOBS[:max(args.mixes)]
    if "solo" in parts:
        part_solo(args, jobs)
    if set(parts) & {"mix", "limit", "threads"}:
        peaks = {name(j): peak_of(j) for j in jobs}
        base = baseline()
        print("\nsolo peaks: " + ", ".join(f"{k} {v >> 20} MiB" for k, v in peaks.items())
              + f"; baseline of a process {base >> 20} MiB", flush=True)
    if "mix" in parts:
        part_mix(args, jobs, peaks, base)
    if "limit" in parts:
        part_limit(args, jobs, peaks)
    if "threads" in parts:
        part_threads(args, jobs, peaks)


if __name__ == "__main__":
    main()
