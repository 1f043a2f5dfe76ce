"""share.py -- many jobs, one budget: zico against time multiplexing and against no limit at all.

    make bench-share                          everything; about 90 minutes
    tools/bench-share.sh --quick              two mixes; about 15 minutes
    tools/bench-share.sh --mix pair-same      one mix in about seven minutes, appended
    tools/bench-share.sh --mix three --legs temporal,spatial,zico-65
    tools/bench-share.sh --mix three --only hold-65
    tools/bench-share.sh --report             tables and picture of all that was appended

A machine drifts by more than policies differ.  So a mix of native jobs is started once for each
budget, and the policies decide in turn (`--policy relay:...`), some seconds each, round after round.
The budget stays as it is meanwhile: after it was lowered, pages are touched anew for seconds.

    temporal    one step at a time, the runner has all cores; the yardstick
    spatial     as much memory as all want together: what sharing can gain at most
    zico-N      at N = 100, 80, 65 and 55 % of the sum of solo peaks
    reserve-N   spatial at 80 and 65 %: cores are divided, but peaks are reserved; who does not fit waits

and in runs of their own, since the jobs are started differently, each against its own temporal:

    hold-65     zico at 65 %, jobs give memory back only at the end of a step (ZICO_HOLD=step)
    whole-65    zico at 65 %, each job keeps all cores (ZICO_CORES): cores are not divided

Progress is a job's rate relative to its mean rate in the temporal legs of the same run; of a mix,
the mean over its jobs.  Gain captured = (zico - temporal) / (spatial - temporal).  Rates come from the
times at which steps end; a step across a bound counts in part.  The first round is not counted: memory is
touched for the first time and tides are learnt.  Memory is what the kernel says: a process of its own looks
at the blocks of the pool's memfd every 20 ms, plus what the jobs charged.  How busy others kept the machine
is recorded with each leg; legs with more than 0.15 cores of foreign load are left out.

A virtual machine's cores move about the real ones: at times they share a cache, at times they do not,
and then a network that has both is half as slow again, while two with one each are not.  So twice a
second and more bench/cores_apart measures how far apart they are.  Of a leg in which that changed only the
stretches count in which they were where they were for longest, if that is long enough, and a leg is compared
with the temporal legs of its run in which the cores were as far apart.
"""
import argparse
import json
import multiprocessing
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import distance
from step_count import steps_between

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
    # waits for its data more than half of the time
    "loaded": ("mobilenet_v2:classes=10,size=64", 64, "momentum", "--loader-pause", "300"),
}
FEW = ["small", "thin"]  # jobs that get one core under every policy, if alone they are no slower so
MIXES = {
    "pair-same": ["mobile", "mobile"],
    "pair-long-short": ["dense", "mobile"],
    "pair-small": ["small", "small"],
    "pair-data": ["loaded", "small"],
    "three": ["mobile", "unet", "lstm"],
    "three-small": ["small", "small", "thin"],
    "four": ["mobile", "dense", "unet", "gpt"],
    "eight": ["mobile", "dense", "unet", "gpt", "mobile", "resnet20", "unet", "lstm"],
}
SPLIT = ["pair-small", "three-small", "three"]  # where a whole run switches off one thing at a time
BUDGETS = [100, 80, 65, 55]
LEGS = {"temporal": ("temporal", None), "spatial": ("spatial", 130),
        **{f"zico-{b}": ("zico", b) for b in BUDGETS}, **{f"reserve-{b}": ("spatial", b) for b in (80, 65)}}
APART = {"hold-65": {"ZICO_HOLD": "step"}, "whole-65": {"ZICO_CORES": f"fixed:{os.cpu_count()}"}}
ORDER = [*LEGS, *APART]
WARM = 4  # steps of each job before the first round
LOOK = 0.4  # seconds from one look at the cores' distance to the next; each takes 3 ms
LEAST_STRETCH = 1.0  # seconds of a stretch with the cores where they are that count
SETTLE = 0.8  # seconds at the beginning of a leg that are not counted
JUDGED = 1.15  # gains are judged on mixes that gain so much without a limit
QUIET = 0.15  # cores that others may use while we measure


def status(socket):
    p = subprocess.run([ZICO, "status", "--json", "--socket", socket], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True)
    return json.loads(p.stdout) if p.returncode == 0 else None


