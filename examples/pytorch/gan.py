"""Two networks and two optimizers that take turns.

    python3 gan.py --batch 64 --steps 6 --critic 2
"""
import torch
from torch import nn

from common import Log, options


def block(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def main():
    args = options(batch=256, steps=6, width=1024, critic=1, lr=0.0002).parse_args()
    torch.manual_seed(args.seed)
    make, judge = block(64, args.width, args.width, 784), block(784, args.width, args.width, 1)
    opt_judge = torch.optim.Adam(judge.parameters(), lr=args.lr)
    opt_make = torch.optim.Adam(make.parameters(), lr=args.lr)
    real = torch.randn(args.batch, 784)
    one, zero = torch.ones(args.batch, 1), torch.zeros(args.batch, 1)
    loss_of = nn.functional.binary_cross_entropy_with_logits
    log = Log(args.pause)
    for i in range(args.steps):
        for _ in range(args.critic):
            fake = make(torch.randn(args.batch, 64)).detach()
            loss = loss_of(judge(real), one) + loss_of(judge(fake), zero)
            opt_judge.zero_grad()
            loss.backward()
            opt_judge.step()
        loss = loss_of(judge(make(torch.randn(args.batch, 64))), one)
        opt_make.zero_grad()
        loss.backward()
        opt_make.step()
        log.step(i, loss)


if __name__ == "__main__":
    main()
