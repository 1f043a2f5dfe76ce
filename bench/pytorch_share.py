#!/usr/bin/python3
"""pytorch_share -- unmodified PyTorch scripts under zico against the same scripts without it.

    pytorch_share.py [--parts solo,alone,steady,mix,limit,threads] [--mixes 2,3,4,2f,3f] [--jobs 0,1,2,3]
                     [--rounds N] [--steps N] [--seconds N] [--threads 1,2] [--cores follow]
                     [--unmarked] [--results FILE] [--report]

solo     step time under the hook over plain: both processes stay up and do --steps in turn, six times
         a round; medians, page faults and switches beside them
alone    each script by itself, without zico, with one thread and with all cores
mix      2, 3 and 4 scripts (MIXES below) whose solo peaks add up to 160 % of the budget: all at once without
         a limit (a core each), then under zico (--steady: these scripts repeat to the byte), from
         start to end; the kernel's figures beside the broker's; what jobs waited for
steady   the same, but for --seconds once they are under way (SETTLE): work done per time, where one
         second of work is what a script does in a second alone with its best thread count.  One
         after the other is 1 by this measure.  All of it wherever the machine's cores were (distance.py),
         and behind it for each distance by itself
limit    the same scripts without zico, each under its share of the same budget as ulimit -v:
         who dies
threads  the mix of two with the default thread counts (all cores each), without and with zico

solo comes first, then each round has alone and steady, so that what is compared is not far apart in time;
mix, limit and threads are done once.  Some 45 minutes with the defaults, and a line for each figure.
Every figure is a line of --results (default out/pytorch-share.jsonl, added to), so the parts may
run at different times; --report prints the tables from that file (medians) and runs nothing.  The
aims, and whether they were reached, are at the end.
"""
import argparse
import collections
import json
import math
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/e2e"))
from hooked import anonymous  # noqa: E402

import distance  # noqa: E402
from step_count import steps_between  # noqa: E402

SOURCE = os.path.abspath(os.environ.get("ZI_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..")))
BUILD = os.environ.get("ZI_BUILD_DIR", os.path.join(SOURCE, "build/release"))
ZICO = os.path.join(BUILD, "zico")
PYTHON = "/usr/bin/python3"
MIB = 1 << 20
REASONS = ("none memory unsafe queue limit tide turn learning admission paused suspended rejoin hang "
           "fairness").split()

# Each needs 500 MB and more by itself, little of it for good; `steps` makes it last about as long as the others.
Job = collections.namedtuple("Job", "name steps words")
JOBS = [
    Job("transformer", 13, ["transformer.py", "--width", "128", "--batch", "32", "--length", "192"]),
    Job("mobilenet_v2", 20, ["resnet.py", "--net", "mobilenet_v2", "--size", "96", "--batch", "36"]),
    Job("lstm", 7, ["lstm.py", "--hidden", "256", "--length", "160", "--batch", "128"]),
    Job("resnet18", 8, ["resnet.py", "--net", "resnet18", "--size", "96", "--batch", "72"]),
]


# The same script with another learning rate, as when one searches for the best.
AGAIN = Job("transformer again", 13, [*JOBS[0].words, "--lr", "0.0003", "--seed", "2"])

# Two that share a budget need tides that leave room for each other: the transformer's mean is half of its peak,
# mobilenet_v2's is 0.72 of it.  The mixes with an f (full) have little room by nature: by request only.
MIXES = {
    "2": [JOBS[0], AGAIN],
    "2f": [JOBS[0], JOBS[1]],
    "3": [JOBS[0], AGAIN, JOBS[2]],
    "3f": [JOBS[0], JOBS[1], JOBS[2]],
    "4": JOBS,
}


WARM_STEPS = 4  # make buffers, teach the broker; not counted
SETTLE = 20  # seconds after these: until then scripts still find out when to begin beside each other ...
SETTLE_ZICO = 60  # ... and the policy whether they should: it tries both ways first, some of the longest steps each
SOLO_TURNS = 6  # of each side in a round


def words(job, steps=None):
    return [PYTHON, os.path.join(SOURCE, "examples/pytorch", job.words[0]), *job.words[1:],
            "--steps", str(steps or job.steps)]


