#!/usr/bin/python3
"""torch.utils.checkpoint (sequential segments) beside our plans, on the same networks.

    plan_checkpoint.py [NET...]

PyTorch runs the network plainly and cut into 2, 4, ... segments; each in a process of its own,
whose peak is the growth of its resident memory over the model's parameters, gradients and
momentum plus those three.  For every point of PyTorch's, ours is the best plan within the same
peak (`zico plan --measure`).  Medians of five steps; the two take turns.
"""
import json, os, resource, statistics, subprocess, sys, time

NETS = {"resnet50": ("resnet50:size=96", 32, 96), "vgg16": ("vgg16:size=64", 64, 64),
        "densenet121": ("densenet121:size=96", 16, 96)}
SEGMENTS = (0, 2, 4, 8)
STEPS = 5


def sequential(name):
    """The network as a list of modules, so that checkpoint_sequential can cut it."""
    import torch.nn as nn
    import torchvision

    m = getattr(torchvision.models, name)()
    if name == "resnet50":
        parts = [m.conv1, m.bn1, m.relu, m.maxpool]
        for layer in (m.layer1, m.layer2, m.layer3, m.layer4):
            parts += list(layer)
        parts += [m.avgpool, nn.Flatten(), m.fc]
    elif name == "vgg16":
        parts = list(m.features) + [m.avgpool, nn.Flatten()] + list(m.classifier)
    else:
        parts = []
        for part in m.features:
            parts.append(part)
        parts += [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), m.classifier]
    for p in parts:
        for q in p.modules():
            if hasattr(q, "inplace"):
                q.inplace = False
    return nn.Sequential(*parts)


def worker(name, segments):
    import torch
    from torch.utils.checkpoint import checkpoint_sequential

    spec, batch, size = NETS[name]
    torch.manual_seed(0)
    model = sequential(name).train()
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    x = torch.rand(batch, 3, size, size, requires_grad=True)
    y = torch.zeros(batch, dtype=torch.long)
    fixed = sum(p.numel() * 4 for p in model.parameters())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    times = []
    for i in range(STEPS + 2):
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        out = checkpoint_sequential(model, segments, x) if segments else model(x)
        torch.nn.functional.cross_entropy(out, y).backward()
        opt.step()
        times.append(time.perf_counter() - t0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before + fixed
    print(json.dumps({"peak": peak, "time": statistics.median(times[2:])}))


def torch_point(name, segments):
    env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="1048576", MALLOC_TRIM_THRESHOLD_="1048576")
    out = subprocess.run([sys.executable, __file__, "--worker", name, str(segments)], env=env,
                         stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def our_point(name, budget):
    spec, batch, _ = NETS[name]
    zico = os.path.join(os.environ.get("ZI_BUILD_DIR", "build/release"), "zico")
    out = subprocess.run([zico, "plan", spec, "--batch", str(batch), "--budget", str(int(budget)),
                          "--planner", "auto", "--measure", "--steps", str(STEPS), "--json"],
                         stdout=subprocess.PIPE)
    row = json.loads(out.stdout)[0]
    if row["measured_ns"] is None:
        return None, row["peak_bytes"]
    return row["measured_ns"] / 1e9, row["peak_bytes"]


def main(names):
    for name in names or NETS:
        if name not in NETS:
            continue
        for segments in SEGMENTS:
            t = torch_point(name, segments)
            ours, peak = our_point(name, t["peak"])
            what = "plain" if not segments else f"{segments} segments"
            print(f"{name:12} PyTorch {what:11} {t['peak'] / 2**20:8.1f} MiB {t['time']:7.3f} s"
                  f"   zico {peak / 2**20:8.1f} MiB "
                  + (f"{ours:7.3f} s   {t['time'] / ours:.2f}x as fast" if ours else "needs more"),
                  flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--worker":
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1:])
