"""Trains a small transformer encoder from torch.nn, with a learning-rate schedule.

    python3 transformer.py --width 256 --layers 4 --length 128 --batch 8 --steps 10
"""
import torch
from torch import nn

from common import Log, options


class Model(nn.Module):
    def __init__(self, words, width, layers, length):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(width, words)

    def forward(self, x):
        return self.out(self.body(self.embed(x) + self.place))


def main():
    args = options(batch=8, width=256, layers=4, length=128, words=1000, lr=0.001).parse_args()
    torch.manual_seed(args.seed)
    net = Model(args.words, args.width, args.layers, args.length)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, (i + 1) / 5))
    x = torch.randint(0, args.words, (args.batch, args.length))
    y = (x + 1) % args.words
    log = Log(args.pause)
    for i in range(args.steps):
        loss = nn.functional.cross_entropy(net(x).reshape(-1, args.words), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        log.step(i, loss)


if __name__ == "__main__":
    main()
