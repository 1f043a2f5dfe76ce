"""zico_paper.py -- a shape check: the Zico paper's pairs, simulated with the policy as it is, beside what the paper's figures show.

    bench/zico_paper.py [--seconds 60]        a minute or two; $ZI_BUILD_DIR as elsewhere

The paper has no table of these figures: they were read off its drawings (G. Lim et al., USENIX ATC 2021, figures 5, 6 and 8), and
what the drawings do not say is guessed here.  So this tells whether the order and the size of things are alike, and no more.

    tides      drawn after the paper's words: RHN a slow ramp with a sudden end, BERT a triangle, GNMT a short spike, the
               residual networks high for most of a step, NASNet between them; a tenth of the peak stays
    beside     two jobs at once do what two of the same model do under MPS at the largest batch that fits
    step       batch / samples a second, taking turns; for mixed pairs at the batch whose peak is that part of the memory
"""
import argparse
import json
import math
import os
import subprocess
import tempfile

BUILD = os.environ.get("ZI_BUILD_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/release"))
# model: (shape, memory in GB, batches, Zico, turns, MPS in samples a second of both, sum of two peaks in % of the memory)
MODELS = {
    "NASNet": ("triangle", 11, [20, 40, 60, 80, 100, 120, 140], [143, 240, 290, 327, 345, 345, 339],
               [89, 162, 214, 245, 268, 284, 287], [157, 255, 284, 309, 36, 36, 36], [43, 63, 83, 103, 129, 149, 167]),
    "ResNet-110": ("beefy", 11, [100, 200, 300, 400, 500, 600, 700, 800], [2000, 2410, 2510, 2664, 2615, 2645, 2584, 2650],
                   [1471, 1980, 2158, 2299, 2252, 2273, 2349, 2367], [1980, 2210, 2449, 2424, 2513, 542, 447, 250],
                   [35, 54, 71, 91, 107, 126, 138, 164]),
    "ResNet-50": ("beefy", 32, [60, 80, 100, 120, 140, 160, 180, 200], [355, 352, 354, 357, 357, 362, 357, 359],
                  [316, 324, 337, 338, 343, 343, 347, 349], [331, 329, 338, 338, 341, 336, 43, 23],
                  [63, 75, 82, 96, 103, 115, 121, 131]),
    "GNMT": ("lean", 11, [200, 300, 400, 500, 600, 700, 800, 900, 1000], [1143, 1592, 1893, 2127, 2402, 2582, 2767, 2799, 2911],
             [741, 1049, 1307, 1553, 1775, 1950, 2105, 2250, 2375], [1320, 1813, 2162, 2457, 2721, 280, 472, 294, 297],
             [41, 44, 70, 86, 98, 109, 127, 140, 156]),
    "RHN": ("ramp", 11, [20, 30, 40, 50, 60], [43.4, 64.8, 82.1, 99.0, 116.3], [40.0, 59.8, 75.8, 90.6, 104.9], None,
            [165, 165, 165, 165, 165]),
    "BERT": ("triangle", 32, [5, 10, 15, 20, 25, 30, 35], [36, 46, 49, 51, 53, 53, 53], [34, 41, 44, 47, 49, 50, 51],
             [41, 48, 51, 52, 54, 8, 4], [54, 74, 85, 106, 118, 133, 148]),
}
# of 11 GB; Zico's throughput over taking turns, first and second job
PAIRS = [("RHN", 90, "GNMT", 60, 1.10, 1.51), ("RHN", 90, "GNMT", 35, 1.59, 1.48), ("NASNet", 80, "GNMT", 45, 1.54, 1.24),
         ("NASNet", 60, "GNMT", 50, 1.54, 1.59), ("NASNet", 30, "GNMT", 90, 0.95, 1.89), ("BERT", 80, "GNMT", 40, 1.16, 1.47),
         ("BERT", 60, "GNMT", 50, 0.97, 1.46), ("BERT", 45, "GNMT", 90, 1.03, 1.53), ("NASNet", 95, "ResNet-110", 30, 1.33, 1.03),
         ("NASNet", 70, "ResNet-110", 60, 1.03, 1.26), ("NASNet", 45, "ResNet-110", 80, 1.13, 1.20)]
