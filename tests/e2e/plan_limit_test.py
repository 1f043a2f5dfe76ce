#!/usr/bin/python3
"""plan_limit_test -- people lower what a running job may hold, or others want to run beside it: it plans anew, and no
bit changes.

timeout: 240
"""
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build/dev")
ZICO = os.path.join(BUILD, "zico")
MIB = 1 << 20
PAUSED = 3  # a job's state: between steps, by hand
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}


def train(net, batch, steps, *more):
    return [ZICO, "train", net, "--batch", str(batch), "--steps", str(steps), "--threads", "1", "--eval",
            "0", "--json", "--synthetic", *more]


class LimitTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.socket = os.path.join(self.folder.name, "s")
        self.procs = []

    def tearDown(self):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.folder.cleanup()

    def start(self, words, **how):
        p = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(ENV, TMPDIR=self.folder.name, ZICO_CORES="fixed:1"), **how)
        self.procs.append(p)
        return p

    def serve(self, budget, policy="zico"):
        self.broker = subprocess.Popen([ZICO, "serve", "--socket", self.socket, "--budget", budget, "--policy", policy],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV)
        self.addCleanup(self.broker.wait, 30)
        self.addCleanup(self.broker.terminate)
        end = time.monotonic() + 30
        while not os.path.exists(self.socket) and time.monotonic() < end:
            time.sleep(0.02)

    def say(self, *words):
        return subprocess.run([ZICO, *words, "--socket", self.socket], text=True, timeout=30, env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def status(self):
        done = self.say("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {"jobs": []}

    def follow(self, job, at):
        """Read a job's lines; at[step](line) is called when that step is told."""
        said = []
        for line in job.stdout:
            said.append(json.loads(line))
            if said[-1]["event"] == "step" and said[-1]["step"] in at:
                at[said[-1]["step"]]()
        self.assertEqual(0, job.wait(timeout=100), job.stderr.read())
        return said

    def held_after(self, out):
        """What the broker's book says of the job, at most, from now on."""
        def look():
            while not out["over"]:
                for j in self.status()["jobs"]:
                    held = j["fixed_bytes"] + j["step_bytes"] + j["private_bytes"]
                    out["most"] = max(out["most"], held)
                    out["seen"] += 1
                time.sleep(0.01)
        t = threading.Thread(target=look, daemon=True)
        t.start()
        return t

    def test_lowered_and_raised(self):
        """Down to 60 %, later up again: planned anew each time, within it, bit for bit as alone."""
        alone = self.follow(self.start(train("resnet20", 32, 60)), {})
        want = [s["loss"] for s in alone if s["event"] == "step"]
        self.serve("256M")
        job = self.start(train("resnet20", 32, 60, "--socket", self.socket))
        book = {"most": 0, "seen": 0, "over": False}
        watch = []

        def lower():
            whole = self.status()["jobs"][0]
            book["limit"] = int(whole["peak_bytes"] * 0.6) // (2 * MIB) * 2 * MIB
            done = self.say("limit", whole["name"], "--max", str(book["limit"]))
            self.assertEqual(0, done.returncode, done.stderr)

        def look():
            watch.append(self.held_after(book))

        def higher():
            book["over"] = True
            watch[0].join()
            done = self.say("limit", self.status()["jobs"][0]["name"], "--max", "0")
            self.assertEqual(0, done.returncode, done.stderr)

        said = self.follow(job, {8: lower, 14: look, 40: higher})
        book["over"] = True
        self.assertEqual(want, [s["loss"] for s in said if s["event"] == "step"])
        plans = [s for s in said if s["event"] == "plan"]
        self.assertEqual([], [p for p in plans if p["step"] < 8])
        low = [p for p in plans if 8 <= p["step"] < 40]
        self.assertTrue(low)
        self.assertIn("limit was changed", low[0]["note"])
        for p in low:
            self.assertNotEqual("keep", p["planner"])
            self.assertLessEqual(p["plan_peak_bytes"], book["limit"])
        self.assertEqual("keep", plans[-1]["planner"])
        self.assertGreater(book["seen"], 3)
        self.assertLessEqual(book["most"], book["limit"])

    def test_lowered_while_it_waits(self):
        """A limit that changes between planning and the step: the job plans anew instead of waiting."""
        alone = self.follow(self.start(train("resnet20", 16, 24)), {})
        self.serve("256M")
        job = self.start(train("resnet20", 16, 24, "--socket", self.socket))

        def lower():
            whole = self.status()["jobs"][0]
            self.assertEqual(0, self.say("pause", whole["name"]).returncode)
            end = time.monotonic() + 60
            while self.status()["jobs"][0]["state"] != PAUSED and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.3)  # it asks for its next step, and waits
            limit = int(whole["peak_bytes"] * 0.6) // (2 * MIB) * 2 * MIB
            self.assertEqual(0, self.say("limit", whole["name"], "--max", str(limit)).returncode)
            self.assertEqual(0, self.say("resume", whole["name"]).returncode)

        said = self.follow(job, {8: lower})
        self.assertEqual([s["loss"] for s in alone if s["event"] == "step"],
                         [s["loss"] for s in said if s["event"] == "step"])
        self.assertTrue([p for p in said if p["event"] == "plan" and p["planner"] != "keep"])

    def test_too_low(self):
        """Below what any plan can do with the job waits, and goes on when it may hold more again."""
        alone = self.follow(self.start(train("resnet20", 16, 20)), {})
        self.serve("256M")
        job = self.start(train("resnet20", 16, 20, "--socket", self.socket))

        def lower():
            name = self.status()["jobs"][0]["name"]
            self.assertEqual(0, self.say("limit", name, "--max", "4M").returncode)
            threading.Timer(1.5, lambda: self.say("limit", name, "--max", "0")).start()

        said = self.follow(job, {5: lower})
        self.assertEqual([s["loss"] for s in alone if s["event"] == "step"],
                         [s["loss"] for s in said if s["event"] == "step"])

    def test_asked_by_others(self):
        """Two jobs whose steps do not fit beside each other are asked to take less, also by a broker that came back;
        who is alone again takes what it likes."""
        steps = {"a": 90, "b": 40}
        want, said, plans = {}, {}, {}
        for name, n in steps.items():
            alone = self.follow(self.start(train("resnet20", 32, n)), {})
            want[name] = [s["loss"] for s in alone if s["event"] == "step"]
        self.serve("256M", "zico:lean")
        first = self.start(train("resnet20", 32, steps["a"], "--socket", self.socket))
        threads = []

        def run_second():
            threads.append(threading.Thread(target=lambda: said.update(b=self.follow(
                self.start(train("resnet20", 32, steps["b"], "--socket", self.socket)), {20: kill_broker}))))
            threads[0].start()

        def squeeze():
            budget = int(self.status()["jobs"][0]["peak_bytes"] * 1.5) // (2 * MIB) * 2 * MIB
            self.assertEqual(0, self.say("limit", "--budget", str(budget)).returncode)
            run_second()

        def kill_broker():
            os.kill(self.status()["broker_pid"], signal.SIGKILL)

        said["a"] = self.follow(first, {8: squeeze})
        threads[0].join(100)
        for name in steps:
            self.assertEqual(want[name], [s["loss"] for s in said[name] if s["event"] == "step"], name)
            plans[name] = [s for s in said[name] if s["event"] == "plan"]
            lean = [p for p in plans[name] if "others want to run" in p["note"]]
            self.assertTrue(lean, plans[name])
            self.assertNotEqual("keep", lean[0]["planner"])
        self.assertEqual("keep", plans["a"][-1]["planner"], plans["a"])

    def test_jobs_of_a_file(self):
        """Each job of a file has its own limit and planner; both do as alone."""
        path = os.path.join(self.folder.name, "jobs.yaml")
        spec = {"one": ("resnet20", 16, "capuchin"), "two": ("resnet20", 24, "monger")}
        with open(path, "w") as f:
            f.write("budget: 128M\ncores: fixed\njobs:\n")
            for name, (net, batch, planner) in spec.items():
                f.write(f"  - name: {name}\n    train: {net}\n    batch: {batch}\n    steps: 6\n"
                        f"    limit: 24M\n    planner: {planner}\n"
                        f"    args: [--synthetic, --threads, '1', --eval, '0', --save, "
                        f"{self.folder.name}/{name}.safetensors]\n")
        done = subprocess.run([ZICO, "run", path, "--out", os.path.join(self.folder.name, "out")],
                              text=True, timeout=150, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(ENV, TMPDIR=self.folder.name,
                                       XDG_RUNTIME_DIR=self.folder.name))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for name, (net, batch, _) in spec.items():
            alone = os.path.join(self.folder.name, name + ".alone")
            words = [w for w in train(net, batch, 6, "--save", alone) if w != "--json"]
            ran = subprocess.run(words, text=True, timeout=100, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=ENV)
            self.assertEqual(0, ran.returncode, ran.stderr)
            with open(alone, "rb") as a, open(f"{self.folder.name}/{name}.safetensors", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)


if __name__ == "__main__":
    unittest.main()
