"""share.py -- many jobs, one budget: zico against time multiplexing and against no limit at all.

    make bench-share                          everything; about two and a half hours
    tools/bench-share.sh --quick              two mixes; about 20 minutes
    tools/bench-share.sh --mix pair-same      one mix in about twelve minutes, appended
    tools/bench-share.sh --mix three --legs temporal,spatial,zico-65
    tools/bench-share.sh --report             tables and picture of all that was appended

A machine drifts by more than policies differ.  So all that is to be compared is there at the same time, and has the machine in
turn, some seconds each (a *leg*), round after round: for each budget a broker with jobs of its own, and
within a broker the policies (`--policy relay:...`, src/policy/relay.c).  While others have their legs, a broker's jobs wait.

    temporal    one step at a time, the runner has all cores; the yardstick, several times in each round
    spatial     as much memory as all want together: what sharing can gain at most
    zico-N      at N = 100, 80, 65 and 55 % of the sum of solo peaks
    reserve-N   spatial at 80 and 65 %: cores are divided, but peaks are reserved; who does not fit waits
    hold-65     zico at 65 %, jobs give memory back only at the end of a step (ZICO_HOLD=step)
    whole-65    zico at 65 %, each job keeps all cores (ZICO_CORES): cores are not divided
    full-N      zico at 80 and 65 %, and nobody is asked to plan for less (zico:full)

Progress is a job's rate in a leg relative to what taking turns would have given it there: its rate in all temporal legs of the
run, times how fast the machine was in the two around this leg (all jobs together, as of a single job few steps end in a leg);
of a mix, the mean over its jobs; over all legs, Hodges and Lehmann's median with Wilcoxon's 95 % interval (of fewer than six:
their range). A single job's is that times its part of what all made in all legs together, as who has a step more in one leg has one
less in the next. temporal itself is judged in the same way, by the temporal legs around it: that should be 1, and tells how far the
other figures can be trusted. Gain captured = (zico - 1) / (spatial - 1), legs with the cores in one place (below) with such. A step counts for the part of its kernels' time that
lies within the leg. Before all rounds each broker of zico has the machine for itself for a minute and four seconds a job (--learn):
memory is touched for the first time, tides are learnt, and whether sharing pays. In legs of six seconds now and then that would take
a policy an hour, and training lasts for hours. --learn 0 tells what jobs get in their first minutes. Memory is what the kernel says: a process of its own looks at the blocks of the pool's memfd every 20 ms, plus
what the jobs charged. How busy others kept the machine is recorded with each leg; legs with more than 0.15 cores of foreign
load are left out.

A virtual machine's cores move about the real ones: for some seconds or minutes they share a cache, then they do not, and then a
network that has both is half as slow again, while two with one each are not.  bench/cores_apart looks where they are.  A leg is
judged by those of turns before and after it in which the cores were where they were in it, and one within which they moved by
those next to it.  Progress is told for both places besides: near each other, and far.
"""
import argparse
import contextlib
import json
import multiprocessing
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import best_schedule
import distance

BUILD = os.environ.get("ZI_BUILD_DIR", "build/release")
ZICO = os.path.join(BUILD, "zico")
MIB = 1 << 20

# name: network, batch, optimizer, more.  Peak at least 300 MB, of which a tenth or less stays.
JOBS = {
    "mobile": ("mobilenet_v2:classes=10,size=64", 64, "momentum"),
    "dense": ("densenet121:classes=10,size=64", 28, "sgd"),
    "unet": ("unet:classes=2,size=64,width=16", 56, "momentum"),
    "resnet20": ("resnet20:classes=10", 192, "momentum"),
    "lstm": ("lstm_lm:vocab=4000,width=100,hidden=100,layers=2,seq=35", 384, "sgd"),
    "gpt": ("gpt:vocab=256,seq=128,width=192,layers=4,heads=4", 40, "momentum"),
    # many small kernels: whether one core or all are best for them is measured first (FEW)
    "small": ("lstm_lm:vocab=64,width=32,hidden=32,layers=3,seq=600", 144, "sgd"),
    "thin": ("gpt:vocab=128,seq=64,width=32,layers=12,heads=4", 128, "momentum"),
    # waits for its data more than half of the time; no more than a batch lies ready when its broker's leg begins
    "loaded": ("mobilenet_v2:classes=10,size=64", 64, "momentum", "--loader-pause", "300", "--prefetch", "2"),
}
STIFF = ["small"]  # too many nodes to plan anew while others wait (engine.c)
FEW = ["small", "thin"]  # jobs that get one core under every policy, if alone they are no slower so
MIXES = {
    "pair-same": ["mobile", "mobile"],
    "pair-long-short": ["dense", "mobile"],
    "pair-small": ["small", "small"],
    "pair-data": ["loaded", "small"],
    "three": ["mobile", "unet", "lstm"],
    "three-small": ["small", "small", "thin"],
    "four-light": ["small", "small", "thin", "loaded"],
    "four": ["mobile", "dense", "unet", "gpt"],
    "eight": ["mobile", "dense", "unet", "gpt", "mobile", "resnet20", "unet", "lstm"],
}
SPLIT = ["pair-small", "three-small", "three"]  # where a whole run also switches off one thing at a time
BUDGETS = [100, 80, 65, 55]
# name: (policy, budget in % of the sum of solo peaks, environment of the jobs)
LEGS = {"temporal": ("temporal", None, {}), "spatial": ("spatial", 130, {}), "zico-100": ("zico", 100, {}),
        "zico-80": ("zico", 80, {}), "reserve-80": ("spatial", 80, {}),
        "zico-65": ("zico", 65, {}), "reserve-65": ("spatial", 65, {}), "zico-55": ("zico", 55, {}),
        "hold-65": ("zico", 65, {"ZICO_HOLD": "step"}),
        "whole-65": ("zico", 65, {"ZICO_CORES": f"fixed:{os.cpu_count()}"})}
