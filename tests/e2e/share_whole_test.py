"""share_whole_test -- two unmodified PyTorch scripts and a native job share 65 % of what they need
alone, while a fourth job and the broker are killed: every loss is the same, bit for bit.

timeout: 400
"""
import os
import signal
import subprocess
import unittest

import hooked
from hooked import EXAMPLES, MIB, PYTHON, Broker, clean_env, losses, run
from shared import Native, Sampler, job_of, status, wait_for

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False

STEPS = 6
SCRIPTS = {
    "mobilenet": ["resnet.py", "--net", "mobilenet_v2", "--size", "64", "--batch", "24"],
    "transformer": ["transformer.py", "--width", "128", "--batch", "16", "--length", "128"],
}


def words(name):
    script, *rest = SCRIPTS[name]
    return [PYTHON, os.path.join(EXAMPLES, script), *rest, "--steps", str(STEPS)]


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Whole(unittest.TestCase):
    def setUp(self):
        self.native, self.scripts = [], []

    def tearDown(self):
        for j in self.native:
            j.close()
        for p in self.scripts:
            if p.poll() is None:
                p.kill()
            p.communicate()

    def start_native(self, name, steps, broker):
        self.native.append(Native(name, steps, broker.socket, net="mobile"))
        return self.native[-1]

    def start_script(self, name, broker):
        self.scripts.append(subprocess.Popen(
            broker.command(*words(name), options=["--cores", "fixed:1", "--name", name]),
            env=clean_env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.scripts[-1]

    def end_script(self, process):
        out, err = process.communicate(timeout=200)
        self.assertEqual(0, process.returncode, err)
        return losses(out)

    def alone(self):
        """Losses of all, and the sum of their peaks, each with the device for itself."""
        want, total = {}, 0
        for name in SCRIPTS:
            plain = losses(run(words(name)).stdout)
            with Broker(2048 * MIB) as b:
                want[name] = self.end_script(self.start_script(name, b))
                total += status(b.socket)["peak_bytes"]
            self.assertEqual(plain, want[name])
        with Broker(2048 * MIB) as b:
            want["native"] = self.start_native("native", 3 * STEPS, b).losses()
            total += status(b.socket)["peak_bytes"]
        return want, total

    def test_everything_at_once(self):
        want, total = self.alone()
        budget = total * 65 // 100 // MIB * MIB
        with Broker(budget) as b:
            watch = Sampler(b.socket)
            watch.start()
            native = self.start_native("native", 3 * STEPS, b)
            scripts = {n: self.start_script(n, b) for n in SCRIPTS}
            victim = self.start_native("victim", 100000, b)
            wait_for("the victim's step", lambda: self.step_of(b, "victim") >= 2, 120)
            victim.kill()
            wait_for("all scripts learnt", lambda: all(
                self.step_of(b, n) >= 1 or p.poll() is not None for n, p in scripts.items()), 120)
            os.kill(status(b.socket)["broker_pid"], signal.SIGKILL)
            got = {n: self.end_script(p) for n, p in scripts.items()}
            got["native"] = native.losses()
            most = watch.stop()
        self.assertEqual(want, got)
        self.assertLessEqual(most, budget)
        print(f"sum of peaks {total // MIB} MiB, budget {budget // MIB} MiB, kernel {most // MIB} MiB")

    def step_of(self, broker, name):
        return (job_of(status(broker.socket), name) or {}).get("step_no", 0)


if __name__ == "__main__":
    hooked.main()
