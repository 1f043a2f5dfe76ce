#!/usr/bin/python3
"""zico train and zico infer as a person or a script uses them.

timeout: 300
"""
import json
import os
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["ZI_SOURCE_DIR"], "tests/numeric"))

from trained import ENV, ZICO, Folder, events, zico


class Training(Folder):
    def test_learns_within_a_minute(self):
        """resnet20 on the learnable set: nearly all held samples are told apart."""
        r = zico("train", "resnet20:size=16", "--batch", "32", "--steps", "120", "--eval", "512",
                 "--json", cwd=self.dir)
        self.assertEqual(0, r.returncode, r.stderr)
        end = events(r.stdout)[-1]
        self.assertEqual("end", end["event"])
        print("accuracy", end["score"]["accuracy"], "loss", end["score"]["loss"])
        self.assertGreater(end["score"]["accuracy"], 0.9)
        self.assertEqual([], os.listdir(self.dir))

    def test_json_has_every_step(self):
        r = zico("train", "mlp", "--steps", "7", "--batch", "8", "--json", "--save",
                 self.path("ck"), "--every", "3")
        ev = events(r.stdout)
        steps = [e for e in ev if e["event"] == "step"]
        self.assertEqual(list(range(1, 8)), [e["step"] for e in steps])
        for e in steps:
            self.assertGreater(e["peak_bytes"], 0)
            self.assertGreater(e["device_ns"], 0)
        self.assertEqual([3, 6, 7], [e["step"] for e in ev if e["event"] == "saved"])
        self.assertEqual("ZICO_OK", ev[-1]["status"])

    def test_plain_lines_without_a_terminal(self):
        r = zico("train", "mlp", "--steps", "5", "--batch", "8")
        self.assertEqual(0, r.returncode)
        self.assertNotIn("\r", r.stdout + r.stderr)
        self.assertNotIn("\x1b", r.stdout + r.stderr)
        self.assertIn("mlp 5/5", r.stdout)
        self.assertIn("samples/s", r.stdout)
        self.assertEqual("", r.stderr)

    def test_bar_on_a_terminal(self):
        """A pseudo-terminal gets one line that is written again."""
        import pty
        main, other = pty.openpty()
        p = subprocess.Popen([ZICO, "train", "mlp", "--steps", "5", "--batch", "8"],
                             stdout=subprocess.DEVNULL, stderr=other, env=ENV)
        os.close(other)
        shown = b""
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(main)
        self.assertEqual(0, p.wait(timeout=60))
        self.assertIn(b"\r", shown)
        self.assertIn(b"mlp 5/5", shown)

    def test_interrupted_run_goes_on(self):
        """Ctrl-C finishes the step, saves, and prints a command that works."""
        p = subprocess.Popen([ZICO, "train", "mlp", "--steps", "100000", "--batch", "8", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             cwd=self.dir, env=ENV)
        while json.loads(p.stdout.readline())["step"] < 20:
            pass
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual(130, p.returncode)
        end = events(out)[-1]
        self.assertTrue(end["stopped"])
        self.assertIn(f"stopped after step {end['step']}", err)
        command = err.split("resume with: zico ")[1].split()
        self.assertEqual([f"mlp-step{end['step']}.safetensors"], os.listdir(self.dir))
        command[command.index("100000")] = str(end["step"] + 5)
        r = zico(*command, cwd=self.dir)
        self.assertEqual(0, r.returncode, r.stderr)
        self.assertEqual(end["step"] + 1, events(r.stdout)[0]["first"])

    def test_trace_opens(self):
        r = zico("train", "mlp", "--steps", "3", "--batch", "8", "--trace", self.path("t.json"))
        self.assertEqual(0, r.returncode, r.stderr)
        with open(self.path("t.json")) as f:
            trace = json.load(f)["traceEvents"]
        spans = [e for e in trace if e["ph"] == "X"]
        self.assertGreater(len(spans), 10)
        self.assertTrue(all(e["dur"] >= 0 and e["args"]["step"] >= 1 for e in spans))
        self.assertTrue({"forward", "backward", "update"} <= {e["cat"] for e in spans})

    def test_mnist_files(self):
        """A folder in MNIST's format, 200 pictures with a bright row per class."""
        import random
        rnd = random.Random(3)
        for part, n in (("train", 200), ("t10k", 64)):
            labels = bytes(rnd.randrange(10) for _ in range(n))
            pictures = bytearray()
            for label in labels:
                pictures += bytes(255 if y in (2 * label, 2 * label + 1) else rnd.randrange(80)
                                  for y in range(28) for _ in range(28))
            with open(self.path(f"{part}-images-idx3-ubyte"), "wb") as f:
                f.write(struct.pack(">IIII", 0x803, n, 28, 28) + pictures)
            with open(self.path(f"{part}-labels-idx1-ubyte"), "wb") as f:
                f.write(struct.pack(">II", 0x801, n) + labels)
        r = zico("train", "resnet20", "--mnist", self.dir, "--epochs", "4", "--batch", "16",
                 "--json")
        self.assertEqual(0, r.returncode, r.stderr)
        end = events(r.stdout)[-1]
        self.assertEqual(50, end["step"])
        self.assertEqual(64, end["score"]["samples"])
        self.assertGreater(end["score"]["accuracy"], 0.8)

    def test_budget_is_kept(self):
        r = zico("train", "resnet20:size=16", "--batch", "16", "--steps", "3", "--budget", "48M",
                 "--json")
        self.assertEqual(0, r.returncode, r.stderr)
        self.assertLessEqual(events(r.stdout)[-1]["peak_bytes"], 48 << 20)


class Checkpoints(Folder):
    def test_pytorch_loads_it(self):
        """Every parameter and statistic has PyTorch's name and shape; the forward passes agree."""
        import torch
        import torch_nets as nets
        ck = self.path("ck.safetensors")
        r = zico("train", "resnet20:size=16", "--batch", "8", "--steps", "3", "--save", ck)
        self.assertEqual(0, r.returncode, r.stderr)
        tensors, meta = nets.load_file(ck)
        self.assertEqual("3", meta["step"])
        model = nets.ResNet20()
        own = {k: v for k, v in tensors.items() if not k.startswith("optimizer.")}
        wrong = model.load_state_dict(own, strict=False)
        self.assertEqual([], wrong.unexpected_keys)
        self.assertTrue(all(k.endswith("num_batches_tracked") for k in wrong.missing_keys))
        momenta = [k for k in tensors if k.startswith("optimizer.")]
        self.assertEqual(2 * len(list(model.parameters())), len(momenta))  # Adam's two
        self.assertTrue(torch.isfinite(model.eval()(torch.randn(2, 3, 16, 16))).all())

    def test_infer_loads_it(self):
        ck = self.path("ck.safetensors")
        zico("train", "mlp", "--batch", "8", "--steps", "3", "--save", ck)
        r = zico("infer", "mlp", "--load", ck, "--steps", "20", "--json")
        self.assertEqual(0, r.returncode, r.stderr)
        row = json.loads(r.stdout)[0]
        self.assertEqual(20, row["steps"])
        self.assertTrue(0 < row["p50_ns"] <= row["p90_ns"] <= row["p99_ns"] <= row["max_ns"])
        r = zico("infer", "resnet20", "--load", ck)
        self.assertEqual(2, r.returncode)
        self.assertIn("has no tensor", r.stderr)


class BadInput(Folder):
    def refused(self, code, words, *command):
        r = zico(*command, cwd=self.dir)
        self.assertEqual(code, r.returncode, f"{command}: {r.stdout}{r.stderr}")
        self.assertIn(words, r.stderr)
        self.assertEqual(1, len(r.stderr.splitlines()), r.stderr)

    def test_one_clear_message(self):
        self.refused(2, "resnet50", "train", "resnet51")
        self.refused(2, "classes, size", "train", "resnet50:depth=3")
        self.refused(2, "--bogus", "train", "mlp", "--bogus")
        self.refused(2, "'lots'", "train", "mlp", "--steps", "lots")
        self.refused(2, "'lion'", "train", "mlp", "--optimizer", "lion")
        self.refused(2, "'linear'", "train", "mlp", "--decay", "linear")
        self.refused(2, "--decay-every", "train", "mlp", "--decay", "step")
        self.refused(2, "do not go together", "train", "mlp", "--mnist", "a", "--cifar", "b")
        self.refused(2, "do not go together", "train", "mlp", "--steps", "1", "--epochs", "1")
        self.refused(2, "--labels", "train", "mlp", "--data", "x.npy")
        self.refused(2, "--save", "train", "mlp", "--every", "5")
        self.refused(2, "NoSuchFolder", "train", "mlp", "--cifar", "NoSuchFolder")
        self.refused(2, "none.onnx", "train", "none.onnx")
        self.refused(1, "cannot be written", "train", "mlp", "--save", "no/where")
        self.refused(1, "the smallest possible is", "train", "resnet20", "--budget", "10M")
        self.refused(2, "behind 'infer'", "infer")
        self.refused(2, "mlp", "infer", "mlq")
        self.refused(2, "1 to 64", "train", "mlp", "--prefetch", "0")
        self.assertEqual([], os.listdir(self.dir))

    def test_bad_files(self):
        with open(self.path("bad.onnx"), "wb") as f:
            f.write(b"\x08\x07garbage" * 10)
        with open(self.path("bad.npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00\xff\xffcut")
        with open(self.path("bad.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", 1 << 60) + b"{}")
        self.refused(1, "bad.onnx", "train", "bad.onnx")
        self.refused(1, "cut off", "train", "mlp", "--data", "bad.npy", "--labels", "bad.npy")
        self.refused(1, "cut off", "train", "mlp", "--resume", "bad.safetensors")
        self.refused(1, "cut off", "infer", "mlp", "--load", "bad.safetensors")

    def test_bad_loss(self):
        """The message names step and tensor; the checkpoint from before stays."""
        ck = self.path("ck")
        r = zico("train", "resnet20:size=8", "--batch", "4", "--steps", "4", "--save", ck,
                 "--optimizer", "sgd")
        self.assertEqual(0, r.returncode, r.stderr)
        with open(ck, "rb") as f:
            before = f.read()
        r = zico("train", "resnet20:size=8", "--batch", "4", "--steps", "9", "--save", ck,
                 "--optimizer", "sgd", "--lr", "1e32", "--resume", ck)
        self.assertEqual(1, r.returncode)
        self.assertRegex(r.stderr, r"stopped at step \d+: tensor '.+' was the first")
        with open(ck, "rb") as f:
            self.assertEqual(before, f.read())


if __name__ == "__main__":
    unittest.main()
