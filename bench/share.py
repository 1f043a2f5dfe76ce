"""share.py -- many jobs, one budget: zico against time multiplexing and against no limit at all.

    make bench-share                     everything; about 20 minutes
    tools/bench-share.sh --quick         two mixes, one round; about 4 minutes
    tools/bench-share.sh --mix pair-same --rounds 1 --window 8

For each mix of native jobs, round after round with the policies interleaved:

    temporal    one step at a time, the runner has all cores; the yardstick
    spatial     as much memory as all want together: what sharing can gain at most
    zico        at 100, 80, 65 and 55 % of the sum of solo peaks, changed by `zico limit` as it runs
    hold        zico at 65 %, jobs give memory back only at the end of a step (ZICO_HOLD=step)

Progress is a job's rate relative to its rate under temporal; of a mix, the mean over its jobs.
Gain captured = (zico - temporal) / (spatial - temporal).  Rates come from the times at which steps
end, in a window in which all jobs are past their first steps.  Memory is what the kernel says: a
process of its own looks at the blocks of the pool's memfd every 20 ms, plus what the jobs charged.
How busy others kept the machine is printed with the results; windows with more than 0.15 cores of
foreign load are repeated, at most three times.
"""
import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ZICO = os.path.join(os.environ.get("ZI_BUILD_DIR", "build/release"), "zico")
MIB = 1 << 20

# name: network, batch, optimizer.  Peak at least 300 MB, what stays about a tenth of it or less.
JOBS = {
    "mobile": ("mobilenet_v2:classes=10,size=64", 64, "momentum"),
    "dense": ("densenet121:classes=10,size=64", 28, "sgd"),
    "unet": ("unet:classes=2,size=64,width=16", 56, "momentum"),
    "resnet20": ("resnet20:classes=10", 192, "momentum"),
    "lstm": ("lstm_lm:vocab=4000,width=100,hidden=100,layers=2,seq=35", 216, "sgd"),
    "gpt": ("gpt:vocab=256,seq=128,width=192,layers=4,heads=4", 40, "momentum"),
}
MIXES = {
    "pair-same": ["mobile", "mobile"],
    "pair-long-short": ["dense", "mobile"],
    "three": ["mobile", "unet", "lstm"],
    "four": ["mobile", "dense", "unet", "gpt"],
    "eight": ["mobile", "dense", "unet", "gpt", "mobile", "resnet20", "unet", "lstm"],
}
BUDGETS = [100, 80, 65, 55]
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