def memfd_blocks(pid):
    """Bytes that the kernel keeps for the memfds of a process: the pool is the largest."""
    most = 0
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        try:
            if "memfd:" in os.readlink(f"{folder}/{fd}"):
                most = max(most, os.stat(f"{folder}/{fd}").st_blocks * 512)
        except OSError:
            pass
    return most


def sample_memory(pid, pipe):
    """A process of its own: the highest count since the last question."""
    most = 0
    while True:
        try:
            most = max(most, memfd_blocks(pid))
        except OSError:
            pass
        if pipe.poll(0.02):
            if pipe.recv() == "end":
                return
            pipe.send(most)
            most = 0


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


def best_cores(name):
    """More words for a job of FEW: one core, unless it is slower alone than with all."""
    net, batch, optimizer, *_ = JOBS[name]
    took = {}
    for threads in [1, os.cpu_count()] * 2:
        p = subprocess.run([ZICO, "train", net, "--batch", str(batch), "--optimizer", optimizer,
                            "--steps", "7", "--eval", "0", "--json", "--threads", str(threads)],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                           env=dict(os.environ, GOMP_SPINCOUNT="10000"))  # as under a broker
        said = [json.loads(line) for line in p.stdout.splitlines()]
        steps = [s["device_ns"] for s in said if s["event"] == "step"][3:]
        took.setdefault(threads, []).append(statistics.median(steps))
    one, all_cores = min(took[1]), min(took[os.cpu_count()])
    print(f"  {name:10} one core {one / 1e6:.0f} ms a step, all {all_cores / 1e6:.0f} ms", flush=True)
    return ["--threads", "1"] if one <= all_cores else []


def alike(stretch, others):
    return [t for t in others if distance.is_same([ns for _, ns in stretch + t])]


def still_times(looks):
    """Of (time, distance of the cores): the stretches in which they were where they were for longest; all of the time
    if that is too little."""
    kept = [s for s in distance.stretches(looks) if distance.length(s) >= LEAST_STRETCH]
    best = max((alike(s, kept) for s in kept), key=lambda found: sum(map(distance.length, found)), default=[])
    return best if sum(map(distance.length, best)) >= distance.STRETCH else [looks]


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
        return steps_between(self.ends, begin, end)


