"""What the tests with real programs share: starting a broker, running commands under zico."""
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = os.path.abspath(os.environ.get("ZI_SOURCE_DIR",
                                        os.path.join(os.path.dirname(__file__), "../..")))
BUILD = os.path.abspath(os.environ.get("ZI_BUILD_DIR", os.path.join(SOURCE, "build/dev")))
ZICO = os.path.join(BUILD, "zico")
LIBRARY = os.path.join(BUILD, "libzico-hook.so")
PYTHON = "/usr/bin/python3"
EXAMPLES = os.path.join(SOURCE, "examples/pytorch")
MIB = 1 << 20


def clean_env(**more):
    """The environment as a user has it: nothing of ours, one thread."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("ZICO_", "ZI_")) and k not in ("LD_PRELOAD", "PYTHONPATH")}
    env.update({"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"})
    env.update({k: str(v) for k, v in more.items()})
    return env


def hooked_env(**more):
    """The environment that `zico run` prepares, with a pool inside the process."""
    env = clean_env(ZICO_HOOK="join", ZICO_LOCAL="1G", ZICO_CORES="own", LD_PRELOAD=LIBRARY,
                    PYTHONPATH=f"{SOURCE}/python/zico/startup:{SOURCE}/python")
    env.update({k: str(v) for k, v in more.items()})
    return env


def run(cmd, env=None, timeout=100, check=True, **more):
    p = subprocess.run(cmd, env=env or clean_env(), timeout=timeout, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, **more)
    if check and p.returncode != 0:
        raise AssertionError(f"{cmd} ended with {p.returncode}\n{p.stdout}\n{p.stderr}")
    return p


def losses(text):
    """The exact losses that the example scripts print."""
    return re.findall(r"^(?:step|evaluate) \d+ (?:loss|right) (\S+)", text, re.M)


# Many scripts in one process: importing torch takes longer than a few steps.
_PLAIN = """
import os, runpy, sys
sys.path.insert(0, sys.argv[1])
for words in sys.argv[2].split("|"):
    sys.argv = words.split()
    print("script", flush=True)
    runpy.run_path(os.path.join(sys.path[0], sys.argv[0]), run_name="__main__")
"""


def plain_losses(scripts):
    """The losses of example scripts (lists of words) without zico."""
    text = "|".join(" ".join(words) for words in scripts)
    out = run([PYTHON, "-c", _PLAIN, EXAMPLES, text], timeout=300).stdout
    return [losses(part) for part in out.split("script\n")[1:]]


def anonymous(pid):
    """Private pages of a process, in bytes, by the kernel's count; 0: it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            return int(re.search(r"Anonymous:\s+(\d+)", f.read()).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


class Broker:
    """`zico serve` on a socket of its own."""

    def __init__(self, budget, *options):
        self.dir = tempfile.mkdtemp(prefix="zi-e2e-")
        self.socket = os.path.join(self.dir, "b.sock")
        self.budget = budget
        self.options = options
        self.process = None

    def start(self):
        self.log = open(os.path.join(self.dir, "broker.log"), "ab")
        self.process = subprocess.Popen(
            [ZICO, "serve", "--socket", self.socket, "--budget", str(self.budget), *self.options],
            env=clean_env(), stdout=self.log, stderr=self.log)
        end = time.monotonic() + 20
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the broker did not start: " + self.read_log())
            time.sleep(0.01)
        return self

    def read_log(self):
        with open(os.path.join(self.dir, "broker.log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def command(self, *cmd, options=()):
        return [ZICO, "run", "--socket", self.socket, *options, "--", *cmd]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def main():
    unittest.main(verbosity=2)
