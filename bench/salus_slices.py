"""Six jobs where memory holds two: one after the other, then in slices, and where the difference goes.

The broker's own record of steps (zico serve --log-level 3) is taken apart:
  start   until the first step began: processes, networks, first memory
  steps   at least one job inside a step; of that, two at once ("packed")
  slow    how much the first steps after a return, the steps beside somebody's move, and all others took
          longer than the job's median step alone
  turn    from the last step of one job to the first of another
  gap     between two steps of the same job
  end     from the last step to the last process's end
"""
import os
import tempfile
import time

from salus_tools import Broker, median, run_file

SLICED = ("resnet18:classes=10,size=32", 8)
N = 6
AFTER = 3  # steps after a return that count as its first


def train_words(steps):
    return ["train", SLICED[0], "--batch", str(SLICED[1]), "--steps", str(steps), "--eval", "0", "--quiet"]


def probe(folder):
    """Steps a second and peak of one job with all the memory it likes."""
    text = ("budget: %d\njobs:\n  - name: probe\n    train: %s\n    batch: %d\n    steps: 60\n"
            "    args: [--eval, '0']\n" % (4 << 30, *SLICED))
    _, report = run_file(folder, text, "zico", "p")
    return report["jobs"][0]["rate"], report["jobs"][0]["peak_bytes"]


def run(folder, name, budget, slice_s, steps, at_once):
    """Seconds, and the broker's record."""
    with Broker(folder, name, budget, "gandiva:slice=%g" % slice_s) as b:
        begin = time.monotonic()
        jobs = []
        for i in range(N):
            jobs.append(b.start(folder, "j%d" % i, train_words(steps)))
            if not at_once:
                jobs[-1].wait()
        for job in jobs:
            if job.wait() != 0:
                raise SystemExit("bench: a job failed")
        end = time.monotonic()
        return begin, end, b.events()


class Steps:
    """The record as intervals."""

    def __init__(self, begin, end, events):
        self.begin, self.end = begin, end
        self.steps, self.moves, open_step, returned, leaving = [], [], {}, {}, {}
        for word, job, at, _ in events:
            if word == "go":
                open_step[job] = at
            elif word == "end" and job in open_step:
                after = returned.get(job, AFTER)
                returned[job] = after + 1
                self.steps.append((open_step.pop(job), at, job, after < AFTER))
            elif word == "suspend":
                leaving[job] = at
            elif word == "out" and job in leaving:
                self.moves.append((leaving.pop(job), at, job, "out"))
            elif word == "resume":
                leaving[job] = at
                returned[job] = 0
            elif word == "ask" and job in leaving and returned.get(job) == 0:
                self.moves.append((leaving.pop(job), at, job, "in"))
        self.steps.sort()

    def overlap(self, span, others):
        return sum(max(0.0, min(span[1], o[1]) - max(span[0], o[0])) for o in others)

    def parts(self):
        s = self.steps
        alone = {}
        for i, x in enumerate(s):
            beside = (i > 0 and s[i - 1][1] > x[0]) or (i + 1 < len(s) and s[i + 1][0] < x[1])
            if not beside and not x[3] and self.overlap(x, self.moves) == 0:
                alone.setdefault(x[2], []).append(x[1] - x[0])
        usual = {job: median(v) for job, v in alone.items()}
        p = dict.fromkeys(("start", "steps", "packed", "slow_return", "slow_move", "slow_packed",
                           "slow_other", "turn", "gap", "end"), 0.0)
        p["n_turns"] = p["n_gaps"] = 0
        p["start"], p["end"] = s[0][0] - self.begin, self.end - max(x[1] for x in s)
        until, last = s[0][0], s[0][2]
        for x in s:
            if x[0] > until:
                kind = "gap" if x[2] == last else "turn"
                p[kind] += x[0] - until
                p["n_" + kind + "s"] += 1
            else:
                p["packed"] += min(until, x[1]) - x[0]
            p["steps"] += max(0.0, x[1] - max(until, x[0]))
            if x[1] > until:
                until, last = x[1], x[2]
        for i, x in enumerate(s):
            over = x[1] - x[0] - usual.get(x[2], median(list(usual.values()) or [0]))
            beside = (i > 0 and s[i - 1][1] > x[0]) or (i + 1 < len(s) and s[i + 1][0] < x[1])
            kind = "slow_packed" if beside else "slow_return" if x[3] else \
                "slow_move" if self.overlap(x, self.moves) > 0 else "slow_other"
            p[kind] += over
        p["usual_ms"] = 1e3 * median(list(usual.values()))
        p["n_out"] = sum(m[3] == "out" for m in self.moves)
        p["n_in"] = sum(m[3] == "in" for m in self.moves)
        p["out_ms"] = 1e3 * median([m[1] - m[0] for m in self.moves if m[3] == "out"])
        p["in_ms"] = 1e3 * median([m[1] - m[0] for m in self.moves if m[3] == "in"])
        return p


