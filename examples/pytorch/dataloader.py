"""A DataLoader with worker processes, evaluation every few steps, checkpoint and resume.

    python3 dataloader.py --workers 2 --steps 8 --evaluate 4 --checkpoint state.pt
    python3 dataloader.py --steps 12 --checkpoint state.pt --resume 1
"""
import os

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset

from common import Log, images, options


class Pictures(Dataset):
    def __init__(self, n, size, classes, seed):
        self.x, self.y = images(n, size, classes, seed)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def evaluate(net, data):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in data)
    net.train()
    return right


def endless(loader):
    while True:
        yield from loader


def main():
    args = options(steps=8, workers=2, evaluate=4, checkpoint="", resume=0, net="resnet18", size=64,
                   classes=10, count=128, start="fork").parse_args()
    torch.manual_seed(args.seed)
    net = getattr(torchvision.models, args.net)(num_classes=args.classes)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=4, gamma=0.5)
    first = 0
    if args.resume and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        schedule.load_state_dict(state["schedule"])
        first = state["step"]
    loader = DataLoader(Pictures(args.count, args.size, args.classes, args.seed), args.batch,
                        num_workers=args.workers,
                        multiprocessing_context=args.start if args.workers else None)
    held_out = DataLoader(Pictures(32, args.size, args.classes, args.seed + 1), 16)
    log = Log(args.pause)
    batches = endless(loader)
    for i in range(first, args.steps):
        x, y = next(batches)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        log.step(i, loss)
        if args.evaluate and (i + 1) % args.evaluate == 0:
            print(f"evaluate {i} right {evaluate(net, held_out)}", flush=True)
    if args.checkpoint:
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(),
                    "schedule": schedule.state_dict(), "step": args.steps}, args.checkpoint)


if __name__ == "__main__":
    main()