class Job:
    """One `zico train`, and the times at which its steps ended."""

    def __init__(self, name, serial, socket, steps, env):
        net, batch, optimizer = JOBS[name]
        self.name, self.ends, self.bad = f"{name}-{serial}", [], None
        env = dict(env, ZICO_JOB_NAME=self.name)
        self.process = subprocess.Popen(
            [ZICO, "train", net, "--batch", str(batch), "--optimizer", optimizer, "--steps",
             str(steps), "--eval", "0", "--seed", str(serial + 1), "--json", "--socket", socket],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if '"event":"step"' in line:
                self.ends.append(time.monotonic())
        self.bad = self.process.stderr.read()

    def rate(self, begin, end):
        """Steps a second between the last end before `begin` and the last one before `end`."""
        t = [x for x in self.ends if x <= end]
        first = max([i for i, x in enumerate(t) if x <= begin], default=0)
        if len(t) - 1 <= first:
            return 0.0
        return (len(t) - 1 - first) / (t[-1] - t[first])


class Run:
    """A broker and jobs under one policy."""

    def __init__(self, names, policy, budget, env=None, steps=1000000):
        self.dir = tempfile.mkdtemp(prefix="zi-share-")
        self.socket = os.path.join(self.dir, "b.sock")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZICO_")}
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.broker = subprocess.Popen(
            [ZICO, "serve", "--socket", self.socket, "--policy", policy, "--budget", str(budget),
             "--log-level", "0"], stdout=self.log, stderr=self.log, env=clean)
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

    def window(self, seconds, repeats=3):
        """The quietest of a few: others on the machine come in bursts."""
        best = None
        for _ in range(repeats):
            seen = self.one_window(seconds)
            if best is None or seen["others"] < best["others"]:
                best = seen
            if best["others"] < QUIET:
                break
        return best

    def one_window(self, seconds):
        pids = [j.process.pid for j in self.jobs] + [self.pid]
        self.peak()
        before, begin = status(self.socket), time.monotonic()
        used, own = cpu_used(), cpu_of(pids)
        time.sleep(seconds)
        end, after = time.monotonic(), status(self.socket)
        others = (cpu_used() - used - (cpu_of(pids) - own)) / (end - begin)
        steps = sum(sum(1 for x in j.ends if begin < x <= end) for j in self.jobs)
        changed = field(after, "exchanged_bytes") - field(before, "exchanged_bytes")
        return {
            "rate": [j.rate(begin, end) for j in self.jobs],
            "exchanged": changed / max(steps, 1),
            "kernel_peak": self.peak() + field(after, "private_bytes"),
            "waits": {j["name"]: j.get("reason") for j in after.get("jobs", [])},
            "others": others,
            "p99_us": field(after, "decide_p99_ns") / 1e3,
        }

    def limit(self, budget):
        subprocess.run([ZICO, "limit", "--budget", str(budget), "--socket", self.socket],
                       check=True, stdout=subprocess.DEVNULL)

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


def measure_solo(names, plenty):
    """Peak and rate of each network alone."""
    found = {}
    for name in sorted(set(names)):
        with Run([name], "spatial", plenty) as r:
            r.warm_up(4)
            seen = status(r.socket)["jobs"][0]
            t = r.jobs[0].ends
            found[name] = {"peak": seen["peak_bytes"], "fixed": seen["fixed_bytes"],
                           "rate": (len(t) - 1) / (t[-1] - t[0])}
        print(f"  {name:10} peak {found[name]['peak'] / MIB:5.0f} MiB, stays "
              f"{found[name]['fixed'] / MIB:4.0f} MiB, {1 / found[name]['rate']:.2f} s a step",
              flush=True)
    return found


def one_round(names, total, opt, into):
    """Every policy once, in random order; a budget's window is opt.window seconds long."""
    def temporal():
        with Run(names, "temporal", int(total * 1.1)) as r:
            r.warm_up(3)
            into["temporal"].append(r.window(opt.window))

    def spatial():
        with Run(names, "spatial", int(total * 1.3)) as r:
            r.warm_up(3)
            into["spatial"].append(r.window(opt.window))

    def zico():
        with Run(names, "zico", total) as r:
            r.warm_up(3)
            for percent in BUDGETS:
                r.limit(total * percent // 100)
                time.sleep(opt.window / 4)
                into[f"zico-{percent}"].append(r.window(opt.window))

    def hold():
        with Run(names, "zico", total * 65 // 100, env={"ZICO_HOLD": "step"}) as r:
            r.warm_up(3)
            into["hold-65"].append(r.window(opt.window))

    order = [temporal, spatial, zico] + ([] if opt.no_hold else [hold])
    random.shuffle(order)
    for run in order:
        try:
            run()
        except RuntimeError as e:
            print(f"  {run.__name__}: {e}", flush=True)


def interval(values):
    """Median, and the 95 % interval of a bootstrap over rounds."""
    rng = random.Random(1)
    meds = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(500))
    return statistics.median(values), meds[12], meds[-13]


def judge(names, into, total):
    """Per configuration: progress of the mix and of its slowest job, relative to temporal."""
    base = [statistics.median(w["rate"][i] for w in into["temporal"]) for i in range(len(names))]
    out = {}
    for key, windows in into.items():
        if not windows or min(base) <= 0:
            print(f"  {key}: no rates; the window is too short for this machine")
            continue
        ratios = [[w["rate"][i] / base[i] for i in range(len(names))] for w in windows]
        mean = [statistics.mean(r) for r in ratios]
        per_job = [statistics.median(r[i] for r in ratios) for i in range(len(names))]
        out[key] = {
            "progress": interval(mean), "slowest": min(per_job), "per_job": per_job,
            "exchanged": statistics.median(w["exchanged"] for w in windows),
            "kernel_peak": max(w["kernel_peak"] for w in windows) / total,
            "others": statistics.median(w["others"] for w in windows),
            "p99_us": statistics.median(w["p99_us"] for w in windows),
        }
    return out


def show(mix, names, total, found):
    gain_all = found.get("spatial", {"progress": (1, 1, 1)})["progress"][0] - 1
    print(f"\n{mix}: {' + '.join(names)}, sum of solo peaks {total / MIB:.0f} MiB")
    print(f"  {'':10} {'progress':>8} {'95 %':>13} {'gain':>6} {'slowest':>8} "
          f"{'changed hands':>14} {'peak':>6} {'others':>7}  per job")
    for key, v in found.items():
        p, lo, hi = v["progress"]
        gain = f"{(p - 1) / gain_all:6.2f}" if abs(gain_all) > 0.02 else "     -"
        print(f"  {key:10} {p:8.3f} {lo:6.3f}-{hi:6.3f} {gain} {v['slowest']:8.3f} "
              f"{v['exchanged'] / MIB:8.0f} MiB/s. {v['kernel_peak']:5.2f} {v['others']:7.2f}  "
              + " ".join(f"{x:.2f}" for x in v["per_job"]), flush=True)


COLOURS = ["#3366aa", "#cc6633", "#338855", "#8844aa", "#888833"]


def draw(results, path):
    """Progress against budget, a line per mix: solid zico, dotted what no limit gives."""
    left, top, width, height = 70, 30, 560, 300
    shown = {m: r["found"] for m, r in results.items() if "zico-65" in r["found"]}
    if not shown:
        return
    highest = max(v["progress"][0] for f in shown.values() for v in f.values())
    low, high = 0.8, max(1.4, highest + 0.05)

    def at(percent, progress):
        x = left + (percent - 50) / 55 * width
        y = top + height - (max(progress, low) - low) / (high - low) * height
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 170}" '
             f'height="{top + height + 50}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="18">Progress relative to taking turns, against the budget</text>']
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
        f.write("\n".join(parts) + "\n</svg>\n")


