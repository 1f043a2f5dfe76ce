"""Trains an LSTM to continue random sequences with a hidden rule.

    python3 lstm.py --hidden 256 --length 100 --batch 32 --steps 10
"""
import torch
from torch import nn

from common import Log, options


class Model(nn.Module):
    def __init__(self, words, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, words)

    def forward(self, x):
        h, _ = self.lstm(self.embed(x))
        return self.out(h)


def main():
    args = options(batch=32, hidden=256, layers=2, length=100, words=1000, lr=0.001).parse_args()
    torch.manual_seed(args.seed)
    net = Model(args.words, args.hidden, args.layers)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    start = torch.randint(0, args.words, (args.batch, 1))
    x = (start + 7 * torch.arange(args.length + 1)) % args.words
    log = Log(args.pause)
    for i in range(args.steps):
        out = net(x[:, :-1])
        loss = nn.functional.cross_entropy(out.reshape(-1, args.words), x[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        log.step(i, loss)


if __name__ == "__main__":
    main()
