#!/usr/bin/python3
"""Step time and peak memory of zico's engine and of PyTorch, taking turns in one run.

    engine.py [--nets resnet50,gpt,...] [--threads 1,2] [--rounds 5] [--steps 3] [--json FILE]
              [--add] [--report] [--cpu] [--passive]

Same network, batch, optimizer (SGD with momentum) and thread count; PyTorch in its better
memory format.  Both processes stay up; they run a few steps each in turn, so that whatever
else the machine does hits both.  Medians over all rounds.

A round in which other programs took more than a tenth of a core counts only where there is no
quiet one; the report names them.

FILE keeps every round.  With --add rounds are added to those that are in it, so that a long
measurement can be cut into short ones (a network, a thread count at a time); --report only
prints what is in it.
"""
import argparse, ctypes, json, math, os, statistics, subprocess, sys, time

# name: (zoo spec, batch, torch builder)
NETS = {
    "resnet50": ("resnet50:size=64", 16),
    "vgg16": ("vgg16:size=64", 8),
    "mobilenet_v2": ("mobilenet_v2:size=96", 16),
    "densenet121": ("densenet121:size=64", 16),
    "unet": ("unet:size=96,width=32", 4),
    "lstm_lm": ("lstm_lm", 20),
    "gpt": ("gpt:vocab=8000,seq=128,width=256,layers=4,heads=4", 8),
}


def spec_args(spec):
    return dict((k, float(v)) for k, v in
                (kv.split("=") for kv in spec.partition(":")[2].split(",") if kv))


def torch_worker(name):
    """Runs inside a process of its own; speaks lines on stdin and stdout."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch_gpt import Block

    spec, batch = NETS[name]
    a = spec_args(spec)
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    class UNet(nn.Module):
        def __init__(self, w, classes=2, channels=3):
            super().__init__()

            def dc(i, o):
                return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False),
                                     nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                                     nn.Conv2d(o, o, 3, padding=1, bias=False),
                                     nn.BatchNorm2d(o), nn.ReLU(inplace=True))
            self.inc = dc(channels, w)
            self.down = nn.ModuleList([dc(w << i, w << (i + 1)) for i in range(4)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(w << (i + 1), w << i, 2, 2)
                                     for i in (3, 2, 1, 0)])
            self.conv = nn.ModuleList([dc(w << (i + 1), w << i) for i in (3, 2, 1, 0)])
            self.outc = nn.Conv2d(w, classes, 1)

        def forward(self, x):
            xs = [self.inc(x)]
            for d in self.down:
                xs.append(d(F.max_pool2d(xs[-1], 2)))
            x = xs.pop()
            for u, c in zip(self.up, self.conv):
                x = c(torch.cat([xs.pop(), u(x)], 1))
            return self.outc(x)

    class LSTMLM(nn.Module):
        def __init__(self, vocab=10000, width=200, hidden=200, layers=2, drop=0.2):
            super().__init__()
            self.drop = nn.Dropout(drop)
            self.encoder = nn.Embedding(vocab, width)
            self.rnn = nn.LSTM(width, hidden, layers, dropout=drop)
            self.decoder = nn.Linear(hidden, vocab)

        def forward(self, x):
            y, _ = self.rnn(self.drop(self.encoder(x)).transpose(0, 1))
            return self.decoder(self.drop(y).transpose(0, 1)).transpose(1, 2)

    class GPT(nn.Module):
        def __init__(self, vocab, seq, width, layers, heads):
            super().__init__()
            self.wte = nn.Embedding(vocab, width)
            self.wpe = nn.Parameter(torch.randn(seq, width) * 0.02)
            self.h = nn.ModuleList([Block(width, heads, seq) for _ in range(layers)])
            self.ln = nn.LayerNorm(width)

        def forward(self, x):
            x = self.wte(x) + self.wpe
            for b in self.h:
                x = b(x)
            return (self.ln(x) @ self.wte.weight.t()).transpose(1, 2)

    def images(classes=1000):
        s = int(a["size"])
        return torch.rand(batch, 3, s, s), torch.randint(classes, (batch,))

    import torchvision.models as tv
    if name == "resnet50":
        model, (x, y) = tv.resnet50(), images()
    elif name == "vgg16":
        model, (x, y) = tv.vgg16(), images()
        side = int(a["size"]) // 32  # the classifier for this size, as in the zoo
        model.avgpool = nn.Identity()
        model.classifier[0] = nn.Linear(512 * side * side, 4096)
    elif name == "mobilenet_v2":
        model, (x, y) = tv.mobilenet_v2(), images()
    elif name == "densenet121":
        model, (x, y) = tv.densenet121(), images()
    elif name == "unet":
        s = int(a["size"])
        model, x = UNet(int(a["width"])), torch.rand(batch, 3, s, s)
        y = torch.randint(2, (batch, s, s))
    elif name == "lstm_lm":
        model = LSTMLM()
        x, y = torch.randint(10000, (batch, 35)), torch.randint(10000, (batch, 35))
    else:
        model = GPT(int(a["vocab"]), int(a["seq"]), int(a["width"]), int(a["layers"]),
                    int(a["heads"]))
        x = torch.randint(int(a["vocab"]), (batch, int(a["seq"])))
        y = torch.randint(int(a["vocab"]), (batch, int(a["seq"])))
    if os.environ["ZI_FORMAT"] == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    crit = nn.CrossEntropyLoss()

    def step():
        opt.zero_grad(set_to_none=True)
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    step(), step()
    peak = 0
    if "librecorder" in os.environ.get("LD_PRELOAD", ""):
        rec = ctypes.CDLL(os.environ["LD_PRELOAD"])
        rec.recorder_peak.restype = rec.recorder_live.restype = ctypes.c_long
        base = float(os.environ.get("ZI_BASE", "0"))
        rec.recorder_reset()
        step()
        peak = rec.recorder_peak() - base
    print("ready", peak, flush=True)
    for line in sys.stdin:
        n = int(line.split()[1])
        t = []
        clock = time.process_time if os.environ.get("ZI_CPU") else time.perf_counter
        for _ in range(n):
            t0 = clock()
            step()
            t.append(clock() - t0)
        print(statistics.median(t), flush=True)


class Worker:
    def __init__(self, cmd, env):
        self.p = subprocess.Popen(cmd, env={**os.environ, **env}, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.first = self.p.stdout.readline().split()
        if not self.first or self.first[0] != "ready":
            raise SystemExit("worker failed: " + " ".join(cmd))

    def go(self, n):
        self.p.stdin.write("go %d\n" % n)
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def end(self):
        rest = self.p.communicate()[0]
        return rest


def ticks_of_others(workers):
    """Processor ticks of the whole machine that were not ours, since it began."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    busy = sum(v) - v[3] - v[4]  # all but idle and waiting for disks; stolen ticks count
    for pid in [os.getpid()] + [w.p.pid for w in workers]:
        with open("/proc/%d/stat" % pid) as f:
            t = f.read().rpartition(")")[2].split()
        busy -= int(t[11]) + int(t[12])
    return busy