LEGS |= {"full-80": ("zico:full", 80, {}), "full-65": ("zico:full", 65, {})}
ONE_LESS = ["hold-65", "whole-65", "full-80", "full-65"]
SHORT = {"temporal": "t", "spatial": "sp", "zico": "z", "zico:full": "zico:full"}  # as names on the wire are
WARM = 4  # steps of each job before anything is counted
START = 4  # seconds for a broker and its jobs to start
FIRST = 4  # ... for each job's first steps, alone
LOOK = 0.5  # seconds from one look at the cores' distance to the next; each takes 3 ms
NEAR = 130  # nanoseconds from one core to the other and back, if they share a cache
LONG = 9  # seconds of a leg, for long steps: a trial (policy/trial.h) has to fit into one
SETTLE = 1.0  # seconds of each leg that are not counted: steps of the leg before end, and data was fetched meanwhile
WAITS = 0.05  # seconds from step to step: who takes longer waits for data, which its loader prepares meanwhile
JUDGED = 1.15  # gains are judged on mixes that gain so much without a limit
MOVED = 0.15  # part of a leg for which the cores may be elsewhere without having moved
QUIET = 0.15  # cores that others may use while we measure


def status(socket):
    p = subprocess.run([ZICO, "status", "--json", "--socket", socket], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True)
    return json.loads(p.stdout) if p.returncode == 0 else None


def find_pool(pid):
    """The pool's memfd, the largest of the broker's: a path under /proc."""
    sizes = {}
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            if "memfd:" in os.readlink(f"{folder}/{fd}"):
                sizes[f"{folder}/{fd}"] = os.stat(f"{folder}/{fd}").st_size
    return max(sizes, key=sizes.get)


def sample_memory(pid, pipe):
    """A process of its own: after "go" it looks every 20 ms until it is asked for the highest count of bytes that the kernel
    keeps for the pool."""
    pool = find_pool(pid)
    while True:
        pipe.recv()
        most = 0
        while not pipe.poll(0.02):
            with contextlib.suppress(OSError):
                most = max(most, os.stat(pool).st_blocks * 512)
        pipe.recv()
        pipe.send(most)


def cpu_used():
    """Seconds of all cores in use since boot."""
    with open("/proc/stat", encoding="ascii") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (v[0] + v[1] + v[2] + v[5] + v[6]) / os.sysconf("SC_CLK_TCK")


def cpu_of(pids):
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                v = f.read().rsplit(")", 1)[1].split()
            total += int(v[11]) + int(v[12])
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")


def step_ns(name, threads, *more):
    """Of a job without a broker, a few steps; None if it cannot be so."""
    net, batch, optimizer, *_ = JOBS[name]
    p = subprocess.run([ZICO, "train", net, "--batch", str(batch), "--optimizer", optimizer,
                        "--steps", "7", "--eval", "0", "--json", "--threads", str(threads), *more],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
                       env=dict(os.environ, GOMP_SPINCOUNT="10000"))  # as under a broker
    said = [json.loads(line) for line in p.stdout.splitlines()]
    steps = [s["device_ns"] for s in said if s["event"] == "step"][3:]
    return statistics.median(steps) if p.returncode == 0 and steps else None


def lean_cost(name):
    """So much longer a step takes in half of its memory, by what it takes in 55 or 80 %; None: it is never asked, or cannot."""
    full = step_ns(name, 1)
    for part in [] if name in STIFF else [0.55, 0.8]:
        lean = step_ns(name, 1, "--budget", f"{part:.0%}", "--tier", "none")
        if lean:
            return max(0, lean / full - 1) * 0.5 / (1 - part)
    return None


def best_cores(name):
    """More words for a job of FEW: one core, unless it is slower alone than with all."""
    took = {}
    for threads in [1, os.cpu_count()] * 2:
        took.setdefault(threads, []).append(step_ns(name, threads))
    one, all_cores = min(took[1]), min(took[os.cpu_count()])
    print(f"  {name:10} one core {one / 1e6:.0f} ms a step, all {all_cores / 1e6:.0f} ms", flush=True)
    return ["--threads", "1"] if one <= all_cores else []