def env(threads):
    e = {k: v for k, v in os.environ.items()
         if not k.startswith("ZICO_") and k not in ("LD_PRELOAD", "PYTHONPATH", "OMP_NUM_THREADS")}
    e["GOMP_SPINCOUNT"] = "10000"  # the same on all sides
    e["PYTHONDONTWRITEBYTECODE"] = "1"
    if threads:
        e["OMP_NUM_THREADS"] = str(threads)
    return e


class Broker:
    def __init__(self, budget):
        self.dir = tempfile.TemporaryDirectory(prefix="zi-bench-")
        self.socket = os.path.join(self.dir.name, "b.sock")
        self.process = subprocess.Popen([ZICO, "serve", "--socket", self.socket, "--budget",
                                         str(budget)], env=env(0), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.01)
        self.pid = self.status()["broker_pid"]

    def command(self, cmd, cores):
        return [ZICO, "run", "--socket", self.socket, "--cores", cores, "--steady", "--",
                *cmd]

    def status(self):
        p = subprocess.run([ZICO, "status", "--json", "--socket", self.socket], env=env(0),
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return json.loads(p.stdout) if p.returncode == 0 else None

    def pool_bytes(self):
        """What the kernel has in the broker's memfds."""
        total, seen = 0, set()
        try:
            for fd in os.listdir(f"/proc/{self.pid}/fd"):
                path = f"/proc/{self.pid}/fd/{fd}"
                if "memfd:" not in os.readlink(path):
                    continue
                s = os.stat(path)
                if s.st_ino not in seen:
                    total += s.st_blocks * 512
                seen.add(s.st_ino)
        except OSError:
            pass
        return total

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.dir.cleanup()


class Watch:
    """Looks from outside while jobs run: the kernel's count of memory, and why jobs wait."""

    def __init__(self, broker):
        self.broker, self.most, self.waits, self.looks = broker, 0, collections.Counter(), 0

    def look(self, pids):
        self.most = max(self.most, sum(map(anonymous, pids)) + self.broker.pool_bytes())
        picture = self.broker.status()
        self.looks += 1
        for job in picture["jobs"] if picture else []:
            if job["reason"]:
                self.waits[REASONS[job["reason"]]] += 1


def run_all(commands, envs, limit=None, watch=None):
    """Start all, wait for all.  Seconds in all, and of each: exit code, output, errors, seconds."""
    def bounded():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begin = time.perf_counter()
    procs = [subprocess.Popen(c, env=e, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=bounded) for c, e in zip(commands, envs)]
    ends = [None] * len(procs)

    def collect(i):
        out, err = procs[i].communicate()
        ends[i] = (procs[i].returncode, out, err, time.perf_counter() - begin)
    readers = [threading.Thread(target=collect, args=(i,)) for i in range(len(procs))]
    for r in readers:
        r.start()
    while any(r.is_alive() for r in readers):
        if watch:
            watch.look([p.pid for p in procs if p.poll() is None])
        time.sleep(0.25)
    return max(e[3] for e in ends), ends


class Others:
    """Cores that programs other than ours kept busy meanwhile: more than a tenth spoils a figure."""

    def __init__(self):
        self.begin, self.used = time.perf_counter(), self.busy()

    @staticmethod
    def busy():
        with open("/proc/stat", encoding="ascii") as f:
            field = [int(n) for n in f.readline().split()[1:9]]
        all_cpu = (sum(field) - field[3] - field[4]) / os.sysconf("SC_CLK_TCK")
        return all_cpu - sum(sum(resource.getrusage(who)[:2])
                             for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    def cores(self):
        return round((self.busy() - self.used) / (time.perf_counter() - self.begin), 2)


def must(ends):
    for code, _, err, _ in ends:
        if code != 0:
            sys.exit(f"pytorch_share: a script failed ({code}):\n{err}")


class Results:
    def __init__(self, path):
        self.path = path
        os.makedirs(os.path.dirname(path), exist_ok=True)

    def add(self, **fields):
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(fields) + "\n")
        print(json.dumps(fields), flush=True)

    def of(self, part):
        try:
            with open(self.path, encoding="utf-8") as f:
                return [r for r in map(json.loads, f) if r["part"] == part]
        except OSError:
            return []


# -- measuring ---------------------------------------------------------------------------------------

# Runs an example script whose steps wait for the word: `steps` lines on stdin, one line of JSON each.
TURNS = """
import json, os, resource, runpy, sys, time
script, sys.argv = sys.argv[1], sys.argv[1:]
sys.path.insert(0, os.path.dirname(script))
import common

def usage():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return [u.ru_minflt, u.ru_nvcsw + u.ru_nivcsw, u.ru_utime, u.ru_stime]

class Turns:
    def __init__(self, pause=0.0):
        self.left = self.wait()
    def wait(self):
        n = int(sys.stdin.readline() or 0)
        if n == 0:
            os._exit(0)
        self.times, self.used, self.last = [], usage(), time.perf_counter()
        return n
    def step(self, i, loss):
        float(loss)
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last, self.left = now, self.left - 1
        if self.left == 0:
            used = [b - a for a, b in zip(self.used, usage())]
            print(json.dumps({"times": self.times, "used": used}), flush=True)
            self.left = self.wait()

common.Log = Turns
runpy.run_path(script, run_name="__main__")
"""


class Side:
    """One of two processes that stay up and take turns."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def go(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("pytorch_share: a script ended early")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        field = f.read().rpartition(")")[2].split()
    return (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")


def turns_of(args, job):
    """With -E Python does not look at PYTHONPATH, and nobody marks steps."""
    own = words(job, 1 << 20)
    return [own[0], *(["-E"] if args.unmarked else []), "-c", TURNS, *own[1:]]


def take_turns(args, job, threads, results):
    with Broker(8192 * MIB) as b, Side(turns_of(args, job), env(threads)) as plain, \
            Side(b.command(turns_of(args, job), f"fixed:{threads}"), env(threads)) as under:
        for side in (plain, under):
            side.go(WARM_STEPS)
        before = cpu_seconds(b.pid)
        for i in range(SOLO_TURNS * args.rounds):
            got = {}
            for name, side in ((("plain", plain), ("under", under))[::1 - 2 * (i % 2)]):
                got[name] = side.go(args.steps)
            name = job.name + (", no steps" if args.unmarked else "")
            results.add(part="solo", job=name, threads=threads, plain=got["plain"],
                        under=got["under"], peak=b.status()["peak_bytes"],
                        broker_cpu=(cpu_seconds(b.pid) - before) / (i + 1) / args.steps)


def part_solo(args, results):
    for threads in args.threads:
        for job in args.jobs:
            take_turns(args, job, threads, results)


def part_alone(args, results):
    for job in args.jobs:
        for threads in args.threads:
            others, begin = Others(), time.perf_counter()
            with distance.Looks() as looks:
                script = Clocked(words(job, job.steps + WARM_STEPS), env(threads))
                script.reader.join()
                code = script.process.wait()
            if code != 0:
                sys.exit(f"pytorch_share: {job.name} failed ({code})")
            results.add(part="alone", job=job.name, threads=threads,
                        seconds=script.ends[job.steps - 1] - begin,  # as many steps as in a mix
                        others=others.cores(),
                        seen=rates_in([script], looks, script.ends[WARM_STEPS - 1], script.ends[-1]))


def peaks(results):
    """The highest memory of each job by itself, with all cores as when it is alone: from the solo part, if it was there."""
    cores = os.cpu_count() or 1
    found = {r["job"]: r["peak"] for r in results.of("solo") + results.of("peak") if r["threads"] == cores}
    for job in JOBS:
        if job.name not in found:
            with Broker(8192 * MIB) as b:
                must(run_all([b.command(words(job, 4), f"fixed:{cores}")], [env(cores)])[1])
                found[job.name] = b.status()["peak_bytes"]
            results.add(part="peak", job=job.name, threads=cores, peak=found[job.name])
    found[AGAIN.name] = found[JOBS[0].name]
    return found


def budget_of(mix, peak):
    return int(sum(peak[j.name] for j in mix) / 1.6) // MIB * MIB


def import_only():
    """A Python with torch imported, before any training: anonymous bytes, and address space."""
    p = subprocess.Popen([PYTHON, "-c", "import torch, torchvision; print('up', flush=True); input()"],
                         env=env(1), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    size = anonymous(p.pid)
    with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
        virtual = int(re.search(r"VmPeak:\s+(\d+)", f.read()).group(1)) * 1024
    p.communicate("\n")
    return size, virtual


def each_mix(args, results):
    """Every mix: its name, jobs, how many, the budget, threads for each of them."""
    peak = peaks(results)
    for name in args.mixes:
        mix = MIXES[name]
        yield (name, mix, len(mix), budget_of(mix, peak),
               max(1, (os.cpu_count() or 1) // len(mix)))


def part_mix(args, results):
    peak = peaks(results)
    base, _ = import_only()
    for name, mix, n, budget, threads in each_mix(args, results):
        others = Others()
        free, ends = run_all([words(j) for j in mix], [env(threads)] * n)
        must(ends)
        with Broker(budget) as b:
            watch = Watch(b)
            follow = args.cores == "follow"
            shared, ends = run_all([b.command(words(j), args.cores) for j in mix],
                                   [env(0 if follow else threads)] * n, watch=watch)
            must(ends)
            booked = b.status()["peak_bytes"]
        results.add(part="mix", n=name, jobs=[j.name for j in mix], free=free, zico=shared,
                    budget=budget, peaks=sum(peak[j.name] for j in mix), booked=booked,
                    kernel=watch.most, baseline=n * base, looks=watch.looks,
                    waits=dict(watch.waits), ends=[round(e[3], 1) for e in ends],
                    others=others.cores())
        if booked > budget:
            sys.exit("pytorch_share: over budget")


class Clocked:
    """A script that goes on for ever; when each of its steps ended."""

    def __init__(self, command, environment):
        self.ends = []
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("step "):
                self.ends.append(time.perf_counter())

    def steps(self, begin, end):
        return steps_between(self.ends, begin, end)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()


def await_all(scripts, done, watch=None):
    """Until done() holds of every script; looked at meanwhile, if there is a watch."""
    while not all(done(s) for s in scripts):
        if watch:
            watch.look([s.process.pid for s in scripts])
        time.sleep(0.25)
        if any(s.process.poll() is not None for s in scripts):
            sys.exit("pytorch_share: a script ended early")


def rates_in(scripts, looks, begin, end):
    """[distance of the cores, seconds, steps per second of each]: of the whole time, where the distance is
    None, and of each stretch in which they stayed."""
    still = [x for x in looks.within(begin, end) if x[1] - x[0] >= distance.STRETCH]
    return [[ns, b - a, [s.steps(a, b) / (b - a) for s in scripts]] for a, b, ns in [(begin, end, None), *still]]


def rates(args, commands, environment, watch=None):
    """Steps per second of each, all at once, once they have settled after everybody has done WARM_STEPS.  Looking at memory costs 33 ms of a
    core (the kernel counts pages one by one), so it is done afterwards, for a third of the time."""
    scripts, looks = [Clocked(c, environment) for c in commands], distance.Looks()
    try:
        await_all(scripts, lambda s: len(s.ends) > WARM_STEPS, watch)
        begin = time.perf_counter() + (SETTLE_ZICO if watch else SETTLE)
        await_all(scripts, lambda _: time.perf_counter() >= begin)
        if watch:
            watch.waits.clear()
            watch.looks = 0
        end = begin + args.seconds
        # to the last whole step of everybody, so that no part of one is guessed
        await_all(scripts, lambda s: s.ends[-1] >= end)
        if watch:
            until = time.perf_counter() + args.seconds / 3
            await_all(scripts, lambda _: time.perf_counter() >= until, watch)
        return rates_in(scripts, looks, begin, end)
    finally:
        looks.close()
        for s in scripts:
            s.stop()


def part_steady(args, results):
    base, _ = import_only()
    for name, mix, n, budget, threads in each_mix(args, results):
        commands = [words(j, 1 << 20) for j in mix]
        others = Others()
        free = rates(args, commands, env(threads))
        with Broker(budget) as b:
            watch = Watch(b)
            zico = rates(args, [b.command(c, args.cores) for c in commands],
                         env(0 if args.cores == "follow" else threads), watch)
            booked = b.status()["peak_bytes"]
        results.add(part="steady", n=name, jobs=[j.name for j in mix], free=free, zico=zico,
                    budget=budget, booked=booked, kernel=watch.most, baseline=n * base,
                    looks=watch.looks, waits=dict(watch.waits), cores=args.cores,
                    others=others.cores())
        if booked > budget:
            sys.exit("pytorch_share: over budget")


def part_limit(args, results):
    peak = peaks(results)
    _, virtual = import_only()
    for name in args.mixes:
        mix = MIXES[name]
        n = len(mix)
        share = budget_of(mix, peak) // n
        _, ends = run_all([words(j, 4) for j in mix], [env(1)] * n, limit=virtual + share)
        for j, (code, _, err, _) in zip(mix, ends):
            why = (err.strip().splitlines() or [""])[-1]
            results.add(part="limit", n=name, job=j.name, share=share, code=code, why=why[:160])


def part_threads(args, results):
    mix, cores = MIXES["2"], os.cpu_count() or 1
    budget = budget_of(mix, peaks(results))
    free, ends = run_all([words(j) for j in mix], [env(cores)] * 2)
    must(ends)
    times = {}
    for how in (f"fixed:{cores}", "follow"):
        with Broker(budget) as b:
            times[how], ends = run_all([b.command(words(j), how) for j in mix],
                                       [env(cores if how != "follow" else 0)] * 2)
            must(ends)
    results.add(part="threads", cores=cores, free=free, fixed=times[f"fixed:{cores}"],
                follow=times["follow"])


PARTS = {"solo": part_solo, "alone": part_alone, "steady": part_steady, "mix": part_mix, "limit": part_limit,
         "threads": part_threads}


def measure(args, results):
    """What is compared with each other is taken in turn, round by round."""
    for names, times in ((["solo"], 1), (["alone", "steady"], args.rounds), (["mix", "limit", "threads"], 1)):
        for name in [n for n in names if n in args.parts] * times:
            PARTS[name](args, results)


# -- telling -------------------------------------------------------------------------------------------

def median_of(rows, field):
    return statistics.median(r[field] for r in rows)


def interval(values):
    """Where the median lies, with 95 % and more from six values on (order statistics)."""
    v, cut = sorted(values), 0
    n = len(v)
    while n and 2 * sum(math.comb(n, i) for i in range(cut + 1)) / 2 ** n <= 0.05:
        cut += 1
    cut = max(cut - 1, 0)
    return v[cut], v[n - 1 - cut]


def report_solo(results):
    """The ratios that were found, with their names."""
    found = []
    rows = results.of("solo")
    if rows:
        print("| script, threads | solo peak | step, plain | step, under zico | ratio (95 %) | rounds | faults a step "
              "| switches a step | system time | broker |\n| --- " + "| ---: " * 9 + "|")
    for job, threads in sorted({(r["job"], r["threads"]) for r in rows}, key=lambda k: (k[1], k[0])):
        mine = [r for r in rows if (r["job"], r["threads"]) == (job, threads)]
        step = {s: [statistics.median(r[s]["times"]) for r in mine] for s in ("plain", "under")}
        ratio = [u / p for u, p in zip(step["under"], step["plain"])]
        low, high = interval(ratio)

        def used(what, scale=1):
            each = {s: [r[s]["used"][what] / len(r[s]["times"]) * scale for r in mine] for s in step}
            return " / ".join(f"{statistics.median(v):.0f}" for v in each.values())
        print(f"| {job}, {threads} | {mine[-1]['peak'] >> 20} MiB | "
              f"{statistics.median(step['plain']) * 1e3:.0f} ms | {statistics.median(step['under']) * 1e3:.0f} ms | "
              f"{statistics.median(ratio):.3f} ({low:.3f} to {high:.3f}) | {len(mine)} | {used(0)} | {used(1)} | "
              f"{used(3, 1000)} ms | {mine[-1]['broker_cpu'] * 1e3:.1f} ms |")
        found.append((f"{job}, {threads}", statistics.median(ratio)))
    return found


def with_again(of_job):
    if JOBS[0].name in of_job:
        of_job[AGAIN.name] = of_job[JOBS[0].name]
    return of_job


def best_alone(results):
    best = {}
    for r in results.of("alone"):
        best.setdefault(r["job"], collections.defaultdict(list))[r["threads"]].append(r["seconds"])
    return with_again({job: min((statistics.median(t), n) for n, t in by.items())
                       for job, by in best.items()})


def report_mix(results):
    alone = best_alone(results)
    if alone:
        print("\nalone, best thread count: " + ", ".join(
            f"{job} {t:.1f} s ({n})" for job, (t, n) in alone.items()))
    rows = results.of("mix")
    if not rows:
        return
    print("\n| scripts | budget of the peaks | highest by the book | by the kernel | allowed | in turn "
          "| no limit | zico | gain, no limit | gain, zico | kept |\n" + "| ---: " * 11 + "|")
    for n in sorted({r["n"] for r in rows}):
        mine = [r for r in rows if r["n"] == n]
        last, free, zico = mine[-1], median_of(mine, "free"), median_of(mine, "zico")
        turn = sum(alone[j][0] for j in last["jobs"]) if set(last["jobs"]) <= set(alone) else None
        gains = (f"{turn / free:.2f} | {turn / zico:.2f} | {(turn / zico) / (turn / free):.2f}"
                 if turn else "| |")
        print(f"| {n} | {last['budget'] >> 20} of {last['peaks'] >> 20} MiB | "
              f"{max(r['booked'] for r in mine) >> 20} MiB | "
              f"{max(r['kernel'] for r in mine) >> 20} MiB | "
              f"{(last['budget'] + last['baseline']) >> 20} MiB | "
              f"{f'{turn:.1f} s' if turn else '?'} | {free:.1f} s | {zico:.1f} s | {gains} |")
    for r in rows:
        print(f"  {r['n']}: {r['looks']} looks, waits {r['waits']}, ends {r['ends']}")


def stretches_near(found, near):
    """Of what rates_in found: (seconds, steps per second) with the cores so far apart; wherever they were if near is None."""
    return [(seconds, rate) for ns, seconds, rate in found
            if (ns is None if near is None else ns is not None and near[0] <= ns <= near[1])]


def rate_near(found, near):
    """Steps per second over all stretches with the cores so far apart, weighted by their length; None: there are none."""
    mine = stretches_near(found, near)
    total = sum(seconds for seconds, _ in mine)
    return [sum(t * r for (t, _), r in zip(mine, each)) / total
            for each in zip(*(rate for _, rate in mine))] if mine else None


def best_steps(results, near):
    """Each job's step alone with its best thread count, while the cores were so far apart."""
    found = collections.defaultdict(list)
    for r in results.of("alone"):
        found[r["job"], r["threads"]] += r["seen"]
    best = {}
    for (job, threads), seen in found.items():
        rate = rate_near(seen, near)
        if rate and (job not in best or 1 / rate[0] < best[job][0]):
            best[job] = (1 / rate[0], threads)
    return with_again(best)


def show_mix_near(n, rows, solo, near):
    """One line of the table of mixes, if everything was measured with the cores so far apart; the part of the gain
    that was kept, of the better side if there is no gain to have, else None."""
    last, work = rows[-1], {}
    if not set(last["jobs"]) <= set(solo):
        return None
    for side in ("free", "zico"):
        rate = rate_near([x for r in rows for x in r[side]], near)
        if not rate:
            return None
        work[side] = [x * solo[job][0] for x, job in zip(rate, last["jobs"])]
    free, zico = sum(work["free"]), sum(work["zico"])
    has_gain = free >= 1.05
    kept = (zico - 1) / (free - 1) if has_gain else zico / max(1, free)
    gain = f"{kept:.2f}" if has_gain else f"none to have; {kept:.2f} of the better"
    seconds = {side: sum(t for r in rows for t, _ in stretches_near(r[side], near)) for side in work}
    print(f"| {n} | {last['budget'] >> 20} MiB | {max(r['booked'] for r in rows) >> 20} MiB | "
          f"{max(r['kernel'] for r in rows) >> 20} MiB | {(last['budget'] + last['baseline']) >> 20} MiB | 1 | "
          f"{free:.2f} | {zico:.2f} | {gain} | {min(work['zico']) * len(work['zico']):.2f} | "
          f"{seconds['free']:.0f} and {seconds['zico']:.0f} s |")
    return kept


def show_mixes_near(results, rows, near, where):
    """What was kept of the gains, with the mixes' names, while the cores were so far apart."""
    found, solo = [], best_steps(results, near)
    print(f"\n{where}; steps alone, best thread count: " + ", ".join(
        f"{job} {t * 1e3:.0f} ms ({n})" for job, (t, n) in solo.items()))
    print("\n| scripts | budget | by the book | by the kernel | allowed | one after the other | no limit | zico "
          "| of the gain | slowest script, zico over its turn | measured |\n" + "| ---: " * 11 + "|")
    for n in sorted({r["n"] for r in rows}):
        kept = show_mix_near(n, [r for r in rows if r["n"] == n], solo, near)
        if kept is not None:
            found.append((n, kept))
    return found


def report_steady(results):
    """What was kept of the gains.  Programs that wake each other's cores draw these together and programs that do not let
    them drift apart, so the distance is in part an effect of what runs: the aim is judged wherever they were."""
    rows = results.of("steady")
    if not rows:
        return []
    seen = [x for r in rows for side in ("free", "zico") for x in r[side]]
    seen += [x for r in results.of("alone") for x in r["seen"]]
    found = show_mixes_near(results, rows, None, "wherever the cores were")
    for near in distance.ranges(x[0] for x in seen if x[0] is not None):
        show_mixes_near(results, rows, near, f"of these, cores {near[0]} to {near[1]} ns apart")
    for r in rows:
        print(f"  {r['n']}: {r['looks']} looks, waits {r['waits']}, cores {r['cores']}")
    return found


def report_rest(results):
    for r in results.of("limit"):
        end = "finishes" if r["code"] == 0 else "dies: " + r["why"]
        print(f"  {r['n']} scripts, ulimit -v of baseline + {r['share'] >> 20} MiB each: "
              f"{r['job']} {end}")
    rows = results.of("threads")
    if rows:
        print(f"\ntwo scripts, all {rows[-1]['cores']} cores each: no limit "
              f"{median_of(rows, 'free'):.1f} s; zico's memory, same threads "
              f"{median_of(rows, 'fixed'):.1f} s; zico's memory and threads "
              f"{median_of(rows, 'follow'):.1f} s")


def known(parser, option, text, allowed):
    """A list of words with commas between them, each of which must be known."""
    words_said, allowed = text.split(","), list(allowed)
    for word in words_said:
        if word not in allowed:
            parser.error(f"--{option} {word}: not one of {', '.join(allowed)}")
    return words_said


def show_aim(aim, found, is_met):
    """found: (name, figure); nothing is said of what was not measured."""
    missed = [f"{name} {figure:.2f}" for name, figure in found if not is_met(figure)]
    if found:
        print(f"  {aim}: " + ("MISSED by " + "; ".join(missed) if missed else f"reached by all {len(found)}"))


def report_aims(results, solo, kept):
    mixes = results.of("mix") + results.of("steady")
    dead = results.of("limit")
    print("\naims:")
    show_aim("a step alone under the hook at most 1.01 of plain", solo, lambda x: x <= 1.01)
    show_aim("at least 0.9 of the gain without a limit", kept, lambda x: x >= 0.9)
    show_aim("by the book never over the budget", [(r["n"], r["booked"] / r["budget"]) for r in mixes],
             lambda x: x <= 1)
    show_aim("by the kernel never over budget and baselines",
             [(r["n"], r["kernel"] / (r["budget"] + r["baseline"])) for r in mixes], lambda x: x <= 1)
    show_aim("without zico, under the same limit, somebody dies (scripts that do)",
             [(n, sum(r["code"] != 0 for r in dead if r["n"] == n)) for n in sorted({r["n"] for r in dead})],
             lambda x: x >= 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=1, help="a turn of the solo part")
    p.add_argument("--seconds", type=float, default=24, help="of the steady part, each side")
    p.add_argument("--unmarked", action="store_true", help="solo: scripts whose steps nobody marks")
    p.add_argument("--cores", default="follow", help="of zico's side: follow or fixed:N")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--mixes", default="2,3,4")
    p.add_argument("--jobs", default="0,1,2,3")
    p.add_argument("--parts", default=",".join(PARTS))
    p.add_argument("--results", default=os.path.join(SOURCE, "out/pytorch-share.jsonl"))
    p.add_argument("--report", action="store_true")
    args = p.parse_args()
    args.threads = [int(n) for n in args.threads.split(",")]
    args.mixes = known(p, "mixes", args.mixes, MIXES)
    args.parts = known(p, "parts", args.parts, PARTS)
    args.jobs = [JOBS[int(i)] for i in known(p, "jobs", args.jobs, map(str, range(len(JOBS))))]
    results = Results(os.path.abspath(args.results))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("pytorch_share: ended by a signal"))
    if not args.report:
        measure(args, results)
    solo = report_solo(results)
    report_mix(results)
    kept = report_steady(results)
    report_rest(results)
    report_aims(results, solo, kept)


if __name__ == "__main__":
    main()
