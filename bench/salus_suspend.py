"""A native job moved out and in from the command line, against as many bytes through the same kind of
file, in turns.

The job is paused first, so that it stands at a step boundary: the wait for the end of a step is told
apart.  Parts, by the broker's record (zico serve --log-level 3):
  out     SUSPEND sent -> the job says that it is out
  cold    -> the pool's pages are given back to the machine
  in      RESUME sent -> the job has everything and asks for its next step
  told    what the user's command and the first look at the status add
"""
import os
import subprocess
import tempfile
import time

from salus_tools import Broker, median, until

TIER = ("fresh_out", "fresh_in", "again_out", "again_in", "own_fresh_out", "own_fresh_in", "own_out",
        "own_in")
MOVE = os.path.join(os.environ["ZI_BUILD_DIR"], "bench", "suspend_move")


def tier(folder, n_bytes):
    """Seconds to write so many bytes into a file of the tier, and to read them, from and into memory like
    the pool's that is there: a fresh file, then the same again; then the same with private memory."""
    done = subprocess.run([MOVE, "tier", str(n_bytes)], env=dict(os.environ, TMPDIR=folder), text=True,
                          stdout=subprocess.PIPE, check=True)
    return [float(x) for x in done.stdout.split()]


class Watched:
    def __init__(self, broker):
        self.broker = broker

    def job(self, state=None, step=0):
        j = next(iter(self.broker.status()["jobs"]), None)
        return j if j and (state is None or j["state"] == state) and j["step_no"] >= step else None

    def last(self, word):
        return max((at for w, _, at, _ in self.broker.events() if w == word), default=0.0)

    def wait_for(self, word, since):
        return until(lambda: self.last(word) if self.last(word) > since else None, 60)


def one_round(broker, w, name):
    t = time.monotonic()
    broker.say("pause", name)
    until(lambda: w.job(3))
    boundary = time.monotonic() - t
    t0 = time.monotonic()
    broker.say("suspend", name)
    out = w.wait_for("out", t0)
    cold = w.wait_for("cold", out)
    until(lambda: w.job(5))
    seen = time.monotonic()
    left = broker.status()["kernel_bytes"]
    asked = w.last("suspend")
    t1 = time.monotonic()
    broker.say("resume", name)
    back = w.wait_for("ask", t1)
    r = {"boundary": boundary, "out": out - asked, "cold": cold - out, "in": back - w.last("resume"),
         "out_told": seen - t0 - (cold - asked), "in_told": w.last("resume") - t1, "left": left}
    r["first"] = until(lambda: w.last("end") > back and w.last("end") - back, 60)
    return r


def suspend(args, results):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        with Broker(folder, "s", "3G") as broker:
            job = broker.start(folder, "net", ["train", args.net, "--batch", str(args.batch), "--steps",
                                               "100000", "--eval", "0", "--quiet"])
            try:
                w = Watched(broker)
                held = until(lambda: w.job(step=3))["fixed_bytes"]
                print("%s: %d MiB kept" % (args.net, held >> 20))
                for i in range(args.rounds):
                    r = one_round(broker, w, "net")
                    r.update(zip(TIER, tier(folder, held)))
                    r.update(part="suspend", net=args.net, bytes=held, first_time=i == 0, note=args.note)
                    results.add(r)
                    show(r)
                    until(lambda: w.job(step=3) and w.last("end") > 0)
            finally:
                job.kill()
                job.wait()


def against(r):
    """The tier alone, a file in the same state: a job's first suspension makes it, later ones reuse it."""
    return (r["fresh_out"], r["fresh_in"]) if r["first_time"] else (r["again_out"], r["again_in"])


def show(r):
    out, back = against(r)
    print("out %.3f + cold %.3f s = %.2f of the tier's %.3f; in %.3f s = %.2f of %.3f; told %.3f and %.3f; "
          "boundary %.2f; first step %.3f; left %d bytes; from private memory %.3f and %.3f" %
          (r["out"], r["cold"], (r["out"] + r["cold"]) / out, out, r["in"], r["in"] / back, back,
           r["out_told"], r["in_told"], r["boundary"], r["first"], r["left"], r["own_out"], r["own_in"]),
          flush=True)


def report(results):
    rows = [r for r in results.all("suspend") if "own_in" in r]
    for net in sorted({r["net"] for r in rows}):
        mine = [r for r in rows if r["net"] == net]
        ratio = [[], []]
        for r in mine:
            show(r)
            out, back = against(r)
            ratio[0].append((r["out"] + r["cold"]) / out)
            ratio[1].append(r["in"] / back)
        print("%s, %d rounds: medians out %.2f, in %.2f of the tier alone" %
              (net, len(mine), median(ratio[0]), median(ratio[1])))
