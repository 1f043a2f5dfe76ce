"""Trains one of torchvision's networks on synthetic pictures: a plain loop.

    python3 resnet.py --net resnet18 --size 64 --batch 16 --steps 10
"""
import torch
import torchvision

from common import Log, images, options


def main():
    p = options(net="resnet18", size=64, classes=10, optimizer="sgd")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    kwargs = {"image_size": args.size} if args.net.startswith("vit") else {}
    net = getattr(torchvision.models, args.net)(num_classes=args.classes, **kwargs)
    net.train()
    if args.optimizer == "adam":
        opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    else:
        opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    x, y = images(4 * args.batch, args.size, args.classes, args.seed)
    log = Log(args.pause)
    for i in range(args.steps):
        at = (i % 4) * args.batch
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[at:at + args.batch]), y[at:at + args.batch])
        loss.backward()
        opt.step()
        log.step(i, loss)


if __name__ == "__main__":
    main()
