#!/usr/bin/python3
"""Queues and slices for real: 16 short native jobs under each discipline, one job moved out and in, six
jobs in slices where memory holds two, and how many inference jobs a device holds.

usage: salus_real.py [--only queue|suspend|slices|infer] [--add FILE] [--report FILE] [OPTION...]

--add appends what is measured to FILE, one JSON object a line, so that a long measurement can be cut
into windows; --report measures nothing and shows all that FILE holds.

The queue is the 100-job trace of bench/salus_queue.c scaled down: drawn with the same seed each time,
many short jobs and a few long ones.
"""
import argparse
import math
import random
import tempfile

import salus_infer
import salus_slices
import salus_suspend
from salus_tools import Results, foreign_seconds, median, run_file

# network, batch, seconds of a step alone: lasting memory is small beside a step's, as in the paper
NETS = [("resnet20", 16, 0.022), ("resnet20", 32, 0.043), ("resnet20", 64, 0.085),
        ("mobilenet_v2:classes=10,size=32", 16, 0.026), ("mobilenet_v2:classes=10,size=32", 32, 0.05)]
POLICIES = "salus:fifo,salus:srtf,salus:pack,salus:fair,zico,gandiva:slice=5"


def draw(n, scale, seed=1):
    """(network, batch, steps, delay): the trace of salus_queue.c at a fiftieth of its length: durations
    lognormal (median 1.6 s, sigma 1.3, cut at 72 s), Poisson arrivals, one every 0.4 s."""
    r = random.Random(seed)
    jobs, at = [], 0.0
    for _ in range(n):
        net, batch, step_s = r.choice(NETS)
        seconds = scale * min(1.6 * math.exp(1.3 * r.gauss(0, 1)), 72)
        jobs.append((net, batch, max(5, int(seconds / step_s)), round(at, 2)))
        at += scale * r.expovariate(2.5)
    return jobs


def queue_text(jobs, budget):
    text = "budget: %d\njobs:\n" % budget
    for i, (net, batch, steps, delay) in enumerate(jobs):
        text += ("  - name: j%d\n    train: %s\n    batch: %d\n    steps: %d\n    delay: %g\n"
                 "    args: [--eval, '0']\n" % (i, net, batch, steps, delay))
    return text


def queue(args, results):
    jobs = draw(args.jobs, args.scale)
    n_steps = sum(j[2] for j in jobs)
    print("%d native jobs, %d steps in all, budget %d MiB; seconds" % (len(jobs), n_steps, args.budget >> 20))
    for policy in args.policies.split(","):
        with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
            before = foreign_seconds()
            makespan, report = run_file(folder, queue_text(jobs, args.budget), policy, "s", 200)
        t = sorted(j["wall_ns"] / 1e9 for j in report["jobs"])
        r = {"part": "queue", "jobs": len(jobs), "steps": n_steps, "budget": args.budget, "policy": policy,
             "makespan": makespan, "mean": sum(t) / len(t), "p95": t[min(len(t) - 1, int(len(t) * 0.95))],
             "others": foreign_seconds() - before, "note": args.note}
        results.add(r)
        print("%-14s %9.1f %9.1f %9.1f   others took %.1f s of the processors" %
              (policy, makespan, r["mean"], r["p95"], r["others"]), flush=True)


def report_queue(results):
    rows = results.all("queue")
    for key in sorted({(r["jobs"], r["steps"], r["budget"]) for r in rows}):
        same = [r for r in rows if (r["jobs"], r["steps"], r["budget"]) == key]
        print("%d native jobs, %d steps in all, budget %d MiB; seconds, medians (least, most)" %
              (key[0], key[1], key[2] >> 20))
        for policy in dict.fromkeys(r["policy"] for r in same):
            line = "%-14s" % policy
            for what in ("makespan", "mean", "p95"):
                v = [r[what] for r in same if r["policy"] == policy]
                line += "  %6.1f (%.1f, %.1f)" % (median(v), min(v), max(v))
            print(line + "  %d runs" % sum(r["policy"] == policy for r in same))


def options():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--only", choices=["queue", "suspend", "slices", "infer"])
    p.add_argument("--add", metavar="FILE")
    p.add_argument("--report", metavar="FILE")
    p.add_argument("--note", default="", help="kept with what is added")
    p.add_argument("--jobs", type=int, default=16)
    p.add_argument("--scale", type=float, default=1, help="queue: times as long")
    p.add_argument("--budget", type=int, default=384 << 20)
    p.add_argument("--policies", default=POLICIES)
    p.add_argument("--seconds", type=float, default=20, help="slices: of each job, alone")
    p.add_argument("--slice", type=float, default=10)
    p.add_argument("--sides", default="sequence,slices")
    p.add_argument("--keep", metavar="DIR", help="slices: the broker's record of steps")
    p.add_argument("--rate", type=float, default=0.1, help="infer: requests a second of each instance")
    p.add_argument("--latency", type=float, default=500, help="infer: bound, ms")
    p.add_argument("--infer-budget", type=int, default=1 << 30)
    p.add_argument("--infer-batch", type=int, default=16)
    p.add_argument("--discipline", default="pack")
    p.add_argument("--only-policy", help="infer: of salus:DISCIPLINE and spatial")
    p.add_argument("--probe", type=float, default=40, help="infer: seconds of requests for one number")
    p.add_argument("--most", type=int, default=120)
    p.add_argument("--net", default="resnet50:classes=10,size=64")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--rounds", type=int, default=7)
    return p.parse_args()


def main():
    args = options()
    if args.report:
        results = Results(args.report)
        for show in (report_queue, salus_suspend.report, salus_slices.report, salus_infer.report):
            show(results)
        return
    parts = {"queue": queue, "suspend": salus_suspend.suspend, "slices": salus_slices.slices,
             "infer": salus_infer.infer}
    for name, part in parts.items():
        if args.only in (None, name):
            part(args, Results(args.add))


if __name__ == "__main__":
    main()
