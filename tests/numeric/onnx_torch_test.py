"""What torchvision exports imports, differentiates, and computes what PyTorch computes.

Each file is exported here, run by the reference loops (tests/helper/onnx_run) and compared
with PyTorch's own output in evaluation mode.  `zico train` then trains some of them for three
steps; with ZI_FULL=1 (make test-full) every network of torchvision.  timeout: 400
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torchvision import models

warnings.filterwarnings("ignore")
BUILD = os.environ.get("ZI_BUILD_DIR", "build/dev")
RUN = os.path.join(BUILD, "tests/helper/onnx_run")
ZICO = os.path.join(BUILD, "zico")
FULL = os.environ.get("ZI_FULL") == "1"
TRAINED = ("squeezenet1_1", "resnet18", "mobilenet_v2")  # always; small and quick

# name, options, image size, modes, opsets, whether the forward pass is run here
CASES = [
    ("mixed", {}, 8, ("eval", "train"), (11, 12, 13, 14, 15, 16), True),
    ("feed", {}, 6, ("eval", "train"), (11, 13, 16, 17), True),
    ("attention", {}, 6, ("eval", "train"), (11, 13, 16), True),
    ("squeezenet1_0", {}, 64, ("train",), (13,), True),
    ("squeezenet1_1", {}, 48, ("eval", "train"), (11, 13, 16), True),
    ("resnet18", {}, 32, ("eval", "train"), (13,), True),
    ("resnet50", {}, 32, ("eval", "train"), (13,), True),
    ("mobilenet_v2", {}, 32, ("eval", "train"), (13,), True),
    ("densenet121", {}, 32, ("eval", "train"), (13,), True),
    ("googlenet", {"aux_logits": False, "init_weights": False}, 64, ("eval",), (13,), True),
    ("vgg11_bn", {}, 224, ("eval", "train"), (13,), False),
    ("vgg16", {}, 224, ("eval", "train"), (13,), False),
    ("vgg16_bn", {}, 224, ("train",), (13,), False),
]


class Mixed(torch.nn.Module):
    """Most other operators in one small network of images."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.depth = torch.nn.Conv2d(4, 4, 3, groups=4, dilation=2, padding=2)
        self.up = torch.nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1)
        self.fc = torch.nn.Linear(2, 3)
        self.gain = torch.nn.Parameter(torch.tensor([1.5, 0.5]).view(2, 1, 1))

    def forward(self, x):
        f = torch.nn.functional
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.cat([f.max_pool2d(x, 3, 2, ceil_mode=True), f.avg_pool2d(x, 2)], 1)
        a, b = x.split(4, 1)
        x = f.hardtanh(self.depth(a), 0, 6) * torch.sigmoid(b) / 2 - 0.1
        x = self.up(x[:, :, 1:]) * self.gain
        x = f.interpolate(f.pad(x, (1, 2, 0, 3)), scale_factor=2, mode="bilinear")
        x = f.interpolate(torch.tanh(x), scale_factor=1.5, mode="nearest").mean([2, 3])
        return torch.softmax(self.fc(f.dropout(x, 0.2, self.training)), -1)


class Attention(torch.nn.Module):
    """Tokens, matrix products, reshapes that depend on the batch."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5, 4)
        self.qkv = torch.nn.Linear(4, 12, bias=False)
        self.out = torch.nn.Linear(4, 5)

    def forward(self, i):
        x = self.table(i)
        q, k, v = self.qkv(x).split(4, -1)
        x = torch.softmax(q @ k.transpose(1, 2) / 2, -1) @ v + x
        return self.out(x.reshape(i.shape[0], -1, 4))


class Feed(torch.nn.Module):
    """Layer norm, GELU and SiLU, which most opsets take apart."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(6, eps=1e-3)
        self.a, self.b = torch.nn.Linear(6, 4), torch.nn.Linear(4, 3)
        torch.nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        torch.nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x):
        f = torch.nn.functional
        return self.b(f.silu(f.gelu(self.a(self.norm(x)))))


OWN = {"mixed": Mixed, "attention": Attention, "feed": Feed}


def make(name, options):
    torch.manual_seed(1)
    net = OWN[name]() if name in OWN else getattr(models, name)(num_classes=10, **options)
    if name.startswith("vgg"):  # narrow: the file would have half a gigabyte
        net.classifier = torch.nn.Sequential(
            torch.nn.Linear(25088, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 10))
    for m in net.modules():  # statistics that would show if they were mixed up
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 0  # exporting in training mode runs the network once
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(m.weight, 0.8, 1.2)
            torch.nn.init.uniform_(m.bias, -0.1, 0.1)
    return net


def export(net, mode, opset, x, path):
    training = mode == "train"
    net.train(training)
    kind = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(net, x, path, opset_version=opset, training=kind,
                      do_constant_folding=not training)
    net.eval()


def sample(name, n, size):
    if name == "attention":
        return torch.randint(0, 5, (n, size))
    return torch.randn(n, 3, size, size)


def train(path):
    """Three steps on made-up pictures: losses are there, and finite."""
    env = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
    out = subprocess.run([ZICO, "train", path, "--batch", "4", "--steps", "3", "--eval", "0",
                          "--optimizer", "sgd", "--lr", "1e-3", "--json"], env=env,
                         capture_output=True, text=True)
    if out.returncode:
        return out.stderr.strip()
    lines = [json.loads(line) for line in out.stdout.splitlines()]
    losses = [e["loss"] for e in lines if e["event"] == "step"]
    good = len(losses) == 3 and all(x is not None and math.isfinite(x) for x in losses)
    return None if good else f"losses {losses}"


def check(folder, name, options, size, mode, opset, forward):
    what = f"{name} {mode} opset {opset}"
    net = make(name, options)
    path = os.path.join(folder, "model.onnx")
    export(net, mode, opset, sample(name, 2, size), path)

    out = subprocess.run([RUN, path, "3", "info"], capture_output=True, text=True)
    if out.returncode:
        return f"{what}: {out.stderr.strip()}"
    count, n_params, n_updated, _ = map(int, out.stdout.split())
    want = sum(p.numel() for p in net.parameters())
    if n_params != n_updated or (mode == "train" and count != want):
        return f"{what}: {count} of {want} parameters, {n_updated} of {n_params} updated"
    if opset == 13 and (name in TRAINED or (FULL and name not in OWN)):
        fault = train(path)
        if fault:
            return f"{what}: {fault}"
    if not forward:
        return None

    x = sample(name, 1, size)
    x.float().numpy().tofile(os.path.join(folder, "in"))
    subprocess.run([RUN, path, "1", os.path.join(folder, "in"), os.path.join(folder, "out")],
                   check=True)
    got = np.fromfile(os.path.join(folder, "out"), dtype=np.float32)
    with torch.no_grad():
        ref = net.double()(x if name == "attention" else x.double()).numpy().ravel()
    error = np.abs(got - ref).max() / max(1e-6, np.abs(ref).max())
    return None if error < 1e-5 else f"{what}: relative error {error:.2e}"


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for name, options, size, modes, opsets, forward in CASES:
            for mode in modes:
                for opset in opsets:
                    fault = check(folder, name, options, size, mode, opset, forward)
                    print(fault or f"ok {name} {mode} opset {opset}", flush=True)
                    faults += [fault] if fault else []
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
