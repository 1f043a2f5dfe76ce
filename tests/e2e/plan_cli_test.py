#!/usr/bin/python3
"""plan_cli_test -- zico plan and zico train --budget, as people type them.  timeout: 240"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build/dev")
NET = ["resnet20", "--batch", "8"]


def zico(*words):
    env = dict(os.environ)
    env.pop("ZICO_SOCKET", None)
    return subprocess.run([os.path.join(BUILD, "zico"), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=200, env=env)


class PlanTest(unittest.TestCase):
    def test_table(self):
        """A row per budget and planner; what fits lies within the budget, what does not says what it needs."""
        done = zico("plan", *NET, "--budgets", "100%,60%,2%", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        names = {r["planner"] for r in rows}
        self.assertLessEqual({"auto", "keep", "vdnn", "superneurons", "monger", "capuchin"}, names)
        for r in rows:
            if r["foreseen_ns"] is None:
                self.assertGreater(r["peak_bytes"], r["budget_bytes"])
            else:
                self.assertLessEqual(r["peak_bytes"], r["budget_bytes"])
        at = {(r["planner"], round(r["budget_share"], 2)): r for r in rows}
        self.assertIsNotNone(at["auto", 0.6]["foreseen_ns"])
        self.assertIsNone(at["keep", 0.6]["foreseen_ns"])
        self.assertTrue(all(r["foreseen_ns"] is None for r in rows if r["budget_share"] < 0.1))

    def test_files(self):
        """--out writes a plan that begins with its maker's name, --svg a picture, --show a drawing."""
        with tempfile.TemporaryDirectory() as d:
            plan, svg = os.path.join(d, "p.txt"), os.path.join(d, "p.svg")
            done = zico("plan", *NET, "--budgets", "100%,70%", "--planner", "capuchin", "--out", plan,
                        "--svg", svg, "--show")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(plan) as f:
                self.assertEqual(f.readline(), "plan capuchin\n")
            with open(svg) as f:
                self.assertIn("<svg", f.read())
            self.assertIn("made again", done.stdout)

    def test_measured(self):
        """--measure executes: measured times are there, and peaks are those foreseen."""
        done = zico("plan", *NET, "--budgets", "60%", "--planner", "capuchin,monger", "--measure",
                    "--steps", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for r in json.loads(done.stdout):
            self.assertGreater(r["measured_ns"], 0)
            self.assertLessEqual(r["peak_bytes"], r["budget_bytes"])

    def test_interrupted(self):
        """Ctrl-C while plans are executed: what was found so far is printed, and said to be that."""
        done = subprocess.Popen([os.path.join(BUILD, "zico"), "plan", "resnet50:size=32", "--batch", "16",
                                 "--measure", "--steps", "60", "--json"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        try:
            time.sleep(0.2)
            while not self.catches(done.pid):
                self.assertIsNone(done.poll())
                time.sleep(0.05)
            done.send_signal(signal.SIGINT)
            out, err = done.communicate(timeout=100)
        finally:
            done.kill()
        self.assertEqual(1, done.returncode)
        self.assertIn("so far", err)
        json.loads(out)

    def catches(self, pid):
        """Does the process catch SIGINT?"""
        with open(f"/proc/{pid}/status") as f:
            caught = next(line.split()[1] for line in f if line.startswith("SigCgt:"))
        return int(caught, 16) >> (signal.SIGINT - 1) & 1

    def test_max_batch(self):
        """In the same memory planners run larger batches than keep."""
        done = zico("plan", "resnet20", "--max-batch", "--budget", "24M", "--planner",
                    "keep,monger,capuchin", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        batch = {r["planner"]: r["batch"] for r in json.loads(done.stdout)}
        self.assertGreater(batch["keep"], 0)
        self.assertGreater(batch["monger"], batch["keep"])
        self.assertGreaterEqual(batch["capuchin"], batch["monger"])

    def test_wrong_words(self):
        """Unknown planners, networks, budgets and tiers: named, with what there is."""
        for words, status, said in (
                ([*NET, "--planner", "magic"], 2, "capuchin"),
                (["nonet"], 1, "resnet20"),
                ([*NET, "--budgets", "lots"], 1, "--budgets"),
                ([*NET, "--tier", "file:/nonexistent/dir"], 1, "--tier"),
                ([*NET, "--max-batch"], 1, "--budget")):
            done = zico("plan", *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stderr)

    def test_train_within_budget(self):
        """Half the memory, and bit for bit the same losses; an impossible budget says what is needed."""
        words = ["train", *NET, "--synthetic", "--steps", "3", "--threads", "1", "--quiet"]
        whole, half = zico(*words), zico(*words, "--budget", "60%")
        self.assertEqual((whole.returncode, half.returncode), (0, 0), half.stderr)
        loss = [re.search(r"loss (\S+ to \S+)", d.stdout + d.stderr).group(1) for d in (whole, half)]
        self.assertEqual(loss[0], loss[1])

    def test_smallest_possible(self):
        """An impossible budget says what the smallest is, and why; with that it runs, bit for bit."""
        words = ["train", *NET, "--synthetic", "--steps", "3", "--threads", "1", "--eval", "0", "--json"]
        none = zico(*words, "--budget", "3%")
        self.assertEqual(none.returncode, 1)
        self.assertIn("does not fit", none.stderr)
        least = re.search(r"the smallest possible is (\d+) MiB: .* for (\S+) with all", none.stderr)
        self.assertIsNotNone(least, none.stderr)
        whole, small = zico(*words), zico(*words, "--budget", least.group(1) + "M")
        self.assertEqual((whole.returncode, small.returncode), (0, 0), small.stderr)
        said = [[json.loads(line) for line in d.stdout.splitlines()] for d in (whole, small)]
        loss = [[s["loss"] for s in d if s["event"] == "step"] for d in said]
        self.assertEqual(loss[0], loss[1])
        self.assertLessEqual(said[1][-1]["peak_bytes"], int(least.group(1)) << 20)
        below = zico(*words, "--budget", str(int(least.group(1)) - 1) + "M")
        self.assertEqual(below.returncode, 1)

    def test_measured_then_guided(self):
        """The first steps run on demand, then a plan made with their times is followed; losses stay."""
        words = ["train", *NET, "--synthetic", "--steps", "6", "--threads", "1", "--eval", "0", "--json"]
        whole, half = zico(*words), zico(*words, "--budget", "50%", "--planner", "capuchin")
        self.assertEqual((whole.returncode, half.returncode), (0, 0), half.stderr)
        said = [[json.loads(line) for line in d.stdout.splitlines()] for d in (whole, half)]
        steps = [[s for s in d if s["event"] == "step"] for d in said]
        self.assertEqual([s["loss"] for s in steps[0]], [s["loss"] for s in steps[1]])
        self.assertEqual("measure", said[1][0]["phase"])
        self.assertEqual([True, True, False, False, False, False], [s["passive"] for s in steps[1]])
        plan = next(s for s in said[1] if s["event"] == "plan")
        self.assertEqual(("capuchin", "guided"), (plan["planner"], plan["phase"]))
        self.assertLessEqual(said[1][-1]["peak_bytes"], plan["budget_bytes"])
        self.assertGreater(said[1][-1]["tier_out_bytes"], 0)
        self.assertGreater(said[1][-1]["tier_out_bytes_per_s"], 0)


if __name__ == "__main__":
    unittest.main()
