"""Gradient accumulation: several small batches to one step of the optimizer.

    python3 accumulate.py --parts 4 --batch 8 --steps 5
"""
import torch
import torchvision

from common import Log, images, options


def main():
    args = options(batch=8, steps=5, parts=4, net="resnet18", size=64, classes=10).parse_args()
    torch.manual_seed(args.seed)
    net = getattr(torchvision.models, args.net)(num_classes=args.classes)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    x, y = images(args.parts * args.batch, args.size, args.classes, args.seed)
    log = Log(args.pause)
    for i in range(args.steps):
        total = 0.0
        for xs, ys in zip(x.split(args.batch), y.split(args.batch)):
            loss = torch.nn.functional.cross_entropy(net(xs), ys) / args.parts
            loss.backward()
            total += float(loss)
        opt.step()
        opt.zero_grad()
        log.step(i, total)


if __name__ == "__main__":
    main()