class Run:
    """A broker and jobs under one policy."""

    def __init__(self, names, policy, budget, env=None, steps=1000000, tides=None):
        self.dir = tempfile.mkdtemp(prefix="zi-share-")
        self.socket = os.path.join(self.dir, "b.sock")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZICO_")}
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.broker = subprocess.Popen(
            [ZICO, "serve", "--socket", self.socket, "--policy", policy, "--budget", str(budget),
             "--log-level", "0", *(["--tides", tides] if tides else [])],
            stdout=self.log, stderr=self.log, env=clean)
        while not os.path.exists(self.socket):
            if self.broker.poll() is not None:
                raise RuntimeError("the broker did not start")
            time.sleep(0.01)
        seen = status(self.socket)
        self.pid = field(seen, "broker_pid")
        mine, theirs = multiprocessing.Pipe()
        self.pipe = mine
        self.sampler = multiprocessing.Process(target=sample_memory, args=(self.pid, theirs),
                                               daemon=True)
        self.sampler.start()
        self.jobs = [Job(n, i, self.socket, steps, dict(clean, **(env or {})))
                     for i, n in enumerate(names)]

    def warm_up(self, steps, limit=120):
        """Until every job has made so many steps."""
        until = time.monotonic() + limit
        while any(len(j.ends) < steps for j in self.jobs):
            if time.monotonic() > until:
                raise RuntimeError("too slow: " + ", ".join(
                    f"{j.name} {len(j.ends)}" for j in self.jobs))
            for j in self.jobs:
                if j.process.poll() is not None:
                    raise RuntimeError(f"{j.name} ended: {j.bad}")
            time.sleep(0.05)

    def peak(self):
        self.pipe.send("ask")
        return self.pipe.recv()

    def window(self, end):
        """What happens from now until `end`."""
        pids = [j.process.pid for j in self.jobs] + [self.pid]
        self.peak()
        before, begin = status(self.socket), time.monotonic()
        used, own = cpu_used(), cpu_of(pids)
        looks = [(begin, distance.cores_apart())]
        while (left := end - time.monotonic()) > 0 or len(looks) < 2:
            time.sleep(min(LOOK, max(0.1, left)))
            looks.append((time.monotonic(), distance.cores_apart()))
        end, after = time.monotonic(), status(self.socket)
        still = still_times(looks)
        others = (cpu_used() - used - (cpu_of(pids) - own)) / (end - begin)
        steps = sum(sum(1 for x in j.ends if begin < x <= end) for j in self.jobs)
        changed = field(after, "exchanged_bytes") - field(before, "exchanged_bytes")
        within = [[d for x, d in zip(j.ends, j.device) if begin < x <= end] for j in self.jobs]
        return {
            "still": [(s[0][0], s[-1][0]) for s in still],
            "between_us": self.between(begin, end) * 1e6,
            "exchanged": changed / max(steps, 1),
            "device": [statistics.median(d) if d else 0 for d in within],
            "kernel_peak": self.peak() + field(after, "private_bytes"),
            "others": others,
            "apart_ns": [min(ns for s in still for _, ns in s), max(ns for s in still for _, ns in s)],
            "p99_us": field(after, "decide_p99_ns") / 1e3,
        }

    def rates(self, times):
        total = sum(end - begin for begin, end in times)
        return [sum(j.steps(*t) for t in times) / total for j in self.jobs]

    def between(self, begin, end):
        """Median time from a step's last kernel to the next step's first; negative beside each other."""
        steps = sorted(k for j in self.jobs for k in j.kernels if begin < k[0] and k[1] <= end)
        gaps = [b[0] - a[1] for a, b in zip(steps, steps[1:])]
        return statistics.median(gaps) if gaps else 0.0

    def close(self):
        try:
            self.pipe.send("end")
        except OSError:
            pass
        for j in self.jobs:
            j.process.kill()
            j.process.wait()
        self.broker.terminate()
        try:
            self.broker.wait(10)
        except subprocess.TimeoutExpired:
            self.broker.kill()
        self.sampler.join(5)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


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
            r.warm_up(8)
            seen = status(r.socket)["jobs"][0]
            t = r.jobs[0].ends[3:]
            step = (t[-1] - t[0]) / (len(t) - 1)
            busy = statistics.median(r.jobs[0].device[4:])
            found[name] = {"peak": seen["peak_bytes"] + seen["private_bytes"], "fixed": seen["fixed_bytes"],
                           "rate": 1 / step, "gap_s": max(0, step - busy)}
            r.jobs[0].process.kill()
            r.jobs[0].process.wait()
            time.sleep(0.3)  # its tide is stored when it leaves
        found[name]["tide"] = [os.path.join(tides, f) for f in os.listdir(tides)][:1]
        print(f"  {name:10} peak {found[name]['peak'] / MIB:5.0f} MiB, stays "
              f"{found[name]['fixed'] / MIB:4.0f} MiB, {1 / found[name]['rate']:.2f} s a step",
              flush=True)
    return found


def run_legs(names, budget, legs, seconds, rounds, env, keep):
    """Policies in turn over one set of jobs, so many rounds of legs of so many seconds."""
    seconds = round(seconds, 1)
    policy = "relay:" + "+".join(LEGS[k][0][:2] for k in legs) + f"/{seconds:g}"
    length = seconds * len(legs)
    with Run(names, policy, budget, env=env) as r:
        r.warm_up(WARM)
        first = math.ceil((time.monotonic() + 0.1) / length) * length
        for number in range((1 + rounds) * len(legs)):
            begin = first + number * seconds
            time.sleep(max(0, begin + SETTLE - time.monotonic()))
            seen = r.window(begin + seconds)
            time.sleep(SETTLE)  # until the steps that were under way have ended
            for j in r.jobs:
                if j.process.poll() is not None:
                    raise RuntimeError(f"{j.name} ended: {j.bad}")
            seen["rate"] = r.rates(seen.pop("still"))
            if number >= len(legs):  # the first round is not counted
                keep(legs[number % len(legs)], seen)


def interval(values, middle):
    """The middle, and the 95 % interval of a bootstrap over legs."""
    rng = random.Random(1)
    many = sorted(middle(rng.choices(values, k=len(values))) for _ in range(500))
    return middle(values), many[12], many[-13]


