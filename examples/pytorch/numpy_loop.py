"""A training loop in NumPy alone: no torch, no marked steps; private and charged.

    python3 numpy_loop.py --width 1024 --batch 512 --steps 5
"""
import argparse

import numpy as np


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--steps", type=int, default=5)
    args = p.parse_args()
    rng = np.random.default_rng(1)
    w1 = rng.standard_normal((args.width, args.width)) / np.sqrt(args.width)
    w2 = rng.standard_normal((args.width, 1)) / np.sqrt(args.width)
    x = rng.standard_normal((args.batch, args.width))
    y = np.sin(x.sum(axis=1, keepdims=True))
    for i in range(args.steps):
        h = np.maximum(x @ w1, 0)
        err = h @ w2 - y
        print(f"step {i} loss {float((err ** 2).mean()).hex()}", flush=True)
        g2 = h.T @ err / args.batch
        g1 = x.T @ ((err @ w2.T) * (h > 0)) / args.batch
        w1 -= 0.01 * g1
        w2 -= 0.01 * g2


if __name__ == "__main__":
    main()
