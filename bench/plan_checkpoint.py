#!/usr/bin/python3
"""PyTorch beside our plans: plainly, and with torch.utils.checkpoint (sequential segments).

    plan_checkpoint.py [--to FILE] [--segments 2,4,8] [--steps 3] [--formats nchw] [NET...]

The networks, batches and optimizer of bench/plan_bench.h.  Each point in a process of its own: its
time is the median of the steps, its peak what an allocation recorder (bench/recorder) counts
during a step above what an idle Python with torch holds.  Chains are cut by checkpoint_sequential
into so many segments of modules; the LSTMs into so many stretches of time, with the state
handed on; the U-Net, which is no chain, has each of its double convolutions checkpointed (9).
Plainly is tried in both memory formats; the faster one serves the cut runs, too.  Rows are
appended to FILE; bench/plan_report sets them beside ours.
"""
import argparse, ctypes, json, os, statistics, subprocess, sys, tempfile, time

# name: (batch, size of the image or of the text)
NETS = {"resnet50": (96, 96), "vgg16": (128, 64), "densenet121": (32, 96), "unet": (48, 96),
        "lstm_lm": (128, 35), "gpt": (32, 128)}
GPT_BLOCKS = 6
HERE = os.path.dirname(os.path.abspath(__file__))


def build(name):
    """(run(segments) -> (logits, answers), module)"""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torchvision
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential
    from torch_gpt import Block

    batch, size = NETS[name]

    def images():
        x = torch.rand(batch, 3, size, size, requires_grad=True)
        if os.environ["ZI_FORMAT"] == "channels_last":
            x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_(True)
        return x

    def chain(parts, x, y):
        m = nn.Sequential(*parts)
        for q in m.modules():  # a segment's input must survive it
            if hasattr(q, "inplace"):
                q.inplace = False
        return (lambda k: (checkpoint_sequential(m, k, x) if k else m(x), y)), m

    def unet():
        w = 32

        def dc(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o),
                                 nn.ReLU(), nn.Conv2d(o, o, 3, padding=1, bias=False),
                                 nn.BatchNorm2d(o), nn.ReLU())
        m = nn.ModuleDict({
            "inc": dc(3, w), "down": nn.ModuleList(dc(w << i, w << (i + 1)) for i in range(4)),
            "up": nn.ModuleList(nn.ConvTranspose2d(w << (i + 1), w << i, 2, 2)
                                for i in (3, 2, 1, 0)),
            "conv": nn.ModuleList(dc(w << (i + 1), w << i) for i in (3, 2, 1, 0)),
            "outc": nn.Conv2d(w, 2, 1)})
        x0, y = images(), torch.randint(2, (batch, size, size))

        def run(k):
            call = checkpoint if k else (lambda f, a: f(a))
            xs = [call(m["inc"], x0)]
            for d in m["down"]:
                xs.append(call(d, F.max_pool2d(xs[-1], 2)))
            x = xs.pop()
            for u, c in zip(m["up"], m["conv"]):
                x = call(c, torch.cat([xs.pop(), u(x)], 1))
            return m["outc"](x), y
        return run, m

    def lstm():
        vocab, width = 256, 256
        m = nn.ModuleDict({"enc": nn.Embedding(vocab, width), "drop": nn.Dropout(0.2),
                           "rnn": nn.LSTM(width, width, 6, dropout=0.2),
                           "dec": nn.Linear(width, vocab)})
        x, y = (torch.randint(vocab, (size, batch)) for _ in range(2))

        def stretch(part, h, c):
            out, (h, c) = m["rnn"](m["drop"](m["enc"](part)), (h, c))
            return m["dec"](m["drop"](out)), h, c

        def run(k):
            h, c = (torch.zeros(6, batch, width, requires_grad=True) for _ in range(2))
            outs = []
            for part in x.chunk(k or 1):
                out, h, c = checkpoint(stretch, part, h, c) if k else stretch(part, h, c)
                outs.append(out)
            return torch.cat(outs).permute(1, 2, 0), y.t()
        return run, m

    def gpt():
        vocab, w = 1000, 256
        m = nn.ModuleDict({"wte": nn.Embedding(vocab, w),
                           "h": nn.Sequential(*(Block(w, 4, size) for _ in range(GPT_BLOCKS))),
                           "ln": nn.LayerNorm(w)})
        m.wpe = nn.Parameter(torch.randn(size, w) * 0.02)
        x, y = (torch.randint(vocab, (batch, size)) for _ in range(2))

        def run(k):
            z = m["wte"](x) + m.wpe
            z = checkpoint_sequential(m["h"], k, z) if k else m["h"](z)
            return (m["ln"](z) @ m["wte"].weight.t()).transpose(1, 2), y
        return run, m

    if name == "unet":
        return unet()
    if name == "lstm_lm":
        return lstm()
    if name == "gpt":
        return gpt()
    if name == "vgg16":
        m = torchvision.models.vgg16(num_classes=100)
        side = size // 32
        parts = list(m.features) + [nn.Flatten(), nn.Linear(512 * side * side, 128), nn.ReLU(),
                                    nn.Dropout(), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(),
                                    nn.Linear(128, 100)]
        return chain(parts, images(), torch.randint(100, (batch,)))
    m = getattr(torchvision.models, name)()
    if name == "resnet50":
        parts = [m.conv1, m.bn1, m.relu, m.maxpool]
        for layer in (m.layer1, m.layer2, m.layer3, m.layer4):
            parts += list(layer)
        parts += [m.avgpool, nn.Flatten(), m.fc]
    else:
        parts = list(m.features) + [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), m.classifier]
    return chain(parts, images(), torch.randint(1000, (batch,)))