def judge(names, windows, total):
    """Per configuration: progress of the mix and of its slowest job, relative to temporal.

    A job that was behind at a leg's end is made up for in the next one, so a job's share is told by
    the mean over legs; the progress of a mix by their median.
    """
    out = {}
    for key in [k for k in ORDER if windows.get(k)]:
        ratios = [[r / b for r, b in zip(w["rate"], w["base"])] for w in windows[key]]
        per_job = [statistics.mean(r[i] for r in ratios) for i in range(len(names))]
        slowest = per_job.index(min(per_job))
        out[key] = {
            "progress": interval([statistics.mean(r) for r in ratios], statistics.median),
            "slowest": interval([r[slowest] for r in ratios], statistics.mean), "per_job": per_job,
            "exchanged": statistics.median(w["exchanged"] for w in windows[key]),
            "kernel_peak": max(w["kernel_peak"] for w in windows[key]) / total,
            "others": statistics.median(w["others"] for w in windows[key]),
            "p99_us": statistics.median(w["p99_us"] for w in windows[key]),
            "legs": len(ratios),
        }
    return out


def gain_of(found, key):
    """Gain captured; None where there is next to nothing to gain."""
    if key not in found or "spatial" not in found:
        return None
    free = found["spatial"]["progress"][0] - 1
    return (found[key]["progress"][0] - 1) / free if abs(free) > 0.02 else None


def show(mix, names, total, found):
    print(f"\n{mix}: {' + '.join(names)}, sum of solo peaks {total / MIB:.0f} MiB")
    print(f"  {'':10} {'progress':>8} {'95 %':>13} {'gain':>6} {'slowest':>8} {'95 %':>13} "
          f"{'changed hands':>15} {'peak':>5} {'others':>6} {'n':>2}  per job")
    for key, v in found.items():
        p, lo, hi = v["progress"]
        s, slo, shi = v["slowest"]
        gain = gain_of(found, key)
        print(f"  {key:10} {p:8.3f} {lo:6.3f}-{hi:6.3f} "
              f"{'     -' if gain is None else f'{gain:6.2f}'} {s:8.3f} {slo:6.3f}-{shi:6.3f} "
              f"{v['exchanged'] / MIB:7.0f} MiB/step {v['kernel_peak']:5.2f} {v['others']:6.2f} "
              f"{v['legs']:2}  " + " ".join(f"{x:.2f}" for x in v["per_job"]), flush=True)


def show_aims(results):
    """The bars, over all mixes that were measured."""
    def mean(values):
        return f"{statistics.mean(values):.2f} over {len(values)}" if values else "not measured"

    gains = {b: [] for b in BUDGETS}
    many, worst, other, free = [], [], [], []
    for mix, r in results.items():
        found = r["found"]
        if "spatial" not in found:
            continue
        judged = found["spatial"]["progress"][0] >= JUDGED
        for b in BUDGETS:
            key = f"zico-{b}"
            if key not in found:
                continue
            worst.append((found[key]["slowest"][0], mix, b))
            if judged:
                gains[b].append(gain_of(found, key))
                if b == 65 and len(r["jobs"]) >= 3:
                    many.append(gain_of(found, key))
            else:
                mine = found[key]["progress"][0]
                free.append((mine / max(1, found["spatial"]["progress"][0]), mix, b))
                if f"reserve-{b}" in found:
                    other.append((mine / max(1, found[f"reserve-{b}"]["progress"][0]), mix, b))
    print(f"\nmixes that gain {JUDGED} and more without a limit, gain captured: "
          + "; ".join(f"{b} %: {mean(g)}" for b, g in gains.items())
          + f"; three and more jobs at 65 %: {mean(many)}")
    for name, values in [("slowest job", worst),
                         ("other mixes, of the better of temporal and spatial in that budget", other),
                         ("other mixes, of the better of temporal and spatial without a limit", free)]:
        if values:
            print(f"{name}: " + ", ".join(f"{v:.2f} ({m} {b} %)" for v, m, b in sorted(values)[:4]))


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


def show_switching(windows):
    """Temporal: from one step's last kernel to the next one's first."""
    lost = [w["between_us"] for w in windows.get("temporal", [])]
    if lost:
        print(f"  temporal: {statistics.median(lost):.0f} us from a step's last kernel to the next first one")


