"""torch_gpt.py -- the block of a GPT in PyTorch, as the zoo's gpt has it: for those who compare with it."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, w, h, seq):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.attn, self.proj = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.fc, self.fc2 = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
        self.register_buffer("mask", torch.tril(torch.ones(seq, seq)).view(1, 1, seq, seq))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2)
                   for t in self.attn(self.ln1(x)).split(C, dim=2))
        s = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // self.h))
        s = F.softmax(s.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        x = x + self.proj((s @ v).transpose(1, 2).contiguous().view(B, T, C))
        return x + self.fc2(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))