def one(name, threads, opt, env):
    spec, batch = NETS[name]
    engine = [os.path.join(os.environ["ZI_BUILD_DIR"], "bench", "engine_step"), spec, "--batch",
              str(batch), "--threads", str(threads), "--steps", str(opt.steps), "--follow"]
    if opt.cpu:
        engine.append("--cpu")
    torch_cmd = ["/usr/bin/python3", __file__, "--worker", name]
    e = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    formats = ["nchw"] if name in ("lstm_lm", "gpt") else ["nchw", "channels_last"]
    workers = {"zico": Worker(engine, e)}
    for f in formats:
        workers[f] = Worker(torch_cmd, {**e, **env, "ZI_FORMAT": f})
    times, others = {k: [] for k in workers}, []
    for _ in range(opt.rounds):
        t0, ticks = time.perf_counter(), ticks_of_others(workers.values())
        for k, w in workers.items():
            times[k].append(w.go(opt.steps))
        ticks = ticks_of_others(workers.values()) - ticks
        others.append(ticks / os.sysconf("SC_CLK_TCK") / (time.perf_counter() - t0))
    info = json.loads(workers["zico"].end())
    peaks = {f: float(workers[f].first[1]) for f in formats}
    for f in formats:
        workers[f].end()
    return {"net": name, "spec": spec, "batch": batch, "threads": threads, "steps": opt.steps,
            "cpu": opt.cpu, "passive": opt.passive, "s": times, "others": others,
            "torch_bytes": peaks, "info": info}