def worker(name, segments, steps):
    import torch

    torch.manual_seed(0)
    run, model = build(name)
    if os.environ["ZI_FORMAT"] == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    rec = ctypes.CDLL(os.environ["LD_PRELOAD"])
    rec.recorder_peak.restype = ctypes.c_long
    times = []
    for i in range(steps + 1):
        if i == 1:
            rec.recorder_reset()
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        out, y = run(segments)
        torch.nn.functional.cross_entropy(out, y).backward()
        del out
        opt.step()
        times.append(time.perf_counter() - t0)
    print(json.dumps({"peak": rec.recorder_peak() - int(os.environ["ZI_BASE"]),
                      "time": statistics.median(times[1:])}))


def point(name, segments, opt, env, form):
    out = subprocess.run([sys.executable, __file__, "--worker", name, "--segments", str(segments),
                          "--steps", str(opt.steps)], env=dict(env, ZI_FORMAT=form),
                         stdout=subprocess.PIPE, check=True)
    r = json.loads(out.stdout.splitlines()[-1])
    what = "plain" if not segments else f"{segments} segments"
    print(f"{name:12} PyTorch {what:11} {form:13} {r['peak'] / 2**20:8.1f} MiB "
          f"{r['time']:7.3f} s", flush=True)
    return r


def study(name, opt, env):
    forms = ["nchw"] if name in ("lstm_lm", "gpt") else opt.formats.split(",")
    plain = {f: point(name, 0, opt, env, f) for f in forms}
    form = min(forms, key=lambda f: plain[f]["time"])
    rows = [(0, plain[form])]
    for k in [9] if name == "unet" else [int(s) for s in opt.segments.split(",")]:
        if name == "gpt" and k > GPT_BLOCKS:
            continue  # a segment is at least one block
        rows.append((k, point(name, k, opt, env, form)))
    if opt.to:
        with open(opt.to, "a") as f:
            for k, r in rows:
                f.write(f"torch {name} {k} {r['peak']} {int(r['time'] * 1e9)}\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--to")
    p.add_argument("--segments", default="2,4,8")
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--formats", default="nchw,channels_last", help="tried; the faster one counts")
    p.add_argument("--worker")
    p.add_argument("nets", nargs="*")
    opt = p.parse_args()
    if opt.worker:
        return worker(opt.worker, int(opt.segments), opt.steps)
    with tempfile.TemporaryDirectory() as tmp:
        lib = os.path.join(tmp, "librecorder.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", lib,
                        os.path.join(HERE, "recorder", "recorder.c")], check=True)
        # Memory once touched stays with the process, as ours does: faulting it in anew in every
        # step would cost PyTorch more than its kernels.
        env = dict(os.environ, LD_PRELOAD=lib, MALLOC_MMAP_THRESHOLD_=str(1 << 33),
                   MALLOC_TRIM_THRESHOLD_=str(1 << 36))
        out = subprocess.run(
            [sys.executable, "-c",
             "import torch, torchvision, ctypes, os; torch.rand(10)\n"
             "r = ctypes.CDLL(os.environ['LD_PRELOAD']); r.recorder_live.restype = ctypes.c_long\n"
             "print(r.recorder_live())"], env=env, stdout=subprocess.PIPE, check=True)
        env["ZI_BASE"] = out.stdout.decode().strip()
        for name in opt.nets or NETS:
            study(name, opt, env)


if __name__ == "__main__":
    main()
