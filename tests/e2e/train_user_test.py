#!/usr/bin/python3
"""zico train at a terminal, with files of real formats, and when things go wrong.

timeout: 300
"""
import fcntl
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import termios
import time
import unittest

import numpy as np

from trained import ENV, ZICO, Folder, events, zico


class Data(Folder):
    def write_cifar(self, names, labels_per_image, classes, rnd):
        """Every class has a colour; each picture is it with noise, so flips do not matter."""
        for name in names:
            with open(self.path(name), "wb") as f:
                for _ in range(40):
                    label = rnd.randrange(classes)
                    f.write(bytes([label // 5, label][-labels_per_image:]))
                    for plane in range(3):
                        level = 40 + 80 * (label // 3 ** plane % 3)
                        f.write(bytes(max(0, min(255, level + rnd.randrange(-20, 21)))
                                      for _ in range(1024)))

    def test_cifar_10(self):
        """Five files to learn from, one to be judged by; crops and flips as in the paper."""
        self.write_cifar([f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"], 1, 10,
                         random.Random(1))
        ev = self.train("resnet20", "--cifar", self.dir, "--batch", "20", "--epochs", "5",
                        "--optimizer", "adamw", "--lr", "3e-3", "--weight-decay", "1e-4",
                        "--decay", "cosine", "--warmup", "5", "--threads", "1")
        self.assertEqual(200, ev[0]["epoch_samples"])
        self.assertEqual(50, ev[-1]["step"])
        self.assertEqual(40, ev[-1]["score"]["samples"])
        print("accuracy", ev[-1]["score"]["accuracy"])
        self.assertGreater(ev[-1]["score"]["accuracy"], 0.8)

    def test_cifar_100(self):
        """The fine label counts; labels beyond the network's classes are refused."""
        self.write_cifar(["train.bin", "test.bin"], 2, 20, random.Random(2))
        ev = self.train("resnet20:classes=20", "--cifar", self.dir, "--batch", "20", "--steps", "2")
        self.assertEqual(40, ev[-1]["score"]["samples"])
        r = zico("train", "resnet20:classes=10", "--cifar", self.dir, "--batch", "20", "--steps", "3")
        self.assertNotEqual(0, r.returncode)
        self.assertRegex(r.stderr, r"label 1\d")
        self.assertEqual(1, len(r.stderr.splitlines()))

    def test_npy(self):
        """Arrays of samples and labels; a share is held back for judging."""
        rnd = np.random.RandomState(3)
        y = rnd.randint(0, 4, 400)
        x = rnd.randn(400, 1, 8, 8).astype(np.float32)
        x[np.arange(400), 0, 2 * y % 8, y] += 6
        np.save(self.path("x.npy"), x)
        np.save(self.path("y.npy"), y)
        ev = self.train("mlp:channels=1,size=8,classes=4,hidden=32", "--data", "x.npy", "--labels",
                        "y.npy", "--held", "0.25", "--batch", "25", "--epochs", "10")
        self.assertEqual(300, ev[0]["epoch_samples"])
        self.assertEqual(100, ev[-1]["score"]["samples"])
        self.assertGreater(ev[-1]["score"]["accuracy"], 0.9)
        np.save(self.path("y.npy"), y[:-1])
        r = zico("train", "mlp:channels=1,size=8,classes=4", "--data", "x.npy", "--labels", "y.npy",
                 cwd=self.dir)
        self.assertNotEqual(0, r.returncode)
        self.assertIn("399", r.stderr)

    def test_text(self):
        """A text that repeats is learnt by heart."""
        with open(self.path("a.txt"), "w") as f:
            f.write("the quick brown fox jumps over the lazy dog. " * 500)
        ev = self.train("gpt:vocab=256,seq=32,width=32,layers=1,heads=2", "--text", "a.txt",
                        "--batch", "16", "--steps", "120", "--lr", "5e-3", "--held", "0.1")
        self.assertLess(ev[-1]["score"]["loss"], 0.5)
        self.assertGreater(ev[-1]["score"]["accuracy"], 0.8)

    def test_every_batch_is_counted(self):
        """By several loaders as by one, far ahead or not at all: the same samples in the same order, so the same bits."""
        losses = []
        for loaders, ahead in ((1, 1), (3, 1), (1, 8), (3, 8)):
            ev = self.train("mlp", "--batch", "16", "--steps", "30", "--eval", "0", "--loaders",
                            str(loaders), "--prefetch", str(ahead), "--threads", "1")
            self.assertGreaterEqual(ev[-1]["batches"], 30)
            self.assertLessEqual(ev[-1]["batches"], 30 + ahead)
            losses.append([e["loss"] for e in ev if e["event"] == "step"])
        for other in losses[1:]:
            self.assertEqual(losses[0], other)


class LearningRate(Folder):
    def rates(self, *words):
        return [e["lr"] for e in self.train("mlp", "--batch", "4", "--eval", "0", *words)
                if e["event"] == "step"]

    def same(self, want, got):
        self.assertEqual(len(want), len(got))
        for w, g in zip(want, got):
            self.assertAlmostEqual(w, g, delta=1e-6 * max(want))

    def test_schedules(self):
        """A rise from nothing, then constant, in steps, or along half a cosine to nothing."""
        import math
        self.same([0.25, 0.5, 0.75, 1, 1, 1], self.rates("--steps", "6", "--lr", "1", "--warmup", "4",
                                                         "--optimizer", "sgd"))
        self.same([0.5, 1, 1, 1, 0.1, 0.1, 0.01], self.rates(
            "--steps", "7", "--lr", "1", "--warmup", "2", "--decay", "step", "--decay-every", "2",
            "--decay-factor", "0.1", "--optimizer", "sgd"))
        got = self.rates("--steps", "8", "--lr", "1", "--warmup", "2", "--decay", "cosine",
                         "--optimizer", "sgd")
        self.same([0.5, 1] + [0.5 * (1 + math.cos(math.pi * i / 5)) for i in range(6)], got)

    def test_each_optimizer_learns(self):
        for name in ("sgd", "momentum", "adam", "adamw"):
            ev = self.train("mlp", "--batch", "32", "--steps", "30", "--optimizer", name, "--eval",
                            "0", "--threads", "1", "--clip", "5")
            steps = [e for e in ev if e["event"] == "step"]
            self.assertLess(steps[-1]["loss"], 0.7 * steps[0]["loss"], name)


class Terminal(Folder):
    def start(self, columns, *words):
        """Under a terminal of its own, as from a shell; returns (pid, its other end)."""
        import pty
        pid, main = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.chdir(self.dir)
            os.execve(ZICO, [ZICO, "train", *words], ENV)
        return pid, main

    def read(self, main, until=None):
        """What is shown, up to a text or to the end."""
        shown, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            try:
                piece = os.read(main, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
            if until and until in shown:
                break
        return shown

    def finish(self, pid, main):
        shown = self.read(main)
        os.close(main)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown

    def test_control_c(self):
        """The key itself: the step is finished and saved, and the command shown goes on."""
        pid, main = self.start(100, "mlp", "--steps", "100000", "--batch", "8", "--save",
                               "my run.safetensors")
        self.read(main, until=b"samples/s")
        os.write(main, b"\x03")
        code, shown = self.finish(pid, main)
        self.assertEqual(130, code, shown)
        said = re.search(rb"stopped after step (\d+), saved my run.safetensors", shown)
        self.assertTrue(said, shown)
        self.assertEqual(["my run.safetensors"], os.listdir(self.dir))
        command = re.search(rb"resume with: zico (.*?)\r?\n", shown).group(1).decode()
        last = int(said.group(1)) + 3
        r = subprocess.run(["sh", "-c", f"'{ZICO}' {command} --json --steps {last}"], cwd=self.dir,
                           env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(0, r.returncode, command + r.stderr)
        self.assertEqual(last - 2, events(r.stdout)[0]["first"])

    def test_bar_fits(self):
        """At 80 columns there is a bar, the loss, speed, memory and time left, on one line."""
        pid, main = self.start(80, "resnet20:size=16", "--steps", "40", "--batch", "8", "--eval",
                               "0")
        code, shown = self.finish(pid, main)
        self.assertEqual(0, code, shown)
        lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", s)
                 for s in shown.decode().replace("\n", "\r").split("\r") if "resnet20 " in s]
        self.assertGreaterEqual(len(lines), 2)
        for line in lines:
            self.assertLess(len(line), 80, line)
        self.assertTrue(any(re.search(r"resnet20 \d+/40 \[=* *\]  loss \d\.\d+  .*/s  .*/.* MiB  "
                                      r".* left", s) for s in lines), lines)


class Trouble(Folder):
    def test_no_room_for_a_checkpoint(self):
        """The newest whole checkpoint stays, nothing half-written does, and the message says why."""
        limit = 6 << 20  # bytes of a file: the second network's is larger

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        ck = self.path("ck")
        r = zico("train", "mlp", "--steps", "2", "--batch", "8", "--save", ck, "--eval", "0",
                 before=small_files)
        self.assertEqual(0, r.returncode, r.stderr)
        with open(ck, "rb") as f:
            before = f.read()
        r = zico("train", "mlp:hidden=2000", "--steps", "2", "--batch", "8", "--save", ck, "--eval",
                 "0", before=small_files)
        self.assertEqual(1, r.returncode)
        self.assertRegex(r.stderr, r"ck: cannot be written: File too large")
        self.assertEqual(1, len(r.stderr.splitlines()))
        self.assertEqual(["ck"], os.listdir(self.dir))
        with open(ck, "rb") as f:
            self.assertEqual(before, f.read())

    def test_killed_while_saving(self):
        """Checkpoints all the time, and a kill: the file is whole, and the run goes on from it."""
        ck = self.path("ck")
        p = subprocess.Popen([ZICO, "train", "mlp", "--steps", "100000", "--batch", "8", "--save", ck,
                              "--every", "1", "--json"], stdout=subprocess.PIPE, text=True, env=ENV)
        seen = 0
        while seen < 15:
            seen += json.loads(p.stdout.readline())["event"] == "saved"
        p.send_signal(signal.SIGKILL)
        p.communicate()
        ev = self.resumed(ck)
        self.assertGreaterEqual(ev[0]["first"], 16)

    def resumed(self, ck):
        with open(ck, "rb") as f:
            n, = struct.unpack("<Q", f.read(8))
            step = int(json.loads(f.read(n))["__metadata__"]["step"])
        return self.train("mlp", "--steps", str(step + 2), "--batch", "8", "--resume", ck, "--eval",
                          "0")

    def test_too_large_for_the_broker(self):
        """A batch that never fits is refused with both numbers, before anything is trained."""
        socket = self.path("s")
        broker = subprocess.Popen([ZICO, "serve", "--socket", socket, "--budget", "24M"], env=ENV,
                                  stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if os.path.exists(socket):
                    break
                time.sleep(0.05)
            r = zico("train", "resnet20", "--batch", "64", "--steps", "2", "--socket", socket,
                     "--planner", "keep", cwd=self.dir)
            self.assertEqual(1, r.returncode, r.stdout)
            self.assertRegex(r.stderr, r"batch 64 does not fit into [\d.]+ MiB: planner keep needs "
                                       r"[\d.]+ MiB .*smallest possible is [\d.]+ MiB")
        finally:
            broker.terminate()
            broker.wait(timeout=20)


class Timeline(Folder):
    def test_trace_is_whole(self):
        """What Perfetto needs: names, rows, times; spans of a row do not cross."""
        self.train("resnet20:size=8", "--steps", "3", "--batch", "4", "--trace", "t.json", "--eval",
                   "0")
        with open(self.path("t.json")) as f:
            trace = json.load(f)["traceEvents"]
        rows = {}
        for e in trace:
            self.assertIn(e["ph"], "XMCi")
            self.assertIsInstance(e["pid"], int)
            self.assertTrue(e["name"])
            if e["ph"] == "X":
                rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["dur"]))
        named = {(e["pid"], e["tid"]) for e in trace if e["name"] == "thread_name"}
        self.assertTrue(rows)
        self.assertLessEqual(set(rows), named)
        for spans in rows.values():
            spans.sort()
            for (a, length), (b, _) in zip(spans, spans[1:]):
                self.assertLessEqual(a + length, b + 0.002)


class Inference(Folder):
    def test_percentiles(self):
        """Sorted, and the table for people has the same columns."""
        r = zico("infer", "resnet20:size=16", "--batch", "2", "--steps", "30", "--warmup", "2",
                 "--json")
        self.assertEqual(0, r.returncode, r.stderr)
        row = json.loads(r.stdout)[0]
        times = [row[k] for k in ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "max_ns")]
        self.assertEqual(sorted(times), times)
        self.assertGreater(row["samples_per_s"], 0)
        self.assertEqual((2, 30), (row["batch"], row["steps"]))
        r = zico("infer", "mlp", "--steps", "5", "--latency", "1000")
        for word in ("p50", "p90", "p95", "p99", "max", "late"):
            self.assertIn(word, r.stdout)


if __name__ == "__main__":
    unittest.main()