def show(name, record):
    p = record["parts"]
    print("%-9s %7.1f s: start %.2f, steps %.1f (two at once %.1f), turns %.2f (%d), gaps %.2f (%d), "
          "end %.2f" % (name, record["seconds"], p["start"], p["steps"], p["packed"], p["turn"],
                        p["n_turns"], p["gap"], p["n_gaps"], p["end"]))
    print("          a step %.1f ms; longer than that: after a return %.2f s, beside a move %.2f, packed "
          "%.2f, others %.2f; %d out (%.0f ms each), %d in (%.0f ms)" %
          (p["usual_ms"], p["slow_return"], p["slow_move"], p["slow_packed"], p["slow_other"], p["n_out"],
           p["out_ms"], p["n_in"], p["in_ms"]), flush=True)


def report(results):
    rows = results.all("slices")
    for r in rows:
        print("%d steps each, %d MiB, slices of %g s%s" %
              (r["steps"], r["budget"] >> 20, r["slice"], ", " + r["note"] if r.get("note") else ""))
        for name in ("sequence", "slices"):
            if name in r:
                show("in " + name, r[name])
        if "sequence" in r and "slices" in r:
            a, b = r["sequence"], r["slices"]
            n = max(1, b["parts"]["n_turns"])
            print("          %.3f of the sequence; %.0f ms for each of %d turns" %
                  (b["seconds"] / a["seconds"], 1e3 * (b["seconds"] - a["seconds"]) / n, n))


def slices(args, results):
    with tempfile.TemporaryDirectory(prefix="zi-bench-", dir="/var/tmp") as folder:
        rate, peak = probe(folder)
        steps, budget = max(20, int(args.seconds * rate)), int(peak * 2.0)
        print("six jobs of %d steps (%.0f s alone), peak %d MiB each, budget %d MiB, slices of %g s" %
              (steps, steps / rate, peak >> 20, budget >> 20, args.slice), flush=True)
        record = {"part": "slices", "steps": steps, "budget": budget, "slice": args.slice, "note": args.note}
        for name, at_once in (("sequence", False), ("slices", True)):
            if name not in args.sides.split(","):
                continue
            begin, end, events = run(folder, name[:2], budget, args.slice, steps, at_once)
            record[name] = {"seconds": end - begin, "parts": Steps(begin, end, events).parts()}
            show("in " + name, record[name])
            if args.keep:
                os.makedirs(args.keep, exist_ok=True)
                with open(os.path.join(args.keep, name + ".events"), "w") as f:
                    f.write("".join("%s %s %.6f %d\n" % (w, j, t - begin, v) for w, j, t, v in events))
        results.add(record)
        if "sequence" in record and "slices" in record:
            print("%.3f of the sequence" % (record["slices"]["seconds"] / record["sequence"]["seconds"]))
