#!/usr/bin/python3
"""Queues and slices for real: 12 short native jobs under each discipline, one suspend, six jobs in
slices where memory holds two, and how many inference jobs a device holds.

usage: salus_real.py [--only queue|suspend|slices|infer] [--jobs N] [--policies a,b] [--budget N]
                     [--net NET] [--batch N] [--rounds N] [--seconds S] [--slice S] [--rate HZ]
                     [--latency MS]

The queue is the 100-job trace of bench/salus_queue.c scaled down: drawn with the same seed each
time, many short jobs and a few long ones, all on one thread each.  Times are of one run.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
NETS = [("resnet20", 16, 0.03), ("resnet20", 32, 0.06), ("resnet18:classes=10,size=32", 8, 0.06),
        ("mobilenet_v2:classes=10,size=32", 16, 0.06)]


def draw(n, seed=1):
    """(network, batch, steps, delay): durations lognormal, a few arrivals a second."""
    r = random.Random(seed)
    jobs, at = [], 0.0
    for _ in range(n):
        net, batch, step_s = r.choice(NETS)
        seconds = min(1.0 * math.exp(1.0 * r.gauss(0, 1)), 8)
        jobs.append((net, batch, max(5, int(seconds / step_s)), round(at, 2)))
        at += r.expovariate(4)
    return jobs


def run_queue(folder, jobs, policy, budget):
    text = "budget: %d\njobs:\n" % budget
    for i, (net, batch, steps, delay) in enumerate(jobs):
        text += ("  - name: j%d\n    train: %s\n    batch: %d\n    steps: %d\n    delay: %g\n"
                 % (i, net, batch, steps, delay))
    path = os.path.join(folder, "queue.yaml")
    with open(path, "w") as f:
        f.write(text)
    begin = time.monotonic()
    done = subprocess.run([ZICO, "run", "--policy", policy, "--quiet", "--json", "--out",
                           os.path.join(folder, "out"), "--socket", os.path.join(folder, "s"), path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(ENV, TMPDIR=folder), timeout=170)
    makespan = time.monotonic() - begin
    if done.returncode != 0:
        print("%s: %s" % (policy, done.stderr.strip().splitlines()[-1:]), file=sys.stderr)
        return None
    return makespan, json.loads(done.stdout.splitlines()[-1])


def job_seconds(report):
    return sorted(j["wall_ns"] / 1e9 for j in report["jobs"])


def queue(args):
    jobs = draw(args.jobs)
    print("%d native jobs, %d steps in all, budget %d MiB; seconds" %
          (len(jobs), sum(j[2] for j in jobs), args.budget >> 20))
    print("%-14s %9s %9s %9s" % ("policy", "makespan", "mean", "95 %"))
    for policy in args.policies.split(","):
        with tempfile.TemporaryDirectory(prefix="zi-bench-") as folder:
            got = run_queue(folder, jobs, policy, args.budget)
        if not got:
            continue
        makespan, report = got
        t = job_seconds(report)
        print("%-14s %9.1f %9.1f %9.1f" % (policy, makespan, sum(t) / len(t),
                                           t[min(len(t) - 1, int(len(t) * 0.95))]), flush=True)


def status(sock):
    done = subprocess.run([ZICO, "status", "--json", "--socket", sock], text=True, env=ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout.splitlines()[0]) if done.returncode == 0 else {"jobs": []}


def until(look, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
    sys.exit("bench: gave up waiting")


def disk(folder, n_bytes):
    """Seconds to write and to read so many bytes past the page cache, in pieces of 8 MiB."""
    import mmap
    piece = mmap.mmap(-1, 8 << 20)
    piece.write(b"\x5a" * (8 << 20))
    path = os.path.join(folder, "probe")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    n = max(1, n_bytes // len(piece))
    os.posix_fallocate(fd, 0, n * len(piece))
    t0 = time.monotonic()
    for i in range(n):
        os.pwrite(fd, piece, i * len(piece))
    t1 = time.monotonic()
    for i in range(n):
        os.preadv(fd, [piece], i * len(piece))
    t2 = time.monotonic()
    os.close(fd)
    os.unlink(path)
    scale = n_bytes / (n * len(piece))
    return (t1 - t0) * scale, (t2 - t1) * scale


def suspend(args):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        sock = os.path.join(folder, "s")
        broker = subprocess.Popen([ZICO, "serve", "--socket", sock, "--budget", "3G"], env=ENV,
                                  stderr=subprocess.DEVNULL)
        job = None
        try:
            until(lambda: os.path.exists(sock))
            job = subprocess.Popen([ZICO, "train", args.net, "--batch", str(args.batch), "--steps",
                                    "100000", "--eval", "0", "--quiet"],
                                   env=dict(ENV, ZICO_SOCKET=sock, TMPDIR=folder),
                                   stdout=subprocess.DEVNULL)

            def mine(state=None, step=0):
                j = next(iter(status(sock)["jobs"]), None)
                ok = j and (state is None or j["state"] == state) and j["step_no"] >= step
                return j if ok else None
            j = until(lambda: mine(step=3))
            held = j["fixed_bytes"]
            out_s, in_s = disk(folder, held)
            print("%s: %d MiB kept; the disk alone: out %.2f s, in %.2f s" %
                  (args.net, held >> 20, out_s, in_s))
            for _ in range(args.rounds):
                step = mine()["step_no"]
                subprocess.run([ZICO, "pause", j["name"], "--socket", sock], env=ENV, check=True,
                               stdout=subprocess.DEVNULL)
                until(lambda: mine(3))  # at a boundary: what follows is the move alone
                t0 = time.monotonic()
                subprocess.run([ZICO, "suspend", j["name"], "--socket", sock], env=ENV, check=True,
                               stdout=subprocess.DEVNULL)
                until(lambda: mine(5))
                t1 = time.monotonic()
                left = status(sock)["kernel_bytes"]
                t2 = time.monotonic()
                subprocess.run([ZICO, "resume", j["name"], "--socket", sock], env=ENV, check=True,
                               stdout=subprocess.DEVNULL)
                until(lambda: (mine() or {"fixed_bytes": 0})["fixed_bytes"] == held and mine(2))
                t3 = time.monotonic()
                out2, in2 = disk(folder, held)
                print("suspend %.2f s (%.2f of the disk's), resume to the next step %.2f s (%.2f); "
                      "left in the pool %d bytes" % (t1 - t0, (t1 - t0) / out2, t3 - t2,
                                                     (t3 - t2) / in2, left), flush=True)
                until(lambda: mine(step=step + 1))
        finally:
            if job:
                job.kill()
                job.wait()
            broker.terminate()
            broker.wait()


# -- slices ----------------------------------------------------------------------------------------

SLICED = ("resnet18:classes=10,size=32", 8)


def run_file(folder, text, policy, name):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w") as f:
        f.write(text)
    begin = time.monotonic()
    done = subprocess.run([ZICO, "run", "--policy", policy, "--quiet", "--json", "--out",
                           os.path.join(folder, "out"), "--socket", os.path.join(folder, name), path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(ENV, TMPDIR=folder), timeout=900)
    if done.returncode != 0:
        sys.exit("bench: %s" % done.stderr[-400:])
    return time.monotonic() - begin, json.loads(done.stdout.splitlines()[-1])


def train_entry(name, steps):
    return "  - name: %s\n    train: %s\n    batch: %d\n    steps: %d\n    args: [--eval, '0']\n" % (
        name, *SLICED, steps)


def slices(args):
    """Six jobs one after the other, then in slices, where memory holds what two keep and one step."""
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        big = 4 << 30
        _, report = run_file(folder, "budget: %d\njobs:\n" % big + train_entry("probe", 60), "zico", "p")
        probe = report["jobs"][0]
        steps = max(20, int(args.seconds * probe["rate"]))
        budget = int(probe["peak_bytes"] * 2.0)
        print("six jobs of %d steps (%.0f s alone), peak %d MiB each, budget %d MiB, slices of %g s" %
              (steps, steps / probe["rate"], probe["peak_bytes"] >> 20, budget >> 20, args.slice),
              flush=True)
        head = "budget: %d\njobs:\n" % budget
        alone = 0.0
        for i in range(6):
            seconds, _ = run_file(folder, head + train_entry("j%d" % i, steps), "zico", "q%d" % i)
            alone += seconds
        print("in sequence  %7.1f s" % alone, flush=True)
        text = head + "".join(train_entry("j%d" % i, steps) for i in range(6))
        seconds, report = run_file(folder, text, "gandiva:slice=%g" % args.slice, "s")
        print("in slices    %7.1f s (%.3f of the sequence)" % (seconds, seconds / alone), flush=True)
        t = sorted(j["wall_ns"] / 1e9 for j in report["jobs"])
        print("completion   %7.1f s mean, first %.1f, last %.1f" % (sum(t) / 6, t[0], t[-1]))


# -- inference --------------------------------------------------------------------------------------

SERVED = ["resnet20", "resnet18:classes=10,size=64", "mobilenet_v2:classes=10,size=64",
          "resnet50:classes=10,size=64", "densenet121:classes=10,size=64"]


def infer_text(args, n, budget, steps):
    text = "budget: %d\njobs:\n" % budget
    for i in range(n):
        text += ("  - name: i%d\n    infer: %s\n    batch: 8\n    steps: %d\n    latency: %g\n"
                 "    args: [--json, --rate, '%g']\n" % (i, SERVED[i % len(SERVED)], steps, args.latency,
                                                        args.rate))
    return text


def served(folder, n):
    late = asked = 0
    worst = 0.0
    for i in range(n):
        with open(os.path.join(folder, "out", "i%d.log" % i)) as f:
            row = json.loads([l for l in f if l.startswith("[") or l.startswith("{")][-1])
        row = row[0] if isinstance(row, list) else row
        late += row["late"]
        asked += row["steps"]
        worst = max(worst, row["p99_ns"] / 1e6)
    return late / asked, worst


def infer(args):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        budget, big = args.infer_budget, 4 << 30
        peaks = []
        for i in range(len(SERVED)):
            text = infer_text(args, len(SERVED), big, 20).split("  - name: ")
            _, report = run_file(folder, text[0] + "  - name: " + text[i + 1], "salus:pack", "a%d" % i)
            peaks.append(report["jobs"][0]["peak_bytes"])
        reserved, total = 0, 0
        while total + peaks[reserved % len(peaks)] <= budget:
            total += peaks[reserved % len(peaks)]
            reserved += 1
        print("a mix of %d networks, batch 8, %g requests a second each, bound %g ms, budget %d MiB" %
              (len(SERVED), args.rate, args.latency, budget >> 20))
        print("peaks alone: %s MiB; reserving them %d instances fit" %
              (", ".join("%d" % (p >> 20) for p in peaks), reserved), flush=True)
        best = 0
        for n in args.instances:
            seconds, report = run_file(folder, infer_text(args, n, budget, 12 * max(1, int(args.rate))),
                                       "salus:pack", "n%d" % n)
            late, worst = served(folder, n)
            print("%3d instances: %.1f %% late, worst 99th of a hundred %.0f ms, peak of all %d MiB" %
                  (n, 100 * late, worst, report["peak_bytes"] >> 20), flush=True)
            if late > 0.01:
                break
            best = n
        print("one device holds %d within the bound: 1 with one device each, %d by peaks" % (best, reserved))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--jobs", type=int, default=12)
    p.add_argument("--budget", type=int, default=256 << 20)
    p.add_argument("--policies", default="salus:fifo,salus:srtf,salus:pack,salus:fair,zico,gandiva:slice=2")
    p.add_argument("--only", choices=["queue", "suspend", "slices", "infer"])
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--slice", type=float, default=10)
    p.add_argument("--rate", type=float, default=1)
    p.add_argument("--latency", type=float, default=250)
    p.add_argument("--infer-budget", type=int, default=512 << 20)
    p.add_argument("--instances", type=int, nargs="*", default=[5, 10, 15, 20, 25, 30])
    p.add_argument("--net", default="resnet50:classes=10,size=64")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    for part in (queue, suspend, slices, infer):
        if args.only in (None, part.__name__):
            part(args)


if __name__ == "__main__":
    main()