STAYS = 0.1
GUESS = 1.3  # what two of a model do beside each other, where MPS never had room (RHN)


def beside(model):
    """What two of it do beside each other, one alone being 1."""
    _, _, _, _, turns, mps, _ = MODELS[model]
    fitting = [m / t for m, t in zip(mps or [], turns) if m > 0.9 * t]
    return fitting[-1] if fitting else GUESS


def batch_of(model, gigabytes):
    """The batch whose peak is so large, between those that were drawn."""
    _, memory, batches, _, _, _, sums = MODELS[model]
    peaks = [s / 200 * memory for s in sums]
    if gigabytes <= peaks[0] or peaks[0] == peaks[-1]:
        return batches[0] if gigabytes <= peaks[0] else batches[-1]
    for (b, p), (b2, p2) in zip(zip(batches, peaks), list(zip(batches, peaks))[1:]):
        if p <= gigabytes <= p2:
            return b + (b2 - b) * (gigabytes - p) / (p2 - p)
    return batches[-1]


def step_of(model, batch):
    _, _, batches, _, turns, _, _ = MODELS[model]
    near = min(range(len(batches)), key=lambda i: abs(batches[i] - batch))
    return batch / turns[near]


def rates(jobs, budget_gb, seconds):
    """Steps a second of each (model, peak in GB, step in s): zico over taking turns."""
    lines = ["cores: 2", f"seconds: {seconds}", "region: 64M", "jobs:"]
    for i, (model, peak, step) in enumerate(jobs):
        lines += [f"  - name: {model}-{i}", f"    shape: {MODELS[model][0]}", f"    peak: {int(peak * (1 - STAYS) * 1024)}M",
                  f"    fixed: {int(peak * STAYS * 1024)}M", f"    step: {step:.4f}", "    noise: 0.02",
                  f"    scaling: {max(0.01, -math.log2(min(1, beside(model) / 2))):.3f}"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("\n".join(lines) + "\n")
        f.flush()
        out = {}
        for policy in ("temporal", "zico"):
            p = subprocess.run([os.path.join(BUILD, "zico"), "sim", f.name, "--policy", policy, "--budget",
                                f"{int(budget_gb * 1024)}M", "--json"], stdout=subprocess.PIPE, text=True, check=True)
            out[policy] = [j["steps_per_s"] for j in json.loads(p.stdout)]
    return [z / t for z, t in zip(out["zico"], out["temporal"])]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seconds", type=int, default=60, help="virtual ones, each")
    opt = p.parse_args()
    print("Read off the paper's drawings, and guessed where those are silent: a shape check, no measurement.\n")
    print("| two of, batch | demand | paper's Zico | simulated |\n| --- | ---: | ---: | ---: |")
    for model, (_, memory, batches, zico, turns, _, sums) in MODELS.items():
        for i in range(len(batches)):
            if i % 2 and i + 1 < len(batches):
                continue
            each = (model, sums[i] / 200 * memory, batches[i] / turns[i])
            mine = sum(rates([each, each], memory, opt.seconds)) / 2
            print(f"| {model}, {batches[i]} | {sums[i]} % | {zico[i] / turns[i]:.2f} | {mine:.2f} |", flush=True)
    print("\n| pair | paper's Zico | simulated |\n| --- | ---: | ---: |")
    for a, part_a, b, part_b, paper_a, paper_b in PAIRS:
        jobs = [(m, part / 100 * 11, step_of(m, batch_of(m, part / 100 * 11))) for m, part in ((a, part_a), (b, part_b))]
        mine = rates(jobs, 11, opt.seconds)
        print(f"| {a} {part_a} % + {b} {part_b} % | {paper_a:.2f}, {paper_b:.2f} | {mine[0]:.2f}, {mine[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