def check_budgets(found):
    """Mixes that were ever over their budget."""
    return [k for k, v in found.items()
            if k.startswith(("zico-", "hold-")) and v["kernel_peak"] > int(k.split("-")[1]) / 100]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--mix", action="append", choices=sorted(MIXES))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--window", type=float, default=10, help="seconds")
    p.add_argument("--no-hold", action="store_true", help="without the negative control")
    p.add_argument("--json", help="file")
    p.add_argument("--svg", help="file for the picture")
    p.add_argument("--plenty", type=int, default=4096, help="MiB for jobs alone")
    opt = p.parse_args()
    if opt.quick:
        opt.rounds, opt.window = 1, 6
    mixes = opt.mix or (["pair-same", "three"] if opt.quick else list(MIXES))
    print("alone:")
    solo = measure_solo([n for m in mixes for n in MIXES[m]], opt.plenty * MIB)
    results, over = {}, []
    for mix in mixes:
        names = MIXES[mix]
        total = sum(solo[n]["peak"] for n in names) // (2 * MIB) * 2 * MIB
        into = {k: [] for k in ["temporal", "spatial", *[f"zico-{b}" for b in BUDGETS],
                                "hold-65"]}
        mine = argparse.Namespace(**vars(opt))  # taking turns, the longest makes 4 steps
        longest = max(1 / solo[n]["rate"] for n in names)
        mine.window = min(30, max(opt.window, 4 * len(names) * longest))
        for _ in range(opt.rounds):
            one_round(names, total, mine, into)
        found = judge(names, into, total)
        show(mix, names, total, found)
        over += [f"{mix} {k}" for k in check_budgets(found)]
        results[mix] = {"jobs": names, "total": total, "found": found}
        if opt.json:
            with open(opt.json, "w", encoding="utf-8") as f:
                json.dump({"solo": solo, "mixes": results}, f, indent=1)
    if opt.svg:
        draw(results, opt.svg)
    if over:
        print("OVER BUDGET: " + ", ".join(over))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
