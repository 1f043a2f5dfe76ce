#!/usr/bin/python3
"""Every operator of ops.def against PyTorch: forward, and backward through its autograd.

A case writes a small graph down twice at the same time: as zico's text form and as PyTorch
calls.  tests/helper/op_tool runs the text in the executor, with one thread and with two, in
plain layout and in blocks of channels; outputs, gradients and what was updated must agree.
Shapes and attributes are drawn at random (ZI_SEED=N draws others).  The test fails when an
operator of ops.def ran in no case.

timeout: 240
"""
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch
import torch.nn.functional as F
import torch_nets as nets

SEED = os.environ.get("ZI_SEED", "7")
SEED = random.randrange(10 ** 6) if SEED == "random" else int(SEED)
RANK = 6  # ZI_MAX_RANK
ROUNDS = 3
# Both sides compute in single precision and add up in different orders: sums of up to a few
# thousand terms differ by some units in the last place, 6e-8 each.
TOLERANCE = 5e-6
torch.set_num_threads(1)
rnd = random.Random(SEED)
TYPES = {torch.float32: "f32", torch.int32: "i32"}


class Tensor:
    def __init__(self, number, name, value):
        self.number, self.name, self.value = number, name, value


class Net:
    """A graph as text, and what PyTorch makes of it."""

    def __init__(self):
        self.tensors, self.nodes, self.outputs = [], [], []
        self.given, self.params, self.losses, self.after = {}, {}, [], {}

    def tensor(self, role, name, value):
        dims = ",".join(map(str, value.shape))
        self.tensors.append(f"{TYPES[value.dtype]} {role} [{dims}] {name}")
        return Tensor(len(self.tensors) - 1, name, value)

    def give(self, name, value, role="param"):
        value = value.clone().detach()
        self.given[name] = value.clone()
        if role == "param":
            value.requires_grad_()
            self.params[name] = value
        return self.tensor(role, name, value)

    def random(self, name, *dims, role="param", scale=1.0):
        return self.give(name, scale * torch.randn(*dims), role)

    def node(self, op, ins, call, up=(), **attrs):
        """One node; `call` gets the values of `ins` and returns one tensor or several."""
        made = call(*[t.value if t else None for t in ins])
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        number = len(self.nodes)
        outs = [self.tensor("activation", f"n{number}.{i}", v) for i, v in enumerate(made)
                if v is not None]
        line = f"{op} forward n{number}"
        for key, ids in (("in", ins), ("out", outs), ("up", up)):
            if ids:
                line += f" {key}=" + ",".join(str(t.number) if t else "-" for t in ids)
        for key, v in attrs.items():
            v = list(v) if isinstance(v, (list, tuple)) else [v]
            line += f" {key}=" + ",".join(repr(x) for x in v)
        self.nodes.append(line)
        return outs[0] if len(outs) == 1 else outs

    def weigh(self, *ys):
        """Outputs that are compared; their gradients are random numbers."""
        for y in ys:
            self.outputs.append(y)
            w = self.random(f"w.{y.number}", *y.value.shape, role="input")
            p = self.node("mul", [y, w], torch.mul)
            n = len(p.value.shape)
            if n:
                p = self.node("reduce_sum", [p], torch.sum, axes=(1 << n) - 1)
            self.losses.append(p)

    def text(self):
        while len(self.losses) > 1:
            a, b = self.losses.pop(), self.losses.pop()
            self.losses.append(self.node("add", [a, b], torch.add))
        lines = ["zico-graph 1 case"]
        lines += [f"tensor {i} {t}" for i, t in enumerate(self.tensors)]
        lines += [f"node {i} {n}" for i, n in enumerate(self.nodes)]
        lines += [f"output {t.number}" for t in self.outputs]
        if self.losses:
            lines.append(f"loss {self.losses[0].number}")
        return "\n".join(lines + ["end", ""])


def padded(values, fill=0):
    return list(values) + [fill] * (RANK - len(values))


# ---- images ----------------------------------------------------------------------------------


