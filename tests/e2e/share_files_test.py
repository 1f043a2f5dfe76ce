"""share_files_test -- `zico run FILE.yaml`: bad files, failing jobs, Ctrl-C; `zico sim`.

timeout: 180
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import hooked
from hooked import ZICO, clean_env

GOOD = """budget: 200M
cores: fixed
jobs:
  - name: one
    train: "gpt:seq=64,width=64,layers=2,heads=2"
    batch: 8
    steps: 6
  - name: two
    train: "resnet20:classes=10"
    batch: 8
    steps: 6
"""
FAULTS = [  # what is put in, what is said
    ("budget: 200M", "budget: lots", "jobs.yaml:1: budget: 'lots' is not a size"),
    ("budget: 200M", "budget: 1M", "jobs.yaml:1: budget: 1M is too little"),
    ("    steps: 6\n  - name: two", "    stepps: 6\n  - name: two", "jobs.yaml:7: stepps: unknown key"),
    ("name: two", "name: one", "jobs.yaml:8: name: 'one' is taken by job 1"),
    ("    batch: 8\n    steps: 6\n  - name: two", "    weight: heavy\n  - name: two",
     "jobs.yaml:6: weight: 'heavy' is not a number"),
    ("cores: fixed", "cores: many", "jobs.yaml:2: cores: 'many' is none of"),
    ("    train: \"resnet20:classes=10\"\n", "    min: 300M\n    train: \"resnet20:classes=10\"\n",
     "jobs.yaml:9: min: 300M is more than the budget"),
]
MIX = """seconds: 20
jobs:
  - name: a
    shape: beefy
    peak: 300M
    step: 0.4
    fixed: 30M
  - name: b
    shape: lean
    peak: 300M
    step: 0.2
    count: 2
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Files(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="zi-files-")
        self.env = clean_env(XDG_RUNTIME_DIR=self.dir)

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def write(self, text, name="jobs.yaml"):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def zico(self, *words, timeout=120):
        return subprocess.run([ZICO, *words], cwd=self.dir, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)

    def test_faults(self):
        """Each fault is named by file, line and key, nothing is started, the exit code is 2."""
        for old, new, said in FAULTS:
            with self.subTest(said):
                self.assertIn(old, GOOD)
                done = self.zico("run", self.write(GOOD.replace(old, new, 1)))
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn(said, done.stderr)
        done = self.zico("run", "nowhere.yaml")
        self.assertEqual(2, done.returncode)
        self.assertIn("nowhere.yaml: No such file", done.stderr)

    def test_one_fails(self):
        """A job that fails stops nobody: the others finish, the report has its exit code and its last
        words, and the whole ends with 1."""
        text = GOOD + '  - name: bad\n    shell: "echo oh dear; exit 7"\n'
        done = self.zico("run", self.write(text), "--json", "--quiet", "--out", "o")
        self.assertEqual(1, done.returncode, done.stderr)
        jobs = {j["job"]: j for j in json.loads(done.stdout)["jobs"]}
        self.assertEqual({"one": 0, "two": 0, "bad": 7},
                         {n: j["exit_code"] for n, j in jobs.items()})
        self.assertEqual([6, 6], [jobs[n]["steps"] for n in ("one", "two")])
        with open(os.path.join(self.dir, "o", "bad.log"), encoding="utf-8") as f:
            self.assertIn("oh dear", f.read())
        self.assertTrue(os.path.exists(os.path.join(self.dir, "o", "memory.svg")))

    def test_delay_and_percent(self):
        """A budget in percent of the sum of solo peaks, and a job that starts after all others have
        ended: it is measured alone like the others, the broker waits for it, and both finish."""
        text = GOOD.replace("budget: 200M", "budget: 90%").replace(
            "  - name: two\n", "  - name: two\n    delay: 4\n")
        done = self.zico("run", self.write(text), "--json", "--quiet", "--out", "o")
        self.assertEqual(0, done.returncode, done.stderr)
        said = json.loads(done.stdout)
        jobs = {j["job"]: j for j in said["jobs"]}
        self.assertEqual([6, 6], [jobs[n]["steps"] for n in ("one", "two")])
        self.assertGreaterEqual(said["wall_ns"], 4e9)

    def test_interrupt(self):
        """Ctrl-C stops all jobs in order: nobody is left, no socket is left, the exit code is 130."""
        name = self.write(GOOD.replace("steps: 6", "steps: 1000000"))
        p = subprocess.Popen([ZICO, "run", name, "--quiet", "--out", "o"], cwd=self.dir, env=self.env,
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            pids, broker = self.job_pids(p)
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=60)
        finally:
            if p.poll() is None:
                p.kill()
                p.communicate()
        self.assertEqual(130, p.returncode, err)
        self.assertEqual([], [x for x in pids if alive(x)])
        end = time.monotonic() + 30  # the broker lingers for those who come next
        while self.sockets() and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual([], self.sockets())
        self.assertFalse(alive(broker))

    def sockets(self):
        return [os.path.join(d, f) for d, _, files in os.walk(self.dir) for f in files
                if f.endswith(".sock")]

    def job_pids(self, process):
        """Both jobs' processes, once each has made a step."""
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            done = self.zico("status", "--json")
            seen = json.loads(done.stdout) if done.returncode == 0 else {"jobs": []}
            if len(seen["jobs"]) == 2 and all(j["step_no"] > 1 for j in seen["jobs"]):
                return [j["pid"] for j in seen["jobs"]], seen["broker_pid"]
            time.sleep(0.1)
        self.fail("the jobs did not start")

    def test_sim(self):
        """zico sim: all policies over budgets, one job by job, and faults by file, line and key."""
        name = self.write(MIX, "mix.yaml")
        rows = json.loads(self.zico("sim", name, "--json", "--budget", "100%,70%").stdout)
        self.assertEqual(["temporal", "spatial", "zico"] * 2, [r["policy"] for r in rows])
        by = {(r["policy"], round(r["of_peaks"], 1)): r for r in rows}
        self.assertGreater(by["zico", 0.7]["throughput"], by["temporal", 0.7]["throughput"])
        for r in rows:
            self.assertLessEqual(r["peak_bytes"], r["budget_bytes"])
        jobs = json.loads(self.zico("sim", name, "--json", "--policy", "zico", "--budget", "1G").stdout)
        self.assertEqual(["a", "b-1", "b-2"], [j["job"] for j in jobs])
        others = "salus:fifo,salus:pack,salus:srtf,salus:fair,gandiva:slice=5"
        rows = json.loads(self.zico("sim", name, "--json", "--budget", "80%,70%",
                                    "--policy", others).stdout)
        self.assertEqual(sorted(others.split(",") * 2), sorted(r["policy"] for r in rows))
        for r in rows:
            self.assertGreater(r["throughput"], 0.3, r)
            self.assertLessEqual(r["peak_bytes"], r["budget_bytes"])
        rows = json.loads(self.zico("sim", name, "--json", "--budget", "80%", "--policy", "all").stdout)
        self.assertEqual({"zico", "temporal", "spatial", "salus", "gandiva"}, {r["policy"] for r in rows})
        done = self.zico("sim", self.write(MIX.replace("lean", "leen"), "bad.yaml"))
        self.assertEqual(2, done.returncode)
        self.assertIn("bad.yaml:9: shape: 'leen' is none of", done.stderr)


if __name__ == "__main__":
    hooked.main()