# -- static offsets ------------------------------------------------------------------------------

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
    tides = [read_tide(solo[n]["tide"][0]) for n in names]
    longest = max(t[0] for t in tides)
    n = 360
    heights = [curve(t, n, max(1, round(longest / t[0]))) for t in tides]
    fixed = sum(solo[x]["fixed"] for x in names)
    least = min(max(heights[0][i] + heights[1][(i + o) % n] for i in range(n)) for o in range(n))
    return (least + fixed) / sum(solo[x]["peak"] for x in names)


def smallest_budget(found):
    """The smallest part of the sum of peaks at which zico loses at most 3 % against no limit."""
    free = found["spatial"]["progress"][0] * 0.97
    points = [(b / 100, found[f"zico-{b}"]["progress"][0]) for b in BUDGETS if f"zico-{b}" in found]
    least = None
    for i, (b, p) in enumerate(points):
        if p >= free:
            least = b
        else:
            if i > 0 and least is not None and points[i - 1][1] > p:
                above = points[i - 1]
                least = b + (free - p) / (above[1] - p) * (above[0] - b)
            break
    return least


def show_offsets(solo, names, found):
    if len(names) != 2 or "spatial" not in found or not all(solo[n].get("tide") for n in names):
        return
    least, best = smallest_budget(found), best_offset(solo, names)
    print(f"  best static offset: {best:.2f} of the sum of peaks; zico within 3 % of no limit: "
          + (f"{least:.2f}" if least else "at no budget measured"))


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
                  f"    fixed: {solo[n]['fixed']}", "    noise: 0.03", f"    gap: {solo[n]['gap_s']:.4f}",
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


COLOURS = ["#3366aa", "#cc6633", "#338855", "#8844aa", "#888833", "#cc3377", "#555555", "#22aaaa"]


def draw_panel(results, title, top):
    """Progress against budget, a line per mix: solid zico, dotted what no limit gives."""
    left, width, height = 70, 560, 300
    shown = {m: r["found"] for m, r in results.items()
             if "zico-65" in r["found"] and "zico-80" in r["found"]}
    highest = max((v["progress"][0] for f in shown.values() for v in f.values()), default=1)
    low, high = 0.8, max(1.4, highest + 0.05)

    def at(percent, progress):
        x = left + (percent - 50) / 55 * width
        y = top + height - (max(progress, low) - low) / (high - low) * height
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{left}" y="{top - 12}">{title}</text>']
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
    return parts


def draw(modes, path):
    """A panel for each distance of the cores."""
    parts = []
    for i, (ns, results) in enumerate(modes):
        parts += draw_panel(results, "Progress relative to taking turns, against the budget; cores "
                            f"{ns} ns apart", 30 + 380 * i)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{380 * len(modes)}" '
                'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n'
                + "\n".join(parts) + "\n</svg>\n")


def check_budgets(found):
    """Mixes that were ever over their budget."""
    return [k for k, v in found.items()
            if "-" in k and v["kernel_peak"] > int(k.split("-")[1]) / 100]


class Results:
    """One JSON object a line, appended window by window."""

    def __init__(self, path):
        self.path, self.solo, self.windows = path, {}, []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    self.take(json.loads(line))

    def take(self, record):
        if "solo" in record:
            self.solo.update(record["solo"])
        else:
            self.windows.append(record)

    def add(self, record):
        self.take(record)
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")

    def next_run(self):
        return 1 + max([w["run"] for w in self.windows], default=0)

    def of(self, mix, near):
        """Windows with the cores so far apart from beginning to end, and what taking turns made in that run."""
        mine = [w for w in self.windows if w["mix"] == mix and distance.is_same(w["apart_ns"])
                and w["others"] < QUIET and near[0] <= w["apart_ns"][0] <= near[1]]
        out = {}
        for w in mine:
            turns = [t["rate"] for t in mine if t["run"] == w["run"] and t["key"] == "temporal"]
            base = [statistics.mean(r) for r in zip(*turns)]
            if base and min(base) > 0:
                out.setdefault(w["key"], []).append({**w, "base": base})
        return out

    def distances(self):
        """How far apart the cores were: ranges, each of like distances."""
        return distance.ranges(w["apart_ns"][0] for w in self.windows if distance.is_same(w["apart_ns"]))


