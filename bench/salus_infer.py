"""How many inference jobs one device holds within a latency bound.

An instance is a process that is asked so many times a second; its latency counts from the moment a request
was due, so waiting for other instances counts.  A number of instances is *held* if
  loaded   all of them have their memory and have answered before the first request is counted
  served   each answers all its requests
  in time  of each network's requests, all instances together, 95 of a hundred are within the bound
The broker's own record (zico serve --log-level 3) tells whether all were loaded at once: an instance that
waits for another's end is not held.

The search begins where memory ends: what each keeps (weights), all together, and the largest step.  The same
is done with a policy that reserves each job's peak.  One device each holds one.
"""
import json
import os
import subprocess
import tempfile
import time

from salus_tools import Broker, until

SERVED = ["resnet20", "resnet18:classes=10,size=128", "mobilenet_v2:classes=10,size=128",
          "densenet121:classes=10,size=128"]
IN_TIME = 0.95
START_S = 0.3  # between two starts
LOAD_S = 0.6   # an instance's share of the time until all are loaded


def words(args, i, steps, warmup):
    return ["infer", SERVED[i % len(SERVED)], "--batch", str(args.infer_batch), "--steps", str(steps),
            "--warmup", str(warmup), "--rate", "%g" % args.rate, "--latency", "%g" % args.latency, "--json"]


def sizes(args, folder):
    """(kept, peak) of each network, alone."""
    found = []
    for i in range(len(SERVED)):
        with Broker(folder, "a%d" % i, 4 << 30) as b:
            job = b.start(folder, "one", words(args, i, 1000, 0))
            try:
                until(lambda: next((j for j in b.status()["jobs"] if j["step_no"] >= 2), None), pause=0.05)
                j = b.status()["jobs"][0]
                found.append((j["fixed_bytes"], j["peak_bytes"]))
            finally:
                job.kill()
                job.wait()
    return found


def by_lanes(size, budget):
    n = kept = step = 0
    while True:
        keeps, peak = size[n % len(size)]
        kept, step = kept + keeps, max(step, peak - keeps)
        if kept + step > budget:
            return n
        n += 1


def by_peaks(size, budget):
    n = total = 0
    while total + size[n % len(size)][1] <= budget:
        total += size[n % len(size)][1]
        n += 1
    return n


