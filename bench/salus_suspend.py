"""A native job moved out and in from the command line, against a plain write and read of as many bytes, in
turns.

A round is: pause (the job stands at a step boundary: the wait for the end of its step is told apart), write,
suspend, read, resume.  `write` and `read` are bench/suspend_move.c: one thread, direct requests of 8 MiB, from
and into as much ordinary memory, a file beside the job's; `best` is one buffer in huge pages.  Parts, by the broker's record (zico serve --log-level 3):
  out     SUSPEND sent -> the job says that it is out
  cold    -> all pages of the pool are given back to the machine
  in      RESUME sent -> the job has everything, in place and mapped, and asks for its next step
  told    what the user's command adds, until the state is seen to have changed
The first round makes the files (fresh blocks) and is told apart; ratios are those of neighbours in a round.
"""
import os
import subprocess
import tempfile
import time

from salus_tools import Broker, median, until

MOVE = os.path.join(os.environ["ZI_BUILD_DIR"], "bench", "suspend_move")


def plain(way, folder, n_bytes):
    """Seconds: from or into as much memory, and the most that the disk gives."""
    done = subprocess.run([MOVE, way, os.path.join(folder, "plain"), str(n_bytes)], text=True,
                          stdout=subprocess.PIPE, check=True)
    return [float(x) for x in done.stdout.split()]


def shared_bytes(pid):
    """What the kernel counts as shared memory of the process."""
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssShmem"))


PAUSE = 0.01  # between two looks: who measures must not compute; times are the broker's


class Watched:
    def __init__(self, broker):
        self.broker = broker

    def job(self, state=None, step=0):
        j = next(iter(self.broker.status()["jobs"]), None)
        return j if j and (state is None or j["state"] == state) and j["step_no"] >= step else None

    def last(self, word):
        return max((at for w, _, at, _ in self.broker.events() if w == word), default=0.0)

    def wait_for(self, word, since):
        return until(lambda: self.last(word) if self.last(word) > since else None, 60, PAUSE)


def one_round(broker, w, name, pid, folder, n_bytes):
    r = {}
    t = time.monotonic()
    broker.say("pause", name)
    until(lambda: w.job(3), pause=PAUSE)
    r["boundary"] = time.monotonic() - t
    r["held"] = shared_bytes(pid)
    r["write"], r["write_best"] = plain("write", folder, n_bytes)
    t0 = time.monotonic()
    broker.say("suspend", name)
    out = w.wait_for("out", t0)
    cold = w.wait_for("cold", out)
    until(lambda: w.job(5), pause=PAUSE)
    r["out_told"] = time.monotonic() - t0 - (cold - w.last("suspend"))
    r["out"], r["cold"] = out - w.last("suspend"), cold - out
    r["left"], r["left_job"] = broker.status()["kernel_bytes"], shared_bytes(pid)
    r["read"], r["read_best"] = plain("read", folder, n_bytes)
    t1 = time.monotonic()
    broker.say("resume", name)
    back = w.wait_for("ask", t1)
    r["in"], r["in_told"] = back - w.last("resume"), w.last("resume") - t1
    r["first"] = until(lambda: w.last("end") > back and w.last("end") - back, 60, PAUSE)
    return r


def suspend(args, results):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        with Broker(folder, "s", "3G") as broker:
            job = broker.start(folder, "net", ["train", args.net, "--batch", str(args.batch), "--steps",
                                               "100000", "--eval", "0", "--quiet"])
            try:
                w = Watched(broker)
                held = until(lambda: w.job(step=3), pause=PAUSE)["fixed_bytes"]
                print("%s: %d MiB kept" % (args.net, held >> 20))
                rows = []
                for i in range(args.rounds + 1):
                    r = one_round(broker, w, "net", job.pid, folder, held)
                    r.update(part="suspend", net=args.net, bytes=held, first_time=i == 0, note=args.note)
                    results.add(r)
                    rows.append(r)
                    show(r)
                    until(lambda: w.job(step=3) and w.last("end") > 0, pause=PAUSE)
                show_medians(args.net, rows)
            finally:
                job.kill()
                job.wait()


def show(r):
    out = r["out"] + r["cold"]
    print("%s out %.3f + cold %.3f = %.2f of %.3f (best %.3f); in %.3f = %.2f of %.3f (%.3f); told %.3f "
          "and %.3f; boundary %.2f; first step %.3f; kernel: %d MiB of the job before, %d bytes of it and %d of "
          "the pool in between" %
          ("fresh" if r["first_time"] else "     ", r["out"], r["cold"], out / r["write"], r["write"],
           r["write_best"], r["in"], r["in"] / r["read"], r["read"], r["read_best"], r["out_told"],
           r["in_told"], r["boundary"], r["first"], r["held"] >> 20, r["left_job"], r["left"]), flush=True)


def show_medians(net, rows):
    mine = [r for r in rows if not r["first_time"]]
    if not mine:
        return
    for way, ratio in (("suspend", [(r["out"] + r["cold"]) / r["write"] for r in mine]),
                       ("resume", [r["in"] / r["read"] for r in mine])):
        print("%s, %s: %.2f of bytes / bandwidth (median of %d rounds; %.2f to %.2f)" %
              (net, way, median(ratio), len(ratio), min(ratio), max(ratio)))


def report(results):
    rows = [r for r in results.all("suspend") if "write_best" in r]
    for net in sorted({r["net"] for r in rows}):
        mine = [r for r in rows if r["net"] == net]
        for r in mine:
            show(r)
        show_medians(net, mine)
