"""What the benchmarks of queues and slices share: a broker, jobs, what both say, and a file that keeps
results from one window to the next."""
import json
import os
import resource
import subprocess
import sys
import time

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}


def until(look, seconds=120, pause=0.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        if pause:
            time.sleep(pause)
    sys.exit("bench: gave up waiting")


class Broker:
    """`zico serve` on a socket of its own; its log has a line for each step."""

    def __init__(self, folder, name, budget, policy="zico"):
        self.sock = os.path.join(folder, name)
        self.log = self.sock + ".log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [ZICO, "serve", "--socket", self.sock, "--budget", str(budget), "--policy", policy,
                 "--log-level", "3"], env=ENV, stderr=log)

    def __enter__(self):
        until(lambda: os.path.exists(self.sock), 20, 0.005)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def start(self, folder, name, words, **how):
        env = dict(ENV, ZICO_SOCKET=self.sock, TMPDIR=folder, ZICO_JOB_NAME=name)
        how.setdefault("stdout", subprocess.DEVNULL)
        return subprocess.Popen([ZICO, *words], env=env, cwd=folder, **how)

    def say(self, verb, job):
        subprocess.run([ZICO, verb, job, "--socket", self.sock], env=ENV, check=True,
                       stdout=subprocess.DEVNULL)

    def status(self):
        done = subprocess.run([ZICO, "status", "--json", "--socket", self.sock], text=True, env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout.splitlines()[0]) if done.returncode == 0 else {"jobs": []}

    def events(self):
        """(word, job, seconds, number), as the broker wrote them."""
        found = []
        with open(self.log) as f:
            for line in f:
                part = line.split(": ", 1)[-1].strip().split(",")
                if len(part) == 4 and part[2].isdigit() and part[3].isdigit():
                    found.append((part[0], part[1], int(part[2]) / 1e9, int(part[3])))
        return found


def foreign_seconds():
    """Processor time of the machine that is not that of children which have ended: its growth tells how much
    others took meanwhile."""
    with open("/proc/stat") as f:
        row = [int(x) for x in f.readline().split()[1:9]]
    busy = sum(row) - row[3] - row[4]  # without idle and waiting for disks
    mine = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy / os.sysconf("SC_CLK_TCK") - mine.ru_utime - mine.ru_stime


def run_file(folder, text, policy, name, seconds=900):
    """A job file under `zico run`: seconds and report."""
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w") as f:
        f.write(text)
    begin = time.monotonic()
    done = subprocess.run([ZICO, "run", "--policy", policy, "--quiet", "--json", "--out",
                           os.path.join(folder, "out"), "--socket", os.path.join(folder, name), path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(ENV, TMPDIR=folder), timeout=seconds)
    took = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit("bench: %s" % done.stderr[-400:])
    return took, json.loads(done.stdout.splitlines()[-1])


class Results:
    """One JSON object a line; what an earlier window measured stays."""

    def __init__(self, path):
        self.path = path

    def add(self, record):
        if not self.path:
            return
        if os.path.dirname(self.path):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "a") as f:
            f.write(json.dumps(record) + "\n")

    def all(self, part):
        if not self.path or not os.path.exists(self.path):
            return []
        with open(self.path) as f:
            rows = [json.loads(line) for line in f if line.strip()]
        return [r for r in rows if r["part"] == part]


def median(values):
    v = sorted(values)
    return v[len(v) // 2] if v else 0.0
