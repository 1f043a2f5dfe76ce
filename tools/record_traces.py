#!/usr/bin/python3
"""record_traces.py -- record what small PyTorch trainings allocate.

usage: tools/record_traces.py [NAME ...]       writes bench/traces/NAME.trace.zst

Each training runs a few steps under tools/trace_record.c (a preload library, built here); the
last three steps are kept as text, one event a line:

    a ID BYTES DT     a block is allocated, DT microseconds after the line before
    f ID DT           it is freed
    s DT              a step ends and the next begins

Blocks that outlive their step (gradients that are kept, optimizer state) are left out: they do
not live in the pool.  Needs torch and torchvision, and zstd.
"""
import ctypes
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
N_WARM, N_KEPT = 3, 3


def models():
    """name -> (make model, make one batch, loss of the output)"""
    import torch
    import torch.nn as nn
    import torchvision.models as tv

    def images(n, side):
        return lambda: (torch.randn(n, 3, side, side), torch.randint(10, (n,)))

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(5000, 256)
            self.rnn = nn.LSTM(256, 512, num_layers=2, batch_first=True)
            self.out = nn.Linear(512, 5000)

        def forward(self, x):
            return self.out(self.rnn(self.emb(x))[0]).flatten(0, 1)

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(4000, 256)
            layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 4)
            self.out = nn.Linear(256, 4000)

        def forward(self, x):
            return self.out(self.body(self.emb(x))).flatten(0, 1)

    def tokens(n, length, words):
        return lambda: (torch.randint(words, (n, length)), torch.randint(words, (n * length,)))

    return {
        "resnet18": (lambda: tv.resnet18(num_classes=10), images(16, 64)),
        "resnet50": (lambda: tv.resnet50(num_classes=10), images(8, 96)),
        "mobilenet_v2": (lambda: tv.mobilenet_v2(num_classes=10), images(16, 96)),
        "densenet121": (lambda: tv.densenet121(num_classes=10), images(8, 64)),
        "lstm": (Lstm, tokens(48, 48, 5000)),
        "transformer": (Transformer, tokens(8, 128, 4000)),
    }


def train(name):
    """Runs inside the recorded process."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    torch.manual_seed(1)
    mark = ctypes.CDLL(None).zi_trace_mark
    make, batch = models()[name]
    model = make()
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(N_WARM + N_KEPT):
        mark()
        x, y = batch()
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        del x, y, loss
    mark()


def read_steps(path):
    """Events of the last N_KEPT steps: (step, time, address, size)."""
    with open(path, "rb") as f:
        raw = f.read()
    step, events = -1, []
    for at, address, size in struct.iter_unpack("QQQ", raw):
        if size == 2**64 - 1:
            step += 1
        elif step >= N_WARM:
            events.append((step, at, address, size))
        if step == N_WARM + N_KEPT:
            return events
    sys.exit(f"record_traces: only {step} steps in {path}")


def to_text(name, events):
    """Keep blocks that begin and end in one step; number them."""
    live, kept = {}, {}
    for i, (step, _, address, size) in enumerate(events):
        if size:
            live[address] = i
        elif address in live:
            first = live.pop(address)
            if events[first][0] == step:
                kept[first] = i
    ends = {i: first for first, i in kept.items()}
    lines = [f"trace 1 {name}"]
    ids, last_step, last_at = {}, events[0][0], events[0][1]
    for i, (step, at, _, size) in enumerate(events):
        if i not in kept and i not in ends:
            continue
        dt, last_at = max(0, (at - last_at) // 1000), at
        if step != last_step:
            lines.append(f"s {dt}")
            last_step, dt = step, 0
        if i in kept:
            ids[i] = len(ids) + 1
            lines.append(f"a {ids[i]} {size} {dt}")
        else:
            lines.append(f"f {ids[ends[i]]} {dt}")
    lines.append("s 0")
    return "\n".join(lines) + "\n"


def record(name, library, folder):
    raw = os.path.join(folder, name)
    env = dict(os.environ, LD_PRELOAD=library, ZI_TRACE_OUT=raw, ZI_TRACE_RUN=name)
    subprocess.run([sys.executable, os.path.abspath(__file__)], env=env, check=True)
    text = to_text(name, read_steps(raw))
    out = os.path.join(ROOT, "bench", "traces", name + ".trace.zst")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    subprocess.run(["zstd", "-q", "-f", "-19", "-o", out], input=text.encode(), check=True)
    print(f"{name}: {text.count(chr(10))} lines, {os.path.getsize(out)} bytes")


def main():
    if "ZI_TRACE_RUN" in os.environ:
        train(os.environ["ZI_TRACE_RUN"])
        return
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "trace_record.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library,
                        os.path.join(ROOT, "tools", "trace_record.c"), "-ldl"], check=True)
        for name in sys.argv[1:] or models():
            record(name, library, folder)


if __name__ == "__main__":
    main()
