"""torch_nets -- the zoo's networks in PyTorch, with the same names, and safetensors files."""
import json
import math
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

TYPES = {"F32": torch.float32, "I32": torch.int32, "I64": torch.int64}
NAMES = {v: k for k, v in TYPES.items()}


def load_file(path):
    """Tensors and words of a safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + n])
    meta = head.pop("__metadata__", {})
    tensors = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        raw = bytearray(data[8 + n + begin:8 + n + end])
        flat = torch.frombuffer(raw, dtype=TYPES[t["dtype"]]) if raw else torch.empty(0)
        tensors[name] = flat.reshape(t["shape"])
    return tensors, meta


def save_file(path, tensors):
    head, chunks, at = {}, [], 0
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        head[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape),
                      "data_offsets": [at, at + len(raw)]}
        chunks.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


class BasicBlock(nn.Module):
    """Shortcut of kind A: subsample, pad with zeros."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.stride, self.more = stride, o - i

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = x[:, :, ::self.stride, ::self.stride]
        if self.more:
            x = F.pad(x, (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        width = 16
        for s in range(3):
            blocks = []
            for i in range(3):
                out = 16 << s
                blocks.append(BasicBlock(width, out, 2 if s and not i else 1))
                width = out
            setattr(self, f"layer{s + 1}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def vgg16(classes, size, width):
    from torchvision.models import vgg16 as make
    m = make()
    m.avgpool = nn.Identity()
    side = size // 32
    m.classifier = nn.Sequential(nn.Linear(512 * side * side, width), nn.ReLU(), nn.Identity(),
                                 nn.Linear(width, width), nn.ReLU(), nn.Identity(),
                                 nn.Linear(width, classes))
    for p in m.classifier:
        if isinstance(p, nn.Linear):
            nn.init.normal_(p.weight, 0, 0.05)
    return m


def mobilenet_v2(classes):
    from torchvision.models import mobilenet_v2 as make
    m = make(num_classes=classes)
    m.classifier[0] = nn.Identity()
    return m


class LstmLm(nn.Module):
    def __init__(self, vocab, width, hidden, layers):
        super().__init__()
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, hidden, layers)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x):
        y, _ = self.rnn(self.encoder(x).transpose(0, 1))
        return self.decoder(y.transpose(0, 1)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (p.view(n, t, self.heads, w // self.heads).transpose(1, 2)
                   for p in self.c_attn(x).split(w, dim=2))
        s = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
        s = s.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf")).softmax(-1)
        return self.c_proj((s @ v).transpose(1, 2).reshape(n, t, w))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width),
                                  "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        y = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](y)


class Gpt(nn.Module):
    def __init__(self, vocab, seq, width, layers, heads):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, width), "wpe": nn.Embedding(seq, width),
            "h": nn.ModuleList([GptBlock(width, heads) for _ in range(layers)]),
            "ln_f": nn.LayerNorm(width)})

    def forward(self, x):
        t = self.transformer
        x = t["wte"](x) + t["wpe"].weight
        for block in t["h"]:
            x = block(x)
        return (t["ln_f"](x) @ t["wte"].weight.t()).transpose(1, 2)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, o, 2, 2)
        self.conv = DoubleConv(i, o)

    def forward(self, x, bridge):
        return self.conv(torch.cat([bridge, self.up(x)], 1))


class OutConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, width, classes=2, channels=3):
        super().__init__()
        self.inc = DoubleConv(channels, width)
        for i in range(1, 5):
            setattr(self, f"down{i}", Down(width << (i - 1), width << i))
            setattr(self, f"up{i}", Up(width << (5 - i), width << (4 - i)))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        bridge = [self.inc(x)]
        for i in range(1, 5):
            bridge.append(getattr(self, f"down{i}")(bridge[-1]))
        x = bridge.pop()
        for i in range(1, 5):
            x = getattr(self, f"up{i}")(x, bridge.pop())
        return self.outc(x)
