#!/usr/bin/python3
"""Queues and slices for real: 12 short native jobs under each discipline, and one suspend.

usage: salus_real.py [--jobs N] [--policies a,b] [--only queue|suspend] [--net NET] [--batch N]

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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--jobs", type=int, default=12)
    p.add_argument("--budget", type=int, default=256 << 20)
    p.add_argument("--policies", default="salus:fifo,salus:srtf,salus:pack,salus:fair,zico,gandiva:slice=2")
    p.add_argument("--only", choices=["queue", "suspend"])
    p.add_argument("--net", default="resnet50:classes=10,size=64")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    if args.only != "suspend":
        queue(args)
    if args.only != "queue":
        suspend(args)


if __name__ == "__main__":
    main()
