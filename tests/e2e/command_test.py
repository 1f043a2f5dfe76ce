#!/usr/bin/python3
"""command_test -- the zico command as a person uses it: serve, status, limit, stop. timeout: 120"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build/dev")
ZICO = os.path.join(BUILD, "zico")


class House:
    """A run directory of its own."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="zico-command-")
        self.env = {k: v for k, v in os.environ.items() if k != "ZICO_SOCKET"}
        self.env["XDG_RUNTIME_DIR"] = self.dir
        self.brokers = []

    def zico(self, *args, code=0):
        """Runs a command that must end with that code; its standard output, then error."""
        done = subprocess.run([ZICO, *args], env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def serve(self, *args):
        p = subprocess.Popen([ZICO, "serve", *args], env=self.env, stderr=subprocess.PIPE, text=True)
        self.brokers.append(p)
        line = p.stderr.readline()
        while "removing the stale socket" in line:
            line = p.stderr.readline()
        assert "serving" in line, line
        return p

    def status(self):
        return json.loads(self.zico("status", "--json")[0])

    def close(self):
        for p in self.brokers:
            if p.poll() is None:
                p.terminate()
            p.wait(timeout=30)
            p.stderr.close()
        shutil.rmtree(self.dir)


def serve_look_change_stop(h):
    """The life of a broker, from the outside."""
    assert "zico serve" in h.zico("status", code=1)[1]  # says what to do
    p = h.serve("--budget", "64M", "--region", "2M")
    s = h.status()
    assert s["budget_bytes"] == 64 << 20 and s["region_bytes"] == 2 << 20 and s["jobs"] == [], s
    assert "no jobs" in h.zico("status")[0]
    assert "already" in h.zico("serve", "--budget", "1G", code=1)[1]
    assert h.zico("limit", "--budget", "128M")[0].startswith("applied")
    assert h.zico("limit", "--budget", "96M", "--revision", "1", code=1)[0].startswith("stale")
    assert h.zico("limit", "--budget", "9999T", code=1)[0].startswith("conflict")
    assert h.status()["budget_bytes"] == 128 << 20
    assert "nobody" in h.zico("limit", "nobody", "--max", "3M", code=1)[1]
    assert "nobody" in h.zico("pause", "nobody", code=1)[1]
    assert h.zico("stop")[0].startswith("applied")
    assert p.wait(timeout=30) == 0
    assert not os.path.exists(os.path.join(h.dir, "zico/host.sock"))


def restarts_itself(h):
    """Killed, it is back with the budget it had; ended by a signal, it stays away."""
    p = h.serve("--budget", "64M")
    h.zico("limit", "--budget", "80M")
    first = h.status()
    os.kill(first["broker_pid"], signal.SIGKILL)
    second = h.status()
    assert second["broker_pid"] != first["broker_pid"] and second["epoch"] == first["epoch"] + 1
    assert second["budget_bytes"] == 80 << 20
    p.send_signal(signal.SIGTERM)
    assert p.wait(timeout=30) == 0


def lingers(h):
    """Without jobs it ends by itself."""
    p = h.serve("--budget", "64M", "--linger", "0.2")
    assert p.wait(timeout=30) == 0


def cleans_up(h):
    """A socket left behind by a broker that was killed with its supervisor."""
    p = h.serve("--budget", "64M")
    pid = h.status()["broker_pid"]
    os.kill(pid, signal.SIGSTOP)  # else it could take its supervisor's place
    p.kill()
    os.kill(pid, signal.SIGKILL)
    p.wait(timeout=30)
    assert os.path.exists(os.path.join(h.dir, "zico/host.sock"))
    end = time.monotonic() + 10
    while True:  # the lock goes with the last of the two
        try:
            h.serve("--budget", "64M")
            break
        except AssertionError:
            assert time.monotonic() < end
    h.zico("stop")


def called_wrongly(h):
    """Usage is code 2, with a hint."""
    assert "did you mean 'status'" in h.zico("sttaus", code=2)[1]
    assert "did you mean '--budget'" in h.zico("serve", "--bugdet", "3G", code=2)[1]
    h.zico(code=2)
    h.zico("serve", "--budget", "much", code=2)
    h.zico("serve", "--budget", "1G", "--region", "3M", code=2)
    h.zico("serve", "--budget", "1G", "--policy", "none", code=2)
    h.zico("serve", "--budget", "1G", "--device", "abacus", code=2)
    h.zico("limit", code=2)
    h.zico("limit", "job", "--budget", "1G", code=2)
    h.zico("pause", code=2)
    assert "usage" in h.zico("serve", "--help")[0]
    assert "usage" in h.zico("help", "limit")[0]


def doctor_and_version(h):
    """They look, and need no broker."""
    found = {f["name"]: f for f in json.loads(h.zico("doctor", "--json")[0])}
    for name in ("cores", "memory", "memfd", "pidfd", "cuda", "run directory"):
        assert name in found, name
    assert all(f["verdict"] in ("ok", "note") for f in found.values()), found
    assert "broker" not in found
    p = h.serve("--budget", "64M")
    assert "serves host" in h.zico("doctor")[0]
    h.zico("stop")
    p.wait(timeout=30)
    assert h.zico("version")[0].startswith("zico ")


def unsafe_folder(h):
    """A run directory that others may enter is not used."""
    os.mkdir(os.path.join(h.dir, "zico"), 0o755)
    os.chmod(os.path.join(h.dir, "zico"), 0o755)
    assert "not ours alone" in h.zico("serve", "--budget", "64M", code=1)[1]
    assert "not ours alone" in h.zico("status", code=1)[1]


def main():
    for story in (serve_look_change_stop, restarts_itself, lingers, cleans_up, called_wrongly,
                  doctor_and_version, unsafe_folder):
        h = House()
        try:
            story(h)
        finally:
            h.close()
        print("ok", story.__name__, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
