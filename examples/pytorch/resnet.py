"""Trains one of torchvision's networks on synthetic pictures: a plain loop.

    python3 resnet.py --net resnet18 --size 64 --batch 16 --steps 10
"""
import torch
import torchvision

from common import Log, images, options


def make(args):
    """One of torchvision's own; vit_small is its vision transformer in a size for a laptop."""
    if args.net == "vit_small":
        return torchvision.models.VisionTransformer(
            image_size=args.size, patch_size=8, num_layers=4, num_heads=4, hidden_dim=128,
            mlp_dim=512, num_classes=args.classes)
    kwargs = {"image_size": args.size} if args.net.startswith("vit") else {}
    return getattr(torchvision.models, args.net)(num_classes=args.classes, **kwargs)


def main():
    p = options(net="resnet18", size=64, classes=10, optimizer="sgd")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    net = make(args)
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