def start_time():
    """From the command to the begin of step 1 of `zico train resnet50`, in seconds; best of 3."""
    found = []
    for _ in range(3):
        t0 = time.perf_counter()
        p = subprocess.Popen([os.path.join(os.environ["ZI_BUILD_DIR"], "zico"), "train", "resnet50",
                              "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        p.stdout.readline()  # "ready" is told right before the first step
        found.append(time.perf_counter() - t0)
        p.kill()
        p.communicate()
    return min(found)


QUIET = 0.1  # of a core: what others may take in a round that counts


def row_of(runs):
    """All runs of one network and thread count as one row: medians over the quiet rounds."""
    others = sum((r["others"] for r in runs), [])
    counts = [i for i, share in enumerate(others) if share <= QUIET] or range(len(others))
    times = {k: sum((r["s"][k] for r in runs), []) for k in runs[0]["s"]}
    times = {k: [v[i] for i in counts] for k, v in times.items()}
    med = {k: statistics.median(v) for k, v in times.items()}
    best = min((f for f in times if f != "zico"), key=lambda f: med[f])
    info = runs[-1]["info"]
    ours, theirs = info["peak_bytes"] + info["outside_bytes"], runs[-1]["torch_bytes"][best]
    return {"net": runs[0]["net"], "threads": runs[0]["threads"], "rounds": len(times["zico"]),
            "zico_ms": med["zico"] * 1e3, "torch_ms": med[best] * 1e3, "format": best,
            "speedup": med[best] / med["zico"],
            "disturbed": len(others) - len(counts) if max(others[i] for i in counts) <= QUIET
            else len(others),
            "spread": max(times["zico"]) / min(times["zico"]),
            "zico_bytes": ours, "torch_bytes": theirs,
            "bytes_ratio": ours / theirs if theirs else None,
            "issue_us_per_op": max(r["info"]["issue_us_per_op"] for r in runs),
            "slots": info["peak_bytes"] / info["live_bytes"]}


def report(runs):
    groups = {}
    for r in runs:
        key = (list(NETS).index(r["net"]), r["threads"], r["cpu"], r["passive"])
        groups.setdefault(key, []).append(r)
    rows = [row_of(groups[k]) for k in sorted(groups)]
    print("%-14s %2s %3s %9s %9s %-13s %7s %7s %9s %9s %5s %6s %7s" % (
        "network", "t", "n", "zico ms", "torch ms", "torch format", "faster", "spread", "zico MB",
        "torch MB", "mem", "slots", "us/op"))
    for r in rows:
        print("%-14s %2d %3d %9.1f %9.1f %-13s %6.2fx %7.2f %9.1f %9.1f %5s %6.3f %7.2f" % (
            r["net"], r["threads"], r["rounds"], r["zico_ms"], r["torch_ms"], r["format"],
            r["speedup"], r["spread"], r["zico_bytes"] / 1e6, r["torch_bytes"] / 1e6,
            "%.2f" % r["bytes_ratio"] if r["bytes_ratio"] else "-", r["slots"],
            r["issue_us_per_op"]))
    speedups, ratios = [r["speedup"] for r in rows], [r["bytes_ratio"] for r in rows
                                                       if r["bytes_ratio"]]
    if any(r["disturbed"] for r in rows):
        print("rounds in which others took more than %.0f %% of a core: %s" % (100 * QUIET, ", ".join(
            "%s %d: %d" % (r["net"], r["threads"], r["disturbed"]) for r in rows if r["disturbed"])))
    print("geometric mean %.2fx, least %.2fx, memory %s" % (
        geomean(speedups), min(speedups), "%.2f" % geomean(ratios) if ratios else "-"))
    return rows


def geomean(v):
    return math.exp(sum(math.log(x) for x in v) / len(v))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--json", help="the file that keeps the rounds")
    p.add_argument("--add", action="store_true", help="keep what is in the file, add to it")
    p.add_argument("--report", action="store_true", help="measure nothing, print the file")
    p.add_argument("--cpu", action="store_true",
                   help="processor time instead of the clock: one thread on a busy machine")
    p.add_argument("--passive", action="store_true",
                   help="idle threads of both sides sleep at once: two threads on a busy machine")
    p.add_argument("--worker")
    opt = p.parse_args()
    if opt.worker:
        return torch_worker(opt.worker)
    env = {}
    if not opt.report and not opt.add and opt.json and os.path.exists(opt.json):
        os.remove(opt.json)
    if opt.cpu:
        os.environ["ZI_CPU"] = "1"
    if opt.passive:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    if os.environ.get("ZI_RECORDER") and not opt.report:
        env = {"LD_PRELOAD": os.environ["ZI_RECORDER"]}
        # What a Python with torch holds before there is a network.
        out = subprocess.run(
            ["/usr/bin/python3", "-c",
             "import torch, torchvision, ctypes, os; torch.rand(10)\n"
             "r = ctypes.CDLL(os.environ['LD_PRELOAD']); r.recorder_live.restype = ctypes.c_long\n"
             "print(r.recorder_live())"], env={**os.environ, **env}, capture_output=True, text=True)
        env["ZI_BASE"] = out.stdout.strip() or "0"
    kept = {"runs": [], "start_s": None}
    if (opt.add or opt.report) and os.path.exists(opt.json or ""):
        with open(opt.json) as f:
            kept = json.load(f)
    for name in [] if opt.report else opt.nets.split(","):
        for t in (int(x) for x in opt.threads.split(",")):
            kept["runs"].append(one(name, t, opt, env))
            save(opt.json, kept)
    if not opt.report and "resnet50" in opt.nets.split(","):
        kept["start_s"] = start_time()
    kept["rows"] = report(kept["runs"])
    if kept["start_s"]:
        print("start of zico train resnet50 to step 1: %.2f s" % kept["start_s"])
    save(opt.json, kept)


def save(path, kept):
    if path:
        with open(path, "w") as f:
            json.dump(kept, f, indent=1)


if __name__ == "__main__":
    main()