def image(net, blocks, channels=None):
    """A picture; with `blocks`, as the convolution before it makes it."""
    n, c = rnd.randint(1, 3), channels or rnd.choice([3, 5, 16, 24, 32])
    h, w = rnd.randint(6, 11), rnd.randint(6, 11)
    if not blocks:
        return net.random("x", n, c, h, w)
    x = net.random("x0", n, 5, h, w)
    k = net.random("k0", c, 5, 1, 1)
    return net.node("conv2d", [x, k], F.conv2d, stride=[1, 1], pad=[0] * 4, dilation=[1, 1],
                    groups=1)


def conv2d(net, blocks):
    groups = rnd.choice([1, 1, 2, 16])
    x = image(net, blocks, channels=rnd.choice([16, 32, 48]) if groups > 1 else None)
    c = x.value.shape[1]
    depthwise = groups == 16 and rnd.random() < 0.5
    groups = c if depthwise else groups if c % groups == 0 else 1
    kh, kw = rnd.choice([(1, 1), (3, 3), (3, 3), (5, 3), (2, 4)])
    stride, dil = [rnd.randint(1, 2), rnd.randint(1, 2)], [rnd.randint(1, 2)] * 2
    pad = [rnd.randint(0, 2) for _ in range(4)]  # top, left, bottom, right
    pad[0], pad[1] = max(pad[0], dil[0] * (kh - 1) - 5), max(pad[1], dil[1] * (kw - 1) - 5)
    out = groups * rnd.choice([1, 2]) if groups > 1 else rnd.choice([4, 16, 20])
    k = net.random("k", out, c // groups, kh, kw, scale=(c // groups * kh * kw) ** -0.5)
    b = net.random("b", out) if rnd.random() < 0.7 else None

    def call(x, k, b=None):
        x = F.pad(x, (pad[1], pad[3], pad[0], pad[2]))
        return F.conv2d(x, k, b, stride, 0, dil, groups)

    y = net.node("conv2d", [x, k] + ([b] if b else []), call, stride=stride, pad=pad,
                 dilation=dil, groups=groups)
    if rnd.random() < 0.5:
        y = net.node("relu", [y], torch.relu)
    net.weigh(y)


def convt2d(net, blocks):
    groups = rnd.choice([1, 1, 2])
    x = image(net, blocks, channels=rnd.choice([16, 24]))
    c = x.value.shape[1]
    kh, kw = rnd.choice([(2, 2), (3, 3), (4, 2)])
    stride = [rnd.randint(1, 2), rnd.randint(1, 3)]
    pad = [rnd.randint(0, kh // 2), rnd.randint(0, kw // 2)]
    more = [rnd.randint(0, stride[0] - 1), rnd.randint(0, stride[1] - 1)]
    out = rnd.choice([1, 4, 16])
    k = net.random("k", c, out, kh, kw, scale=(c * kh * kw) ** -0.5)
    b = net.random("b", out * groups) if rnd.random() < 0.7 else None

    def call(x, k, b=None):
        return F.conv_transpose2d(x, k, b, stride, pad, more, groups)

    net.weigh(net.node("convt2d", [x, k] + ([b] if b else []), call, stride=stride,
                       pad=pad + pad, dilation=[1, 1], out_pad=more, groups=groups))


def window(ceil):
    kernel = [rnd.randint(2, 3), rnd.randint(2, 3)]
    stride = [rnd.randint(1, 2), rnd.randint(1, 3)]
    pad = [rnd.randint(0, kernel[0] // 2), rnd.randint(0, kernel[1] // 2)]
    return kernel, stride, pad, rnd.randint(0, 1) if ceil else 0


def max_pool(net, blocks):
    x = image(net, blocks)
    kernel, stride, pad, ceil = window(True)
    net.weigh(net.node("max_pool", [x],
                       lambda x: F.max_pool2d(x, kernel, stride, pad, ceil_mode=bool(ceil)),
                       kernel=kernel, stride=stride, pad=pad + pad, ceil=ceil))


def avg_pool(net, blocks):
    x = image(net, blocks)
    kernel, stride, pad, ceil = window(True)
    border = rnd.randint(0, 1)
    net.weigh(net.node("avg_pool", [x], lambda x: F.avg_pool2d(
        x, kernel, stride, pad, ceil_mode=bool(ceil), count_include_pad=bool(border)),
        kernel=kernel, stride=stride, pad=pad + pad, ceil=ceil, count_pad=border))


def global_avg_pool(net, blocks):
    net.weigh(net.node("global_avg_pool", [image(net, blocks)],
                       lambda x: F.adaptive_avg_pool2d(x, 1)))


def resize(net, blocks):
    x = image(net, blocks)
    size, mode, align = [rnd.randint(3, 20), rnd.randint(3, 20)], rnd.randint(0, 1), 0
    if mode:
        align = rnd.randint(0, 1)
    net.weigh(net.node("resize", [x], lambda x: F.interpolate(
        x, size, mode="bilinear", align_corners=bool(align)) if mode else
        F.interpolate(x, size, mode="nearest"), mode=mode, align=align, size=size))


def batch_norm(net, blocks):
    x = image(net, blocks) if blocks or rnd.random() < 0.6 else net.random("x", 9, 7)
    c, eps, momentum = x.value.shape[1], rnd.choice([1e-5, 1e-3]), rnd.choice([0.1, 0.3])
    gamma, beta = net.random("gamma", c), net.random("beta", c)
    mean = net.give("rm", torch.randn(c), "state")
    var = net.give("rv", torch.rand(c) + 0.5, "state")
    rm, rv = net.given["rm"].clone(), net.given["rv"].clone()
    dims = [d for d in range(x.value.dim()) if d != 1]

    def call(x, gamma, beta):
        y = F.batch_norm(x, rm, rv, gamma, beta, True, momentum, eps)
        return y, x.mean(dims), x.var(dims, unbiased=False)

    y, m, v = net.node("batch_norm", [x, gamma, beta], call, eps=eps)
    net.node("bn_stats", [m, v], lambda m, v: None, up=[mean, var], momentum=momentum,
             count=x.value.numel() // c)
    net.after = {"rm": rm, "rv": rv}
    kind = rnd.randint(0, 2)
    if kind == 2:
        y = net.node("add", [y, net.random("other", *x.value.shape)], torch.add)
    if kind:
        y = net.node("relu", [y], torch.relu)
    net.weigh(y)


def batch_norm_fixed(net, blocks):
    x = image(net, blocks)
    c, eps = x.value.shape[1], 1e-4
    gamma, beta = net.random("gamma", c), net.random("beta", c)
    mean = net.give("mean", torch.randn(c), "state")
    var = net.give("var", torch.rand(c) + 0.5, "state")
    act = rnd.randint(0, 1)

    def call(x, gamma, beta, mean, var):
        y = F.batch_norm(x, mean, var, gamma, beta, False, 0, eps)
        return torch.relu(y) if act else y

    net.weigh(net.node("batch_norm_fixed", [x, gamma, beta, mean, var], call, eps=eps, act=act))


# ---- elementwise -----------------------------------------------------------------------------


def elementwise(op, call, **attrs):
    def case(net, blocks):
        net.weigh(net.node(op, [image(net, blocks)], call, **attrs))
    case.__name__ = op
    return case


def clip(net, blocks):
    lo, hi = sorted((rnd.uniform(-1, 1), rnd.uniform(-1, 1)))
    net.weigh(net.node("clip", [image(net, blocks)], lambda x: x.clamp(lo, hi), lo=lo, hi=hi))


def gelu(net, blocks):
    approx = rnd.randint(0, 1)
    net.weigh(net.node("gelu", [image(net, blocks)], lambda x: F.gelu(
        x, approximate="tanh" if approx else "none"), approx=approx))


def arithmetic(op, call):
    def case(net, blocks):
        x = image(net, blocks)
        shape = list(x.value.shape)
        kind = rnd.randint(0, 3)
        if kind == 1:
            shape = [d if rnd.random() < 0.5 else 1 for d in shape]
        elif kind == 2:
            shape = shape[rnd.randint(1, 3):]
        other = torch.randn(*shape)
        if op == "div":
            other = other.sign() * (other.abs() + 0.5)
        ins = [x, net.give("other", other)]
        if kind == 3 and op != "div":
            ins.reverse()
        net.weigh(net.node(op, ins, call))
    case.__name__ = op
    return case


def scale(net, blocks):
    alpha, beta = rnd.uniform(-2, 2), rnd.choice([0.0, rnd.uniform(-1, 1)])
    net.weigh(net.node("scale", [image(net, blocks)], lambda x: alpha * x + beta, alpha=alpha,
                       beta=beta))


def bias(net, blocks):
    x = image(net, blocks)
    axis = rnd.randint(0, 3)
    b = net.random("b", x.value.shape[axis])
    net.weigh(net.node("bias", [x, b], lambda x, b: x + b.view(
        [-1 if d == axis else 1 for d in range(4)]), axis=axis))


def broadcast(net, blocks):
    dims = [rnd.randint(2, 4) for _ in range(4)]
    x = net.random("x", *[d if rnd.random() < 0.5 else 1 for d in dims])
    net.weigh(net.node("broadcast", [x], lambda x: x.expand(dims).contiguous(), rank=4,
                       dims=padded(dims)))


def reduce(op, call):
    def case(net, blocks):
        axes, keep = rnd.randint(1, 15), rnd.randint(0, 1)
        dims = [d for d in range(4) if axes >> d & 1]
        net.weigh(net.node(op, [image(net, blocks)], lambda x: call(x, dims, bool(keep)),
                           axes=axes, keep=keep))
    case.__name__ = op
    return case


def fill(net, blocks):
    x = image(net, blocks)
    alpha = rnd.uniform(-2, 2)
    f = net.node("fill", [], lambda: torch.full_like(x.value, alpha).detach(), alpha=alpha)
    net.weigh(net.node("mul", [x, f], torch.mul))


# ---- shape -----------------------------------------------------------------------------------


def reshape(net, blocks):
    x = image(net, blocks)
    n, c, h, w = x.value.shape
    dims = rnd.choice([[n, c * h * w], [n * c, h, w], [h, n, w, c]])
    y = net.node("reshape", [x], lambda x: x.reshape(dims), rank=len(dims), dims=padded(dims))
    net.weigh(net.node("tanh", [y], torch.tanh))


def transpose(net, blocks):
    perm = rnd.sample(range(4), 4)
    net.weigh(net.node("transpose", [image(net, blocks)],
                       lambda x: x.permute(perm).contiguous(), perm=padded(perm)))


def concat(net, blocks):
    x = image(net, blocks)
    axis = rnd.randint(0, 3)
    parts = [x]
    for i in range(rnd.randint(1, 3)):
        dims = list(x.value.shape)
        dims[axis] = rnd.randint(1, 9)
        parts.append(net.random(f"part{i}", *dims))
    net.weigh(net.node("concat", parts, lambda *p: torch.cat(p, axis), axis=axis))


def split(net, blocks):
    x = image(net, blocks)
    axis = rnd.randint(1, 3)
    part = rnd.choice([1, 2, 8]) if axis == 1 else rnd.randint(2, 4)
    part = max(part, -(-x.value.shape[axis] // 6))
    net.weigh(*net.node("split", [x], lambda x: [p.contiguous() for p in x.split(part, axis)],
                        axis=axis, part=part))


def slice_(net, blocks):
    x = image(net, blocks)
    begin = [rnd.randint(0, d - 1) for d in x.value.shape]
    size = [rnd.randint(1, d - b) for d, b in zip(x.value.shape, begin)]
    net.weigh(net.node("slice", [x], lambda x: x[tuple(
        slice(b, b + s) for b, s in zip(begin, size))].contiguous(), begin=padded(begin),
        size=padded(size)))


def pad(net, blocks):
    before, after = [rnd.randint(0, 2) for _ in range(4)], [rnd.randint(0, 2) for _ in range(4)]
    value = rnd.choice([0.0, 1.5])
    flat = [v for b, a in zip(reversed(before), reversed(after)) for v in (b, a)]
    net.weigh(net.node("pad", [image(net, blocks)], lambda x: F.pad(x, flat, value=value),
                       before=padded(before), after=padded(after), value=value))


# ---- dense -----------------------------------------------------------------------------------


def linear(net, blocks):
    if blocks:
        x = image(net, True)
    else:
        x = net.random("x", *[rnd.randint(2, 6) for _ in range(rnd.randint(1, 3))],
                       rnd.randint(5, 70))
    i, o = x.value.shape[-1], rnd.randint(3, 70)
    w = net.random("w", o, i, scale=i ** -0.5)
    b = net.random("b", o) if rnd.random() < 0.7 else None
    y = net.node("linear", [x, w] + ([b] if b else []), F.linear, alpha=1.0)
    act = rnd.choice(["", "relu", "gelu", "gelu_tanh"])
    if act == "relu":
        y = net.node("relu", [y], torch.relu)
    elif act:
        tanh = act == "gelu_tanh"
        y = net.node("gelu", [y], lambda x: F.gelu(x, approximate="tanh" if tanh else "none"),
                     approx=int(tanh))
    net.weigh(y)


def matmul(net, blocks):
    m, n, k = (rnd.randint(2, 50) for _ in range(3))
    ta, tb, alpha = rnd.randint(0, 1), rnd.randint(0, 1), rnd.choice([1.0, 0.125, -0.7])
    if blocks:
        a = image(net, True)
        k, m = a.value.shape[2:] if ta else reversed(a.value.shape[2:])
        batch = a.value.shape[:2]
    else:
        batch = [rnd.randint(1, 4) for _ in range(rnd.randint(0, 2))]
        a = net.random("a", *batch, *((k, m) if ta else (m, k)))
    b = net.random("b", *batch, *((n, k) if tb else (k, n)))

    def call(a, b):
        return alpha * ((a.transpose(-1, -2) if ta else a) @ (b.transpose(-1, -2) if tb else b))

    net.weigh(net.node("matmul", [a, b], call, trans_a=ta, trans_b=tb, alpha=alpha))


def layer_norm(net, blocks):
    x = net.random("x", *[rnd.randint(2, 5) for _ in range(rnd.randint(1, 3))],
                   rnd.randint(5, 70))
    w, eps = x.value.shape[-1], rnd.choice([1e-5, 1e-3])
    gamma, beta = net.random("gamma", w), net.random("beta", w)
    y, _, _ = net.node("layer_norm", [x, gamma, beta], lambda x, g, b: (
        F.layer_norm(x, (w,), g, b, eps), x.mean(-1), x.var(-1, unbiased=False)), eps=eps)
    net.weigh(y)


def softmax(net, blocks):
    causal, alpha = rnd.randint(0, 1), rnd.uniform(0.2, 2)
    x = net.random("x", *[rnd.randint(2, 6) for _ in range(rnd.randint(1, 3))],
                   rnd.randint(3, 40))

    def call(x):
        if causal:
            hidden = torch.ones(x.shape[-2:]).triu(1).bool()
            x = x.masked_fill(hidden, float("-inf"))
        return torch.softmax(alpha * x, -1)

    net.weigh(net.node("softmax", [x], call, alpha=alpha, causal=causal))


# ---- losses and the rest -----------------------------------------------------------------------


def cross_entropy(net, blocks):
    classes = rnd.randint(2, 40)
    more = [rnd.randint(2, 6) for _ in range(rnd.randint(0, 2))]
    n = rnd.randint(2, 9)
    labels = torch.randint(classes, [n] + more).int()
    labels[0] = -100  # as if there were none
    x = net.random("x", n, classes, *more)
    y = net.give("y", labels, "label")

    def call(x, y):
        return F.cross_entropy(x, y.long()), torch.logsumexp(x, 1).detach()

    loss, _ = net.node("cross_entropy", [x, y], call, axis=1, ignore=-100)
    net.losses.append(net.node("scale", [loss], lambda x: 3 * x, alpha=3.0))


def nll(net, blocks):
    n, classes = rnd.randint(2, 9), rnd.randint(2, 9)
    p = net.give("p", torch.rand(n, classes) + 0.1)
    y = net.give("y", torch.randint(classes, (n,)).int(), "label")
    loss = net.node("nll", [p, y], lambda p, y: F.nll_loss(p.log(), y.long()), axis=1,
                    ignore=-100)
    net.losses.append(net.node("scale", [loss], lambda x: 3 * x, alpha=3.0))


def mse(net, blocks):
    x = image(net, blocks)
    t = net.random("t", *x.value.shape, role="input")
    loss = net.node("mse", [x, t], F.mse_loss)
    net.losses.append(net.node("scale", [loss], lambda x: 3 * x, alpha=3.0))


def embedding(net, blocks):
    v, d = rnd.randint(3, 20), rnd.randint(2, 40)
    index = torch.randint(v, [rnd.randint(1, 5) for _ in range(rnd.randint(1, 2))]).int()
    i = net.give("i", index, "input")
    net.weigh(net.node("embedding", [i, net.random("table", v, d)],
                       lambda i, table: F.embedding(i.long(), table)))


def lstm_cell(net, blocks):
    """PyTorch's own cell: its weights hand the gates through."""
    n, h = rnd.randint(1, 6), rnd.randint(2, 30)
    gates, c = net.random("gates", n, 4 * h), net.random("c", n, h)
    cell = torch.nn.LSTMCell(4 * h, h)
    with torch.no_grad():
        for p in cell.parameters():
            p.zero_()
        cell.weight_ih.copy_(torch.eye(4 * h))

    def call(gates, c):
        i, f, g, o = gates.detach().chunk(4, 1)
        acts = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1)
        return (*cell(gates, (torch.zeros(n, h), c)), acts)

    hh, cc, _ = net.node("lstm_cell", [gates, c], call)
    net.weigh(*rnd.choice([[hh], [cc], [hh, cc]]))


CASES = [conv2d, conv2d, convt2d, convt2d, max_pool, max_pool, avg_pool, avg_pool,
         global_avg_pool, resize, resize, batch_norm, batch_norm, batch_norm_fixed,
         elementwise("relu", torch.relu), elementwise("sigmoid", torch.sigmoid),
         elementwise("tanh", torch.tanh), elementwise("silu", F.silu), clip, gelu,
         arithmetic("add", torch.add), arithmetic("sub", torch.sub),
         arithmetic("mul", torch.mul), arithmetic("div", torch.div), scale, bias, broadcast,
         reduce("reduce_sum", torch.sum), reduce("reduce_mean", torch.mean), fill, reshape,
         transpose, concat, split, slice_, pad, linear, linear, matmul, matmul, layer_norm,
         softmax, cross_entropy, nll, mse, embedding, lstm_cell]


# ---- running -----------------------------------------------------------------------------------


class Tool:
    def __init__(self, folder):
        path = os.path.join(os.environ["ZI_BUILD_DIR"], "tests/helper/op_tool")
        self.files = [os.path.join(folder, n) for n in ("graph", "in", "out")]
        self.process = subprocess.Popen([path], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.ran = set()

    def run(self, text, given, **wish):
        with open(self.files[0], "w") as f:
            f.write(text)
        nets.save_file(self.files[1], given)
        line = " ".join(self.files + [f"{k}={v}" for k, v in wish.items()])
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer or answer[0] != "ok":
            raise RuntimeError(" ".join(answer) or "op_tool died")
        self.ran |= set(answer[1:])
        return nets.load_file(self.files[2])[0]

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def distance(got, want):
    """L2, relative to what is wanted; where that is nearly nothing, to 1e-2 per element."""
    got, want = got.double(), want.detach().double()
    if got.shape != want.shape:
        return float("inf")
    size = want.norm() + 1e-2 * want.numel() ** 0.5
    return ((got - want).norm() / size).item()


worst = [0.0, ""]


def compare(what, got, want):
    bad = []
    for name, value in want.items():
        off = distance(got[name], value) if name in got else float("inf")
        if off > worst[0]:
            worst[:] = [off, f"{what}: {name}"]
        if not off <= TOLERANCE:
            bad.append(f"{what}: {name} is off by {off:.2e}")
    return bad


def check(tool, case, blocks, number):
    net = Net()
    case(net, blocks)
    text = net.text()
    loss = net.losses[0].value
    loss.backward()
    want = {t.name: t.value for t in net.outputs}
    want.update({f"after.{k}": v for k, v in net.after.items()})
    want.update({f"grad.{k}": p.grad for k, p in net.params.items() if p.grad is not None})
    if not net.outputs:
        want["loss"] = loss
    bad = []
    for wish in ({"threads": 1}, {"threads": 2, "fuse": 1}, {"threads": 1, "plain": 1}):
        what = f"{case.__name__} {number}{' in blocks' if blocks else ''} {wish}"
        try:
            got = tool.run(text, net.given, grads=1, **wish)
        except RuntimeError as e:
            return bad + [f"{what}: {e}\n{text}"]
        bad += compare(what, got, want)
    return bad


def check_dropout(tool, number):
    """The mask is ours; given the mask, PyTorch says what comes of it."""
    p = rnd.choice([0.1, 0.5, 0.8])
    net = Net()
    x = net.give("x", torch.rand(40, 50) + 0.5)
    mask = torch.ones(40, 50)
    net.weigh(net.node("dropout", [x], lambda x: x * mask / (1 - p), p=p, seed=rnd.randint(1, 99),
                       stream=number))
    got = tool.run(net.text(), net.given, grads=1, threads=2)
    kept = (got["n0.0"] != 0).float()
    share = kept.mean().item()
    bad = [] if abs(share - (1 - p)) < 0.05 else [f"dropout {p}: keeps {share:.3f}"]
    w = net.given[net.outputs[0].name.replace("n0.0", f"w.{net.outputs[0].number}")]
    return bad + compare(f"dropout {number}", got, {
        "n0.0": net.given["x"] * kept / (1 - p), "grad.x": w * kept / (1 - p)})


def check_optimizer(tool, number):
    """Three steps of a linear layer, by PyTorch's optimizer and by ours."""
    kind = number % 5
    lr, decay, clip_at = 0.05, rnd.choice([0.0, 0.1]), rnd.choice([0.0, 0.5])
    net = Net()
    x = net.random("x", 6, 9, role="input")
    w, b = net.random("w", 5, 9), net.random("b", 5)
    t = net.random("t", 6, 5, role="input")
    y = net.node("linear", [x, w, b], F.linear, alpha=1.0)
    net.losses.append(net.node("mse", [y, t], F.mse_loss))
    params = [net.params["w"], net.params["b"]]
    nesterov = kind == 4
    make = [lambda: torch.optim.SGD(params, lr, weight_decay=decay),
            lambda: torch.optim.SGD(params, lr, 0.9, weight_decay=decay),
            lambda: torch.optim.Adam(params, lr, weight_decay=decay),
            lambda: torch.optim.AdamW(params, lr, weight_decay=decay),
            lambda: torch.optim.SGD(params, lr, 0.9, weight_decay=decay, nesterov=True)]
    opt = make[kind]()
    got = tool.run(net.text(), net.given, grads=1, optim=1 if nesterov else kind, lr=lr,
                   decay=decay, nesterov=int(nesterov), clip=clip_at, steps=3, threads=2)
    for _ in range(3):
        opt.zero_grad()
        F.mse_loss(F.linear(net.given["x"], *params), net.given["t"]).backward()
        if clip_at:
            torch.nn.utils.clip_grad_norm_(params, clip_at)
        opt.step()
    return compare(f"optimizer {kind}, decay {decay}, clip {clip_at}", got,
                   {"after.w": params[0], "after.b": params[1]})


def all_operators():
    path = os.path.join(os.environ["ZI_SOURCE_DIR"], "src/graph/ops.def")
    with open(path) as f:
        return set(re.findall(r'^OP\(\w+,\s*"(\w+)"', f.read(), re.M))


def main():
    print("seed", SEED, flush=True)
    torch.manual_seed(SEED)
    bad, count = [], 0
    with tempfile.TemporaryDirectory(prefix="zi-test-") as folder:
        tool = Tool(folder)
        for case in CASES:
            for number in range(ROUNDS):
                bad += check(tool, case, number % 2 == 1, number)
                count += 1
        for number in range(10):
            bad += check_optimizer(tool, number)
        for number in range(ROUNDS):
            bad += check_dropout(tool, number)
        if tool.close() != 0:
            bad.append("op_tool did not end well")
    left = all_operators() - tool.ran
    if left:
        bad.append(f"operators without a case: {', '.join(sorted(left))}")
    for line in bad[:40]:
        print("FAILED", line)
    print(f"{count + 10 + ROUNDS} graphs, {len(tool.ran)} operators, largest error "
          f"{worst[0]:.1e} ({worst[1]})")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