class Job:
    """One `zico train`, and the times at which its steps ended."""

    def __init__(self, name, serial, socket, steps, env):
        net, batch, optimizer, *more = JOBS[name]
        self.name, self.ends, self.device, self.bad = f"{name}-{serial}", [], [], None
        self.kernels = []  # when a step's first kernel began and its last one ended
        env = dict(env, ZICO_JOB_NAME=self.name)
        self.process = subprocess.Popen(
            [ZICO, "train", net, "--batch", str(batch), "--optimizer", optimizer, "--steps",
             str(steps), "--eval", "0", "--seed", str(serial + 1), "--json", "--socket", socket,
             *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if '"event":"step"' in line:
                said = json.loads(line)
                self.ends.append(time.monotonic())
                self.device.append(said["device_ns"] / 1e9)
                self.kernels.append((said["begin_ns"] / 1e9, (said["begin_ns"] + said["device_ns"]) / 1e9))
        self.bad = self.process.stderr.read()

    def steps(self, begin, end):
        """Parts of steps that were computed in this time."""
        return sum(max(0.0, min(e, end) - max(b, begin)) / (e - b) for b, e in self.kernels)


class Run:
    """A broker and jobs under one policy."""

    def __init__(self, names, policy, budget, env=None, steps=1000000, tides=None):
        self.dir = tempfile.mkdtemp(prefix="zi-share-")
        self.socket = os.path.join(self.dir, "b.sock")
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.broker, self.sampler, self.jobs = None, None, []
        try:
            self.start(names, policy, budget, env or {}, steps, tides)
        except BaseException:
            self.close()
            raise

    def start(self, names, policy, budget, env, steps, tides):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZICO_")}
        self.broker = subprocess.Popen(
            [ZICO, "serve", "--socket", self.socket, "--policy", policy, "--budget", str(budget),
             "--log-level", "0", *(["--tides", tides] if tides else [])],
            stdout=self.log, stderr=self.log, env=clean)
        while not os.path.exists(self.socket):
            if self.broker.poll() is not None:
                raise RuntimeError("the broker did not start")
            time.sleep(0.01)
        self.pid = field(status(self.socket), "broker_pid")
        self.pipe, theirs = multiprocessing.Pipe()
        self.sampler = multiprocessing.Process(target=sample_memory, args=(self.pid, theirs), daemon=True)
        self.sampler.start()
        for i, name in enumerate(names):
            self.jobs.append(Job(name, i, self.socket, steps, dict(clean, **env)))

    def is_warm(self, steps):
        """Has every job made so many steps?"""
        self.check()
        return all(len(j.ends) >= steps for j in self.jobs)

    def pids(self):
        return [j.process.pid for j in self.jobs] + [self.pid, self.sampler.pid]

    def check(self):
        for j in self.jobs:
            if j.process.poll() is not None:
                raise RuntimeError(f"{j.name} ended: {j.bad}")

    def window(self, end, own_pids):
        """What happens from now until `end`; whatever else runs on the machine belongs to others."""
        self.pipe.send("go")
        before, begin = status(self.socket), time.monotonic()
        used, own = cpu_used(), cpu_of(own_pids)
        time.sleep(max(0, end - begin))
        end, after = time.monotonic(), status(self.socket)
        others = (cpu_used() - used - (cpu_of(own_pids) - own)) / (end - begin)
        self.pipe.send("ask")
        pool_bytes = self.pipe.recv()
        if pool_bytes == 0:
            raise RuntimeError("the pool's memory could not be looked at")  # or nobody would ever be over budget
        steps = sum(sum(1 for x in j.ends if begin < x <= end) for j in self.jobs)
        changed = field(after, "exchanged_bytes") - field(before, "exchanged_bytes")
        return {
            "between_us": self.between(begin, end),
            "exchanged": changed / max(steps, 1),
            "kernel_peak": pool_bytes + field(after, "private_bytes"),
            "others": others,
            "says": field(after, "policy_says"),
            "p99_us": field(after, "decide_p99_ns") / 1e3,
        }

    def last_kernel(self, at):
        """When the steps that began before a time were over."""
        return max((e for j in self.jobs for b, e in j.kernels if b < at), default=0)

    def work(self, begin, end):
        """Seconds, and steps of each job; known when the last of them are over."""
        return {"seconds": end - begin, "steps": [j.steps(begin, end) for j in self.jobs]}

    def between(self, begin, end):
        """Median microseconds from a step's last kernel to the first one of another job's step, which follows it; negative
        beside each other.  A job that follows itself is not a switch: it may have waited for its data."""
        steps = sorted((*k, i) for i, j in enumerate(self.jobs) for k in j.kernels if begin < k[0] and k[1] <= end)
        gaps = [b[0] - a[1] for a, b in zip(steps, steps[1:]) if a[2] != b[2]]
        return statistics.median(gaps) * 1e6 if gaps else None

    def close(self):
        for j in self.jobs:
            j.process.kill()
            j.process.wait()
        if self.sampler:
            self.sampler.kill()
            self.sampler.join()
        if self.broker:
            self.broker.terminate()
            try:
                self.broker.wait(10)
            except subprocess.TimeoutExpired:
                self.broker.kill()
                self.broker.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def near_part(looks, begin, end):
    """For which part of the time were the cores near each other?"""
    seen = [ns < NEAR for t, ns in looks if begin <= t < end]
    return sum(seen) / max(1, len(seen))


def wait_until_warm(runs, steps, limit):
    until = time.monotonic() + limit
    while not all(r.is_warm(steps) for r in runs):
        if time.monotonic() > until:
            raise RuntimeError("too slow: " + ", ".join(f"{j.name} {len(j.ends)}" for r in runs for j in r.jobs))
        time.sleep(0.05)


def field(picture, name):
    return picture[name] if name in picture else picture["device"][name]


def measure_solo(names, plenty, folder):
    """Peak, rate and tide of each network alone."""
    found = {}
    for name in sorted(set(names)):
        tides = os.path.join(folder, name)
        shutil.rmtree(tides, ignore_errors=True)
        os.makedirs(tides)
        with Run([name], "spatial", plenty, tides=tides) as r:
            wait_until_warm([r], 8, 120)
            seen = status(r.socket)["jobs"][0]
            t = r.jobs[0].ends[3:]
            step = (t[-1] - t[0]) / (len(t) - 1)
            busy = statistics.median(r.jobs[0].device[4:])
            found[name] = {"peak": seen["peak_bytes"] + seen["private_bytes"], "fixed": seen["fixed_bytes"],
                           "rate": 1 / step, "gap_s": max(0, step - busy)}
            r.jobs[0].process.kill()
            r.jobs[0].process.wait()
            time.sleep(0.3)  # its tide is stored when it leaves
        found[name]["lean"] = lean_cost(name)
        found[name]["tide"] = [os.path.join(tides, f) for f in os.listdir(tides)][:1]
        print(f"  {name:10} peak {found[name]['peak'] / MIB:5.0f} MiB, stays "
              f"{found[name]['fixed'] / MIB:4.0f} MiB, {1 / found[name]['rate']:.2f} s a step",
              flush=True)
    return found


def measure_switching(names, total):
    """Microseconds from one job's kernels to the next one's under temporal, with nothing else on the machine."""
    with Run(names, "temporal", total * 80 // 100) as r:
        wait_until_warm([r], WARM, 240)
        begin = time.monotonic()
        time.sleep(10)
        return r.between(begin, time.monotonic())


def brokers_for(keys, apart):
    """[(budget, environment, [leg, ...]), ...]: one broker for all legs of one kind, with legs of temporal in between, at most
    so many legs apart; also where a broker begins with peaks reserved, as who does not fit would never make its first steps.
    zico has brokers of its own, as its jobs may have other plans than those of turns."""
    out, since, alone = [], apart, None  # legs since the last one of temporal; is the last broker zico's?
    for key in keys:
        policy, budget, env = LEGS[key]
        due, is_zico = since >= apart, policy.startswith("zico")
        if due and is_zico:
            out.append((LEGS["spatial"][1], {}, ["temporal"]))
            since, due = 0, False
        if is_zico or not out or alone or out[-1][:2] != (budget, env):
            out.append((budget, env, []))
        if due or (policy == "spatial" and not out[-1][2]):
            out[-1][2].append("temporal")
            since = 0
        out[-1][2].append(key)
        since, alone = since + 1, is_zico
    return out


def start_brokers(stack, names, total, brokers, seconds, learn, warm):
    """One after the other, each with the machine for itself until its policy has learnt, or its jobs have made their first
    steps; from then on they wait for their turns."""
    alone = [math.ceil(learn if any(LEGS[key][0].startswith("zico") for key in mine) else warm) for _, _, mine in brokers]
    n_legs, first, runs = sum(len(mine) for _, _, mine in brokers), 0, []
    for k, (budget, env, mine) in enumerate(brokers):
        until = time.monotonic() + alone[k]
        policy = "relay:" + "+".join(SHORT[LEGS[key][0]] for key in mine) + (
            f"/{seconds:g}@{first}:{n_legs}~{alone[k]}:{math.ceil(1.02 * sum(alone[k + 1:]) + 1)}")
        runs.append(stack.enter_context(Run(names, policy, total * budget // 100, env=env)))
        first += len(mine)
        time.sleep(max(0, until - time.monotonic()))
        print(f"  {len(names)} jobs at {budget} %: " + " ".join(f"{len(j.ends)}" for j in runs[-1].jobs)
              + f" steps in {alone[k]} s before all turns", flush=True)
    return runs


def run_legs(names, total, keys, opt, seconds, longest, keep):
    """All legs in turn, so many rounds of so many seconds each.  A job tells of a step when it has asked for the next one, so
    a leg is kept when its broker has had another one, and the last of each broker is not."""
    brokers, seconds = brokers_for(keys, opt.apart), round(seconds, 1)
    legs = [(k, key) for k, (_, _, mine) in enumerate(brokers) for key in mine]
    with contextlib.ExitStack() as stack:
        runs = start_brokers(stack, names, total, brokers, seconds, opt.learn + FIRST * len(names),
                             START + 2 * WARM * len(names) * longest)
        wait_until_warm(runs, WARM, 10 * len(legs) * seconds)
        looks = stack.enter_context(distance.Looks(LOOK))
        pids = [os.getpid()] + [pid for r in runs for pid in r.pids()]
        circle = seconds * len(legs)
        first = math.ceil((time.monotonic() + 0.1) / circle) * circle
        time.sleep(first - time.monotonic())
        open_legs = [[] for _ in runs]
        for turn in range(opt.rounds * len(legs)):
            begin, (k, key) = first + turn * seconds, legs[turn % len(legs)]
            seen = runs[k].window(begin + seconds, pids)
            runs[k].check()
            for since, *leg, record in open_legs[k]:
                free = max([since + SETTLE] + [r.last_kernel(since) for r in runs])  # of those who had the leg before
                record.update(runs[k].work(free, since + seconds), near=near_part(looks.looks, since, since + seconds))
                keep(*leg, record)
            open_legs[k] = [(begin, key, turn, turn // len(legs) + 1, seen)]


# -- judging -------------------------------------------------------------------------------------

def rates_of(leg):
    return [n / leg["seconds"] for n in leg["steps"]]


def place_of(leg):
    """Where the cores were in all of a leg, or nearly; else they moved."""
    return "near" if leg["near"] >= 1 - MOVED else "far" if leg["near"] <= MOVED else "moved"


class Turns:
    """What taking turns gives each job of a run, from its legs of temporal."""

    def __init__(self, legs, run):
        self.legs = [t for t in legs if t["run"] == run]
        self.mean = [statistics.mean(each) for each in zip(*(rates_of(t) for t in self.legs))]

    def around(self, leg):
        """The legs of temporal before and after a leg, with the cores where they were in it if there are such, with their parts;
        one may be missing."""
        others = [t for t in self.legs if t is not leg]
        alike = [t for t in others if place_of(t) == place_of(leg)]
        others = alike if place_of(leg) != "moved" and len(alike) >= 2 else others
        before = max((t for t in others if t["turn"] < leg["turn"]), key=lambda t: t["turn"], default=None)
        after = min((t for t in others if t["turn"] > leg["turn"]), key=lambda t: t["turn"], default=None)
        if not before or not after:
            return [(1, t) for t in (before, after) if t]
        part = (leg["turn"] - before["turn"]) / (after["turn"] - before["turn"])
        return [(1 - part, before), (part, after)]

    def speed_in(self, leg):
        """Of the machine, all jobs together; 1 is the mean of the run."""
        return statistics.mean(a / b for a, b in zip(rates_of(leg), self.mean))

    def progress_in(self, leg):
        """Each job's rate relative to taking turns; None if there is nothing to compare with."""
        around = self.around(leg)
        if not around or min(self.mean) == 0:
            return None
        speed = sum(p * self.speed_in(t) for p, t in around)
        return [r / (speed * m) for r, m in zip(rates_of(leg), self.mean)]


def wilcoxon(n):
    """How many of the lowest of n figures' means by twos lie below their 95 % interval; 0: there are too few."""
    ways = [1]  # in which ranks of so many have this sum
    for rank in range(1, n + 1):
        ways = [(ways[i] if i < len(ways) else 0) + (ways[i - rank] if i >= rank else 0) for i in range(len(ways) + rank)]
    below = 0
    for k, count in enumerate(ways):
        below += count
        if below > 0.025 * 2 ** n:
            return k
    return 0


def middle(figures):
    """Hodges and Lehmann's median, of the means of all figures by twos, and its 95 % interval (Wilcoxon); a leg in which the
    machine did something else does no harm."""
    by_twos = sorted((a + b) / 2 for i, a in enumerate(figures) for b in figures[i:])
    k = wilcoxon(len(figures))
    lo, hi = (by_twos[k - 1], by_twos[-k]) if k else (by_twos[0], by_twos[-1])
    return statistics.median(by_twos), lo, hi


T_95 = [0, 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23]  # Student's, by degrees of freedom


def parts_of(legs):
    """What each job made in all legs together, relative to the mean of all jobs."""
    sums = [sum(each) for each in zip(*legs)]
    return [x / statistics.mean(sums) for x in sums]


def each_job(legs, mix):
    """Progress of each job: that of the mix, times the job's part of it; the interval of both (the part's by jackknife)."""
    n, out = len(legs), []
    without = [parts_of(legs[:i] + legs[i + 1:]) for i in range(n)]
    for k, part in enumerate(parts_of(legs)):
        seen = [w[k] for w in without]
        wide = T_95[min(n - 1, len(T_95) - 1)] * math.sqrt((n - 1) / n * sum((x - statistics.mean(seen)) ** 2 for x in seen))
        out.append((mix[0] * part,
                    mix[0] * part - math.hypot((mix[0] - mix[1]) * part, wide * mix[0]),
                    mix[0] * part + math.hypot((mix[2] - mix[0]) * part, wide * mix[0])))
    return out


def progress_of(windows, legs_too=False):
    """Per configuration, of each leg that can be compared: what each job made of its turn."""
    temporal = windows.get("temporal", [])
    runs = {run: Turns(temporal, run) for run in {t["run"] for t in temporal}}
    out = {}
    for key in [k for k in LEGS if windows.get(k)]:
        seen = [(w, p) for w in windows[key] if w["run"] in runs and (p := runs[w["run"]].progress_in(w))]
        out[key] = ([w for w, _ in seen], [p for _, p in seen]) if legs_too else [p for _, p in seen]
    return out


def by_place(windows, key):
    """What each job made of its turn in each leg, by where the cores were."""
    out = {}
    for leg, made in zip(*progress_of(windows, legs_too=True)[key]):
        out.setdefault(place_of(leg), []).append(made)
    return out


def judge(windows, total):
    """Per configuration of three legs and more: progress of the mix and of its slowest job, relative to temporal."""
    out = {}
    for key, legs in progress_of(windows).items():
        if len(legs) < 3:
            continue
        mix = middle([statistics.mean(p) for p in legs])
        per_job = each_job(legs, mix)
        out[key] = {
            "progress": mix,
            "slowest": min(per_job), "per_job": [p[0] for p in per_job],
            "exchanged": statistics.median(w["exchanged"] for w in windows[key]),
            "kernel_peak": max(w["kernel_peak"] for w in windows[key]) / total,
            "others": statistics.median(w["others"] for w in windows[key]),
            "p99_us": statistics.median(w["p99_us"] for w in windows[key]),
            "legs": len(legs),
            "places": {place: [statistics.mean(p) for p in of_place] for place, of_place in by_place(windows, key).items()},
        }
    return out


def variance_within(places):
    """Of legs with the cores in one place, over all places, by the median of what they are off: a leg in which the machine stood
    still for a moment does no harm."""
    off = [abs(x - statistics.median(seen)) for seen in places.values() if len(seen) > 1 for x in seen]
    return max(0.01, 1.48 * statistics.median(off)) ** 2 if off else 0.03 ** 2


def gain_of(found, key):
    """Gain captured, and by how much it may be off (95 %); None where there is next to nothing to gain.  Like with like: legs with the
    cores near each other with such, and those with the cores far from each other; each place weighs as much as it has legs of both."""
    if key not in found or "spatial" not in found or key == "spatial":
        return None
    mine, free = found[key]["places"], found["spatial"]["places"]
    weight = {p: min(len(mine[p]), len(free[p])) for p in mine if p in free}
    made, most = (sum(w * (statistics.median(x[p]) - 1) for p, w in weight.items()) for x in (mine, free))
    if most <= 0.02 * sum(weight.values()):
        return None
    gain, vm, vf = made / most, variance_within(mine), variance_within(free)
    return gain, 2 * math.sqrt(sum(w * w * (vm / len(mine[p]) + gain * gain * vf / len(free[p])) for p, w in weight.items())) / abs(most)


def place_text(places, place):
    """Progress in legs with the cores there, and how many those were."""
    seen = places.get(place, [])
    return f"{statistics.median(seen):.2f}/{len(seen)}" if seen else "-"


def show(mix, names, total, found):
    print(f"\n{mix}: {' + '.join(names)}, sum of solo peaks {total / MIB:.0f} MiB")
    print(f"  {'':10} {'progress':>8} {'95 %':>13} {'gain':>11} {'slowest':>8} {'95 %':>13} "
          f"{'changed hands':>15} {'peak':>5} {'others':>6} {'n':>2}  near, far, moved     per job")
    for key, v in found.items():
        p, lo, hi = v["progress"]
        s, slo, shi = v["slowest"]
        gain = gain_of(found, key)
        print(f"  {key:10} {p:8.3f} {lo:6.3f}-{hi:6.3f} "
              f"{'-' if gain is None else f'{gain[0]:.2f} ±{gain[1]:.2f}':>11} {s:8.3f} {slo:6.3f}-{shi:6.3f} "
              f"{v['exchanged'] / MIB:7.0f} MiB/step {v['kernel_peak']:5.2f} {v['others']:6.2f} "
              f"{v['legs']:2}  " + " ".join(place_text(v["places"], place) for place in ("near", "far", "moved"))
              + "  " + " ".join(f"{x:.2f}" for x in v["per_job"]), flush=True)


class Aims:
    """The bars, and by what they were missed."""

    def __init__(self):
        self.cases = {}  # aim: (name and figure, was it reached?)

    def add(self, aim, name, figure, reached, within=None):
        said = f"{name} {figure:.3f}" + (f" (±{within:.2f})" if within is not None else "")
        self.cases.setdefault(aim, []).append((said, reached))

    def show(self):
        print("\naims:")
        for aim, cases in self.cases.items():
            missed = [said for said, reached in cases if not reached]
            few = ": " + ", ".join(said for said, _ in cases) if len(cases) <= 3 else ""
            print(f"  {aim}: " + (f"MISSED by {len(missed)} of {len(cases)}: " + ", ".join(missed) if missed
                                  else f"reached by all {len(cases)}" + few))


def show_means(results):
    """Over all mixes, where single figures drown in noise: of each kind of leg the mean and its 95 % interval."""
    print("\nmean over mixes:")
    for key in LEGS:
        for what in ("progress", "slowest"):
            seen = [r["found"][key][what] for r in results.values() if key in r["found"]]
            if not seen:
                continue
            mean = statistics.mean(x[0] for x in seen)
            wide = math.sqrt(sum((x[2] - x[0]) ** 2 for x in seen)) / len(seen)
            print(f"  {key:10} {what:8} {mean:6.3f} ({mean - wide:.3f} to {mean + wide:.3f}), {len(seen)} mixes")


def show_aims(results, over):
    """Over all mixes that were measured."""
    aims, gains, many = Aims(), {80: [], 65: []}, []
    for mix, r in results.items():
        found, n = r["found"], len(r["jobs"])
        judged = "spatial" in found and found["spatial"]["progress"][0] >= JUDGED
        for b in [b for b in BUDGETS if f"zico-{b}" in found]:
            name, mine = f"{mix} {b} %", found[f"zico-{b}"]
            progress, slowest = mine["progress"], mine["slowest"]
            aims.add("never below taking turns (95 %)", name, progress[0], progress[2] >= 1)
            aims.add("slowest job at least 0.98 of its turn, 0.95 with 95 %", name, slowest[0],
                     slowest[0] >= 0.98 and slowest[1] >= 0.95)
            if judged and b in gains:
                gains[b].append(gain_of(found, f"zico-{b}"))
                many += [gains[b][-1]] if b == 65 and n >= 3 else []
            elif not judged and f"reserve-{b}" in found:
                part = progress[0] / max(1, found[f"reserve-{b}"]["progress"][0])
                aims.add("other mixes: 0.97 of the better of turns and peaks reserved", name, part, part >= 0.97)
        if r["switch_us"] is not None:
            aims.add("from one job's kernels to the next one's under 500 us", mix, r["switch_us"], r["switch_us"] < 500)
    for name, found, least in (("80 %", gains[80], 0.9), ("65 %", gains[65], 0.65), ("65 %, three and more", many, 0.9)):
        if found:
            mean, within = statistics.mean(g for g, _ in found), math.hypot(*(w for _, w in found)) / len(found)
            aims.add(f"mixes that gain {JUDGED}: of the gain, mean", f"at {name} ({len(found)})", mean, mean >= least, within)
    aims.show()
    print("  OVER BUDGET: " + ", ".join(over) if over else
          "  never over budget" if results else "  no leg was quiet enough to be judged")


def show_split(found):
    """Where the gain at 65 % comes from: switch off one thing at a time."""
    if any(k not in found for k in ("zico-65", "reserve-65", "hold-65", "whole-65")):
        return
    def p(key):
        return found[key]["progress"][0]
    print(f"  gain at 65 %: {p('zico-65') - 1:+.3f}; of it peaks reserved, cores divided "
          f"{p('reserve-65') - 1:+.3f}; tides in place of peaks {p('hold-65') - p('reserve-65'):+.3f}; "
          f"memory back within steps {p('zico-65') - p('hold-65'):+.3f}.  Without dividing "
          f"cores: {p('whole-65') - 1:+.3f}")


def show_switching(alone_us, windows):
    seen = [w["between_us"] for w in windows.get("temporal", []) if w["between_us"] is not None]
    said = ([f"{alone_us:.0f} us"] if alone_us is not None else []) + (
        [f"{statistics.median(seen):.0f} us in legs, with other brokers' jobs asleep meanwhile"] if seen else [])
    if said:
        print("  temporal, from a step's last kernel to another job's first one: " + ", ".join(said))


# -- static offsets ------------------------------------------------------------------------------

def curve(tide, n, repeats):
    """Heights on a grid of n, with so many steps in it."""
    length, points = tide
    out = []
    for i in range(n):
        at, most, k = i * repeats % n / n * length, 0, 0
        until = at + repeats * length / n
        for t, h in points:
            if t <= at:
                k = h
            elif t < until:
                most = max(most, h)
        out.append(max(k, most))
    return out


def best_offset(solo, names):
    """Smallest peak of two jobs in lockstep over all offsets, as a part of the sum of peaks."""
    tides = [best_schedule.read_tide(solo[n]["tide"][0]) for n in names]
    longest = max(t[0] for t in tides)
    n = 360
    heights = [curve(t, n, max(1, round(longest / t[0]))) for t in tides]
    fixed = sum(solo[x]["fixed"] for x in names)
    least = min(max(heights[0][i] + heights[1][(i + o) % n] for i in range(n)) for o in range(n))
    return (least + fixed) / sum(solo[x]["peak"] for x in names)


def smallest_budget(found):
    """The smallest part of the sum of peaks at which zico loses at most 3 % against no limit, between the budgets measured."""
    free, below = found["spatial"]["progress"][0] * 0.97, None
    for b in sorted(b for b in BUDGETS if f"zico-{b}" in found):
        at, p = b / 100, found[f"zico-{b}"]["progress"][0]
        if p >= free:
            return at if below is None else at - (p - free) / (p - below[1]) * (at - below[0])
        below = at, p
    return None


def show_offsets(solo, names, found):
    if len(names) != 2 or "spatial" not in found or not all(solo[n].get("tide") for n in names):
        return
    least, best = smallest_budget(found), best_offset(solo, names)
    print(f"  best static offset: {best:.2f} of the sum of peaks; zico within 3 % of no limit: "
          + (f"{least:.2f}" if least else "at no budget measured"))
    gain = found["spatial"]["progress"][0]
    if gain > 1.02:
        tides, fixed = zip(*((best_schedule.read_tide(solo[n]["tide"][0]), solo[n]["fixed"]) for n in names))
        total = sum_of_peaks(solo, names)
        print("  the best schedule of all would keep, of the gain: " + ", ".join(
            f"{best_schedule.kept(tides, fixed, total * b // 100, gain):.2f} at {b} %" for b in BUDGETS[1:]))


# -- the simulator -------------------------------------------------------------------------------

def simulated_rates(path, policy, budget):
    p = subprocess.run([ZICO, "sim", path, "--policy", policy, "--budget", str(budget), "--json"],
                       stdout=subprocess.PIPE, text=True, check=True)
    return [j["steps_per_s"] for j in json.loads(p.stdout)]


def simulate(solo, names, found, total, seconds=120):
    """The same mix simulated, from solo tides and how fast each job is beside others."""
    if "spatial" not in found or not all(solo[n].get("tide") for n in names):
        return
    cores = os.cpu_count()
    lines = [f"cores: {cores}", f"seconds: {seconds}", "region: 2M", "jobs:"]
    for i, n in enumerate(names):
        speed = min(1.0, found["spatial"]["per_job"][i] / min(cores, len(names)))
        lines += [f"  - name: {n}", f"    tide: {os.path.abspath(solo[n]['tide'][0])}",
                  f"    fixed: {solo[n]['fixed']}", "    noise: 0.03",
                  f"    every: {1 / solo[n]['rate']:.4f}" if solo[n]["gap_s"] > WAITS else f"    gap: {solo[n]['gap_s']:.4f}",
                  *([f"    shrink: {solo[n]['lean']:.3f}"] if solo[n].get("lean") is not None else []),
                  f"    scaling: {max(0.01, -math.log(speed) / math.log(cores)):.3f}"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as f:
        f.write("\n".join(lines) + "\n")
    base = simulated_rates(f.name, "temporal", total)
    off = []
    for key in [k for k in found if k.startswith("zico-")]:
        rates = simulated_rates(f.name, "zico", total * LEGS[key][1] // 100)
        said = statistics.mean(r / b for r, b in zip(rates, base))
        off.append(f"{LEGS[key][1]} %: {said:.2f}, measured {found[key]['progress'][0]:.2f} "
                   f"({said / found[key]['progress'][0] - 1:+.0%})")
    os.unlink(f.name)
    print("  simulated: " + "; ".join(off))


COLOURS = ["#3366aa", "#cc6633", "#338855", "#8844aa", "#888833", "#cc3377", "#555555", "#22aaaa", "#aa2222"]


def draw(results, path):
    """Progress against budget, a line per mix: solid zico, dotted what no limit gives."""
    left, top, width, height = 70, 30, 560, 300
    shown = {m: r["found"] for m, r in results.items()
             if "zico-65" in r["found"] and "zico-80" in r["found"]}
    highest = max((v["progress"][0] for f in shown.values() for v in f.values()), default=1)
    low, high = 0.8, max(1.4, highest + 0.05)

    def at(percent, progress):
        x = left + (percent - 50) / 55 * width
        y = top + height - (max(progress, low) - low) / (high - low) * height
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{left}" y="{top - 12}">Progress relative to taking turns, against the budget</text>']
    for tick in [x / 10 for x in range(8, int(high * 10) + 1)]:
        x, y = at(50, tick).split(",")
        parts.append(f'<path d="M{at(50, tick)} L{at(105, tick)}" stroke="#dddddd"/>'
                     f'<text x="{float(x) - 30}" y="{float(y) + 4}">{tick:.1f}</text>')
    for percent in BUDGETS:
        x, y = at(percent, low).split(",")
        parts.append(f'<text x="{float(x) - 12}" y="{float(y) + 18}">{percent} %</text>')
    for i, (mix, found) in enumerate(shown.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = [at(b, found[f"zico-{b}"]["progress"][0]) for b in BUDGETS if f"zico-{b}" in found]
        parts.append(f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" '
                     f'stroke-width="2"/>')
        if "spatial" in found:
            free = found["spatial"]["progress"][0]
            parts.append(f'<path d="M{at(50, free)} L{at(105, free)}" stroke="{colour}" '
                         f'stroke-dasharray="2,4"/>')
        parts.append(f'<text x="{left + width + 10}" y="{top + 20 + 18 * i}" fill="{colour}">{mix}'
                     f'</text>')
    with open(path, "w", encoding="utf-8") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="800" height="380" '
                'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n'
                + "\n".join(parts) + "\n</svg>\n")


def check_budgets(found):
    """Mixes that were ever over their budget."""
    return [k for k, v in found.items()
            if "-" in k and v["kernel_peak"] > int(k.split("-")[1]) / 100]


class Results:
    """One JSON object a line, appended window by window."""

    def __init__(self, path):
        self.path, self.solo, self.switch_us, self.windows = path, {}, {}, []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    self.take(json.loads(line))

    def take(self, record):
        if "solo" in record:
            self.solo.update(record["solo"])
        elif "switch_us" in record:
            self.switch_us[record["mix"]] = record["switch_us"]
        else:
            self.windows.append(record)

    def add(self, record):
        self.take(record)
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")

    def next_run(self):
        return 1 + max([w["run"] for w in self.windows], default=0)

    def of(self, mix):
        """Windows of a mix in which nobody else ran, by what was measured."""
        out = {}
        for w in self.windows:
            if w["mix"] == mix and w["others"] < QUIET:
                out.setdefault(w["key"], []).append(w)
        return out

    def near_part(self, turns):
        """For how much of the legs of turns, or of all others, the cores were near each other."""
        seen = [w["near"] for w in self.windows if (w["key"] == "temporal") == turns]
        return statistics.mean(seen) if seen else 0


def report(results, opt):
    """Of all mixes: what was found, and who was over its budget."""
    shown, over = {}, []
    for mix in [m for m in MIXES if any(w["mix"] == m for w in results.windows)]:
        names = MIXES[mix]
        total = sum_of_peaks(results.solo, names)
        windows = results.of(mix)
        found = judge(windows, total)
        if not found:
            continue
        shown[mix] = {"jobs": names, "total": total, "found": found, "switch_us": results.switch_us.get(mix)}
        show(mix, names, total, found)
        show_split(found)
        show_switching(shown[mix]["switch_us"], windows)
        show_offsets(results.solo, names, found)
        simulate(results.solo, names, found, total)
        over += [f"{mix} {k}" for k in check_budgets(found)]
    left_out = sum(w["others"] >= QUIET for w in results.windows)
    print(f"\n{left_out} of {len(results.windows)} legs left out, as other programs ran; "
          f"the cores were near each other for {results.near_part(True):.0%} of the legs of turns, "
          f"{results.near_part(False):.0%} of the others")
    show_means(shown)
    show_aims(shown, over)
    if opt.json:
        with open(opt.json, "w", encoding="utf-8") as f:
            json.dump({"solo": results.solo, "mixes": shown}, f, indent=1)
    if opt.svg:
        draw(shown, opt.svg)
    return 1 if over else 0


def sum_of_peaks(solo, names):
    return sum(solo[n]["peak"] for n in names) // (2 * MIB) * 2 * MIB


def choose_cores(names, results):
    """Measured once and kept with the results."""
    for name in sorted(set(names) & set(FEW)):
        known = results.solo.get("cores", {})
        if name not in known:
            results.add({"solo": {"cores": {**known, name: best_cores(name)}}})
        JOBS[name] = (*JOBS[name][:3], *results.solo["cores"][name])


def measure(mixes, results, opt):
    """Whatever cannot be measured is told, and the rest goes on."""
    failed = []
    folder = os.path.splitext(results.path)[0] + "-tides"
    choose_cores([n for m in mixes for n in MIXES[m]], results)
    missing = {n for m in mixes for n in MIXES[m]} - set(results.solo)
    if missing:
        print("alone:")
        results.add({"solo": measure_solo(missing, opt.plenty * MIB, folder)})
    for mix in mixes:
        names = MIXES[mix]
        total = sum_of_peaks(results.solo, names)
        longest = max(1 / results.solo[n]["rate"] for n in names)
        leg = max(opt.leg, min(LONG, 8 * len(names) * longest))  # in turn, the longest makes 8 steps, if there is time
        keys = opt.legs or [k for k in LEGS if k != "temporal" and (k not in ONE_LESS or mix in SPLIT)]
        serial = results.next_run()

        def keep(key, turn, number, seen):
            results.add({"mix": mix, "key": key, "run": serial, "turn": turn, **seen})
            print(f"  {mix} {number}/{opt.rounds} {key}: " + " ".join(f"{r:.2f}" for r in rates_of(seen))
                  + f" steps/s, others {seen['others']:.2f}, cores near {seen['near']:.0%}"
                  + (f"; {seen['says']}" if key not in ("temporal", "spatial") else ""), flush=True)
        try:
            if mix not in results.switch_us:
                results.add({"mix": mix, "switch_us": measure_switching(names, total)})
            run_legs(names, total, keys, opt, leg, longest, keep)
        except RuntimeError as e:
            failed.append(f"{mix}: {e}")
            print("  " + failed[-1], flush=True)
    return failed


def words(allowed):
    def split(text):
        out = text.split(",")
        if any(x not in allowed for x in out):
            raise argparse.ArgumentTypeError(f"one or more of {allowed}")
        return out
    return split


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--mix", action="append", choices=sorted(MIXES))
    p.add_argument("--legs", type=words(list(LEGS)), default=None, help=f"of {','.join(LEGS)}")
    p.add_argument("--leg", type=float, default=6, help="seconds, at least; longer for long steps")
    p.add_argument("--apart", type=int, default=2, help="legs from one of temporal to the next, at most")
    p.add_argument("--rounds", type=int, default=5, help="of legs; each broker's last leg does not count")
    p.add_argument("--learn", type=float, default=60,
                   help="seconds for zico to learn before anything counts, and 4 for each job; 0: a job's first minutes")
    p.add_argument("--results", default="out/share.jsonl", help="file that legs are appended to")
    p.add_argument("--report", action="store_true", help="measure nothing, show what was measured")
    p.add_argument("--json", help="file")
    p.add_argument("--svg", help="file for the picture")
    p.add_argument("--plenty", type=int, default=4096, help="MiB for jobs alone")
    opt = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that brokers and jobs end, too
    if opt.legs:
        opt.legs = [k for k in LEGS if k in opt.legs and k != "temporal"]
    if not opt.mix and not opt.report and os.path.exists(opt.results):
        os.unlink(opt.results)  # a whole run starts afresh
    results = Results(opt.results)
    failed = []
    if not opt.report:
        mixes = opt.mix or (["pair-small", "pair-long-short"] if opt.quick else list(MIXES))
        failed = measure(mixes, results, opt)
    over = report(results, opt)
    if failed:
        print("NOT MEASURED: " + "; ".join(failed))
    return 1 if failed else over


if __name__ == "__main__":
    sys.exit(main())
