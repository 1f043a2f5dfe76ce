"""How many inference jobs one device holds within a latency bound: bisection over their number.

An instance is a process that is asked so many times a second; its latency counts from the moment a
request was due, so waiting for other instances counts.  A number of instances is held if at most 1 %
of all requests are late, once all have started.  Beside it: how many hold by memory alone if each reserves its peak."""
import json
import os
import tempfile

from salus_tools import run_file

SERVED = ["resnet20", "resnet18:classes=10,size=64", "mobilenet_v2:classes=10,size=64",
          "resnet50:classes=10,size=64", "densenet121:classes=10,size=64"]
LATE = 0.01


def infer_text(args, first, n, budget, steps):
    text = "budget: %d\njobs:\n" % budget
    for i in range(first, first + n):
        text += ("  - name: i%d\n    infer: %s\n    batch: %d\n    steps: %d\n    latency: %g\n"
                 "    args: [--json, --rate, '%g', --warmup, '%d']\n" %
                 (i, SERVED[i % len(SERVED)], args.infer_batch, steps, args.latency, args.rate,
                  int((2 + 0.4 * n) * args.rate)))
    return text


def served(folder, n):
    """Share of late requests, and the worst 99th of a hundred, in ms."""
    late = asked = 0
    worst = 0.0
    for i in range(n):
        with open(os.path.join(folder, "out", "i%d.log" % i)) as f:
            row = json.loads([line for line in f if line[0] in "[{"][-1])
        row = row[0] if isinstance(row, list) else row
        late += row["late"]
        asked += row["steps"]
        worst = max(worst, row["p99_ns"] / 1e6)
    return late / asked, worst


def probe(args, folder, n):
    steps = max(5, int(args.probe * args.rate))
    seconds, report = run_file(folder, infer_text(args, 0, n, args.infer_budget, steps),
                               "salus:" + args.discipline, "n%d" % n, 20 + 12 * args.probe)
    late, worst = served(folder, n)
    print("%3d instances: %.1f %% late, worst 99th of a hundred %.0f ms, peak of all %d MiB, %.0f s" %
          (n, 100 * late, worst, report["peak_bytes"] >> 20, seconds), flush=True)
    return {"n": n, "late": late, "worst_ms": worst, "peak": report["peak_bytes"]}


def search(args, folder):
    """The most instances that are held: doubled until too many, then halved in between."""
    low, high, seen = 0, args.first, []
    while high <= args.most:
        seen.append(probe(args, folder, high))
        if seen[-1]["late"] > LATE:
            break
        low, high = high, high * 2
    high = min(high, args.most + 1)
    while high - low > max(1, low // 16):
        mid = (low + high) // 2
        seen.append(probe(args, folder, mid))
        if seen[-1]["late"] > LATE:
            high = mid
        else:
            low = mid
    return low, seen


def by_peaks(peaks, budget):
    n = total = 0
    while total + peaks[n % len(peaks)] <= budget:
        total += peaks[n % len(peaks)]
        n += 1
    return n


def show(r):
    print("%d networks, batch %d, %g requests a second each, bound %g ms, %d MiB, salus:%s" %
          (len(r["peaks"]), r["batch"], r["rate"], r["latency"], r["budget"] >> 20, r["discipline"]))
    print("one device holds %d within the bound; with one device each 1, reserving peaks (%s MiB) %d" %
          (r["held"], ", ".join("%d" % (p >> 20) for p in r["peaks"]), r["by_peaks"]), flush=True)


def infer(args, results):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        peaks = []
        for i in range(len(SERVED)):
            _, report = run_file(folder, infer_text(args, i, 1, 4 << 30, 5), "salus:pack", "a%d" % i)
            peaks.append(report["jobs"][0]["peak_bytes"])
        held, seen = search(args, folder)
        r = {"part": "infer", "batch": args.infer_batch, "rate": args.rate, "latency": args.latency,
             "budget": args.infer_budget, "discipline": args.discipline, "peaks": peaks, "held": held,
             "by_peaks": by_peaks(peaks, args.infer_budget), "seen": seen, "note": args.note}
        results.add(r)
        show(r)


def report(results):
    for r in results.all("infer"):
        show(r)
