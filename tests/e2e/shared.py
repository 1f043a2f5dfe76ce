"""What the tests of sharing have in common: native jobs under a broker, watched from outside."""
import json
import os
import signal
import subprocess
import threading
import time

import hooked
from hooked import MIB, clean_env

NETS = {  # small networks of different shapes
    "conv": ["resnet20:classes=10", "--batch", "24", "--optimizer", "momentum"],
    "mobile": ["mobilenet_v2:classes=10,size=32", "--batch", "16", "--optimizer", "sgd"],
    "gpt": ["gpt:seq=64,width=64,layers=2,heads=2", "--batch", "24"],
}


def status(socket):
    p = subprocess.run([hooked.ZICO, "status", "--json", "--socket", socket], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_env())
    return json.loads(p.stdout) if p.returncode == 0 else None


def job_of(picture, name):
    return next((j for j in (picture or {}).get("jobs", []) if j["name"] == name), None)


def wait_for(what, test, seconds=60):
    """Until test() is true; what it was, if it never is."""
    end = time.monotonic() + seconds
    while True:
        found = test()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.05)


def memfd_bytes(pid):
    """What the kernel keeps for the largest memfd of a process, i.e. the pool."""
    most = 0
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{fd}"
            try:
                if "memfd:" in os.readlink(path):
                    most = max(most, os.stat(path).st_blocks * 512)
            except OSError:
                pass
    except OSError:
        pass
    return most


class Sampler(threading.Thread):
    """The most that the kernel ever kept for the pool, plus what jobs charged besides."""

    def __init__(self, socket):
        super().__init__(daemon=True)
        self.socket, self.most, self.ended = socket, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.02):
            seen = status(self.socket)
            if seen:
                kernel = memfd_bytes(seen["broker_pid"])
                self.most = max(self.most, kernel + seen["private_bytes"])

    def stop(self):
        self.ended.set()
        self.join()
        return self.most


class Native:
    """One `zico train` whose losses are kept as printed."""

    def __init__(self, name, steps, socket=None, net=None, **env):
        words = [hooked.ZICO, "train", *NETS[net or name], "--steps", str(steps), "--eval", "0",
                 "--threads", "1", "--json"]
        if socket:
            words += ["--socket", socket]
        self.name = name
        self.process = subprocess.Popen(
            words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=clean_env(ZICO_JOB_NAME=name, ZICO_CORES="fixed:1", **env))

    def losses(self, timeout=150):
        out, err = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, (self.name, self.process.returncode, out, err)
        said = [json.loads(line) for line in out.splitlines()]
        return [s["loss"] for s in said if s["event"] == "step"]

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def solo_peak(broker, name):
    """The most that a job held alone, by the broker's book."""
    return job_of(status(broker.socket), name)["peak_bytes"] // MIB * MIB
