"""What the example scripts share: options, synthetic data, one line a step.

The scripts are ordinary training scripts; nothing in this folder knows of zico.
"""
import argparse
import time

import torch


def options(**defaults):
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=defaults.pop("batch", 16))
    p.add_argument("--steps", type=int, default=defaults.pop("steps", 10))
    p.add_argument("--lr", type=float, default=defaults.pop("lr", 0.01))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--pause", type=float, default=0.0, help="seconds of something else between steps")
    for name, value in defaults.items():
        p.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return p


def images(n, size, classes, seed):
    """Random pictures whose class shows in their mean, so that there is something to learn."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    x = torch.randn(n, 3, size, size, generator=g) + y.view(n, 1, 1, 1) / classes
    return x, y


class Log:
    """Prints the loss exactly (as hexadecimal) and the time of each step."""

    def __init__(self, pause=0.0):
        self.pause = pause
        self.last = time.perf_counter()

    def step(self, i, loss):
        now = time.perf_counter()
        print(f"step {i} loss {float(loss).hex()} {float(loss):.4f} time {now - self.last:.4f}",
              flush=True)
        if self.pause:
            time.sleep(self.pause)
        self.last = time.perf_counter()
