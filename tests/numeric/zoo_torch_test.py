"""The zoo's parameters and statistics have the names and shapes of torchvision's models, so
that weights can be exchanged by name."""
import os
import subprocess
import sys

import torch
from torchvision import models

TEXT = os.path.join(os.environ.get("ZI_BUILD_DIR", "build/dev"), "tests/helper/zoo_text")


class LanguageModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Embedding(50, 8)
        self.rnn = torch.nn.LSTM(8, 6, 2)
        self.decoder = torch.nn.Linear(6, 50)


CASES = {
    "resnet18": models.resnet18,
    "resnet34": models.resnet34,
    "resnet50": models.resnet50,
    "vgg16": models.vgg16,
    "vgg16:bn=1": models.vgg16_bn,
    "mobilenet_v2": models.mobilenet_v2,
    "densenet121": models.densenet121,
    "lstm_lm:vocab=50,width=8,hidden=6,seq=3": LanguageModel,
}


def ours(spec):
    text = subprocess.run([TEXT, spec, "2"], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        word = line.split()
        if word[0] == "tensor" and word[3] in ("param", "state"):
            found[word[5]] = word[4]
    return found


def theirs(make):
    return {k: "[" + ",".join(map(str, v.shape)) + "]" for k, v in make().state_dict().items()
            if not k.endswith("num_batches_tracked")}


def main():
    faults = 0
    for spec, make in CASES.items():
        a, b = ours(spec), theirs(make)
        wrong = [k for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]
        for k in wrong[:5]:
            print(f"{spec}: {k} is {a.get(k)} here, {b.get(k)} there")
        print(f"{spec}: {len(a)} tensors, {len(wrong)} differ", flush=True)
        faults += len(wrong)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