class Instances:
    """So many processes under one broker."""

    def __init__(self, args, folder, policy, n):
        self.args, self.folder, self.policy, self.n = args, folder, policy, n
        self.warm_s = 3 + LOAD_S * n
        self.steps = max(5, int(args.probe * args.rate))
        self.warmup = int(self.warm_s * args.rate) + 1

    def path(self, i):
        return os.path.join(self.folder, "i%d.json" % i)

    def run(self):
        with Broker(self.folder, "n%d" % self.n, self.args.infer_budget, self.policy) as b:
            jobs = []
            try:
                for i in range(self.n):
                    with open(self.path(i), "w") as out:
                        jobs.append(b.start(self.folder, "i%d" % i, words(self.args, i, self.steps, self.warmup),
                                            stdout=out))
                    time.sleep(START_S)
                loaded = self.await_loaded(b)
                if loaded == self.n:
                    for job in jobs:
                        job.wait(timeout=self.warm_s + 3 * self.args.probe)
            except subprocess.TimeoutExpired:
                pass
            finally:
                for job in jobs:
                    if job.poll() is None:
                        job.kill()
                    job.wait()
            return self.verdict(loaded, b.events())

    def await_loaded(self, b):
        """How many have answered, all still there; gives up when that does not change for a while."""
        most, end = 0, time.monotonic() + 2 * self.warm_s
        while time.monotonic() < end:
            now = sum(j["step_no"] >= 1 for j in b.status()["jobs"])
            most = max(most, now)
            if most == self.n:
                break
            time.sleep(0.25)
        return most

    def verdict(self, loaded, events):
        r = {"n": self.n, "policy": self.policy, "loaded": loaded, "held": False, "why": "not loaded"}
        if loaded < self.n:
            return r
        first, rows = {}, []
        for word, job, at, _ in events:
            if word == "end":
                first.setdefault(job, at)
        counted_from = min(first.values()) + self.warmup / self.args.rate
        r["load_s"] = max(first.values()) - min(first.values())
        if max(first.values()) > counted_from:
            r["why"] = "the last was loaded %.0f s late" % (max(first.values()) - counted_from)
            return r
        for i in range(self.n):
            with open(self.path(i)) as f:
                lines = [line for line in f if line[0] in "[{"]
            if not lines:
                r["why"] = "not all served"
                return r
            row = json.loads(lines[-1])
            rows.append(row[0] if isinstance(row, list) else row)
        asked = sum(row["steps"] for row in rows)
        late = [0.0] * len(SERVED)
        for k in range(min(len(SERVED), self.n)):
            mine = rows[k::len(SERVED)]
            late[k] = sum(row["late"] for row in mine) / sum(row["steps"] for row in mine)
        r.update(requests=asked, late=sum(row["late"] for row in rows) / asked, worst_late=max(late),
                 p50_ms=sorted(row["p50_ns"] for row in rows)[len(rows) // 2] / 1e6,
                 p95_ms=max(row["p95_ns"] for row in rows) / 1e6)
        r["held"] = max(late) <= 1 - IN_TIME
        r["why"] = "" if r["held"] else "late"
        return r


def probe(args, folder, policy, n, seen):
    begin = time.monotonic()
    r = Instances(args, folder, policy, n).run()
    r["seconds"] = time.monotonic() - begin
    seen.append(r)
    show_probe(r)
    return r["held"]


def show_probe(r):
    text = "%-12s %3d instances: " % (r["policy"], r["n"])
    text += "held" if r["held"] else "%s (%d of %d loaded)" % (r["why"], r["loaded"], r["n"])
    if "requests" in r:
        text += "; %d requests, %.1f %% late, %.1f %% of the worst network; median %.0f ms, worst instance's " \
                "95th of a hundred %.0f ms; loaded within %.0f s" % \
                (r["requests"], 100 * r["late"], 100 * r["worst_late"], r["p50_ms"], r["p95_ms"], r["load_s"])
    print(text + "; %.0f s" % r["seconds"], flush=True)


def search(args, folder, policy, most, seen):
    """The most that are held, no more than memory allows."""
    low, high, n = 0, most + 1, most
    while high - low > max(1, high // 16):
        if probe(args, folder, policy, n, seen):
            low = n
        else:
            high = n
        n = (low + high) // 2
    return low


def show(r):
    print("%d networks, batch %d, %g requests a second each, bound %g ms, %d MiB" %
          (len(r["sizes"]), r["batch"], r["rate"], r["latency"], r["budget"] >> 20))
    print("kept and peak, MiB: %s" % ", ".join("%d %d" % (k >> 20, p >> 20) for k, p in r["sizes"]))
    print("by memory alone: lanes %d, peaks %d; held: %s; one device each 1" %
          (r["by_lanes"], r["by_peaks"], ", ".join("%s %d" % x for x in r["held"].items())), flush=True)


def infer(args, results):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        size = sizes(args, folder)
        most = {"salus:" + args.discipline: by_lanes(size, args.infer_budget),
                "spatial": by_peaks(size, args.infer_budget)}
        r = {"part": "infer", "batch": args.infer_batch, "rate": args.rate, "latency": args.latency,
             "budget": args.infer_budget, "sizes": size, "by_lanes": most["salus:" + args.discipline],
             "by_peaks": most["spatial"], "held": {}, "seen": [], "note": args.note}
        show(r)
        for policy in most:
            if args.only_policy in (None, policy):
                r["held"][policy] = search(args, folder, policy, min(args.most, most[policy]), r["seen"])
        results.add(r)
        show(r)


def report(results):
    for r in results.all("infer"):
        if "by_lanes" not in r:
            continue
        for seen in r["seen"]:
            show_probe(seen)
        show(r)