def report_distance(results, near):
    """All mixes while the cores were so far apart: what was found, and who was over its budget."""
    shown, over = {}, []
    for mix in [m for m in MIXES if any(w["mix"] == m for w in results.windows)]:
        names = MIXES[mix]
        total = sum_of_peaks(results.solo, names)
        windows = results.of(mix, near)
        found = judge(names, windows, total)
        if not found:
            continue
        shown[mix] = {"jobs": names, "total": total, "found": found}
        show(mix, names, total, found)
        show_split(found)
        show_switching(windows)
        show_offsets(results.solo, names, found)
        simulate(results.solo, names, found, total)
        over += [f"{mix} {k}" for k in check_budgets(found)]
    show_aims(shown)
    return shown, over


def report(results, opt):
    modes, over = [], []
    for near in results.distances():
        print(f"\n== cores {near[0]} to {near[1]} ns apart " + "=" * 60)
        shown, more = report_distance(results, near)
        modes.append((near[0], shown))
        over += more
    moved = sum(not distance.is_same(w["apart_ns"]) for w in results.windows)
    print(f"{moved} of {len(results.windows)} legs left out, as the cores moved meanwhile")
    if opt.json:
        with open(opt.json, "w", encoding="utf-8") as f:
            json.dump({"solo": results.solo,
                       "modes": [{"apart_ns": ns, "mixes": m} for ns, m in modes]}, f, indent=1)
    if opt.svg:
        draw(modes, opt.svg)
    judged = any(r["found"] for _, shown in modes for r in shown.values())
    print("OVER BUDGET: " + ", ".join(over) if over else
          "never over budget" if judged else "no leg was quiet enough to be judged")
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
        leg = min(30, max(opt.leg, 8 * len(names) * longest))  # in turn, the longest makes 8 steps
        runs = [(which, legs, {}) for which, legs in by_budget(opt.legs) if "legs" in opt.only]
        runs += [(k, ["temporal", "zico-65"], e) for k, e in APART.items() if k in opt.only
                 and (opt.mix or mix in SPLIT)]
        for which, legs, env in runs:
            budget = total * LEGS[legs[1]][1] // 100

            serial = results.next_run()

            def keep(key, seen):
                if which in APART and key != "temporal":
                    key = which
                results.add({"mix": mix, "key": key, "run": serial, **seen})
                print(f"  {mix} {which} {key}: " + " ".join(f"{r:.2f}" for r in seen["rate"])
                      + f" steps/s, others {seen['others']:.2f}, cores {seen['apart_ns'][0]} to "
                      f"{seen['apart_ns'][1]} ns apart", flush=True)
            try:
                run_legs(names, budget, legs, leg, opt.rounds, env, keep)
            except RuntimeError as e:
                failed.append(f"{mix} {which}: {e}")
                print("  " + failed[-1], flush=True)
    return failed


def by_budget(legs):
    """A run for each budget: (its name, temporal and what has that budget)."""
    runs = {}
    for key in legs[1:]:
        runs.setdefault(f"{LEGS[key][1]} %", ["temporal"]).append(key)
    return list(runs.items())


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
    p.add_argument("--legs", type=words(list(LEGS)), default=list(LEGS), help=f"of {','.join(LEGS)}")
    p.add_argument("--only", type=words(["legs", *APART]), default=None,
                   help=f"of {','.join(['legs', *APART])}; with --mix legs")
    p.add_argument("--leg", type=float, default=6, help="seconds, at least; longer for long steps")
    p.add_argument("--rounds", type=int, default=4, help="of the policies, besides the first")
    p.add_argument("--results", default="out/share.jsonl", help="file that legs are appended to")
    p.add_argument("--report", action="store_true", help="measure nothing, show what was measured")
    p.add_argument("--json", help="file")
    p.add_argument("--svg", help="file for the picture")
    p.add_argument("--plenty", type=int, default=4096, help="MiB for jobs alone")
    opt = p.parse_args()
    opt.only = opt.only or (["legs"] if opt.mix or opt.quick else ["legs", *APART])
    if "temporal" in opt.legs:
        opt.legs.remove("temporal")
    opt.legs = ["temporal", *opt.legs]
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
