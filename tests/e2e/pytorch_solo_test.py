"""pytorch_solo_test -- unmodified PyTorch scripts alone under the hook: every loss is the same bit
for bit, steps are seen, and the pool is really used.

timeout: 240
"""
import os
import tempfile
import unittest

import hooked
from hooked import EXAMPLES, PYTHON, clean_env, hooked_env, losses, run

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False

# prints what the hook saw when the script has ended
TAIL = """
import atexit, runpy, sys, zico
def tell():
    s = zico.stats()
    print("hook", s["n_steps"], s["n_pool_blocks"], s["n_surprises"], s["n_refused"])
atexit.register(tell)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rsplit("/", 1)[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Solo(unittest.TestCase):
    def compare(self, script, *args, steps, marks=None, pool=True, **env):
        """Same losses with and without; `marks` steps are seen."""
        words = [os.path.join(EXAMPLES, script), "--steps", str(steps), *args]
        plain = run([PYTHON, *words], clean_env())
        under = run([PYTHON, "-c", TAIL, *words], hooked_env(**env))
        self.assertGreaterEqual(len(losses(plain.stdout)), 1)
        self.assertEqual(losses(plain.stdout), losses(under.stdout))
        n_steps, n_pool, n_surprises, n_refused = map(
            int, under.stdout.rsplit("hook ", 1)[1].split())
        self.assertEqual(marks or steps, n_steps)
        self.assertEqual(0, n_refused)
        if pool:
            self.assertGreater(n_pool, 10 * steps)
            self.assertLess(n_surprises, n_pool / steps)
        return under

    def test_resnet(self):
        self.compare("resnet.py", "--batch", "8", steps=4)

    def test_lstm_set_to_none(self):
        self.compare("lstm.py", "--hidden", "128", steps=3)

    def test_transformer_schedule(self):
        self.compare("transformer.py", "--batch", "4", steps=3)

    def test_accumulate(self):
        """Four backward passes to one optimizer step are one step."""
        self.compare("accumulate.py", "--batch", "4", steps=3)

    def test_two_optimizers(self):
        """Until the cycle is known each optimizer's step counts, then one per pair."""
        self.compare("gan.py", steps=5, marks=2 * 2 + 3)

    def test_dataloader_workers(self):
        """Worker processes by fork and by spawn, with evaluation in between."""
        for start in ("fork", "spawn"):
            self.compare("dataloader.py", "--batch", "8", "--start", start, "--evaluate", "2",
                         steps=4)

    def test_checkpoint_and_resume(self):
        """Four steps, a checkpoint, and four more are the eight steps of one run."""
        with tempfile.TemporaryDirectory(prefix="zi-e2e-") as d:
            script, state = os.path.join(EXAMPLES, "dataloader.py"), os.path.join(d, "s.pt")
            words = [script, "--batch", "8", "--workers", "0", "--count", "8", "--evaluate", "0"]
            whole = run([PYTHON, *words, "--steps", "6"])
            first = run([PYTHON, *words, "--steps", "3", "--checkpoint", state], hooked_env())
            second = run([PYTHON, *words, "--steps", "6", "--checkpoint", state, "--resume", "1"],
                         hooked_env())
            self.assertEqual(losses(whole.stdout), losses(first.stdout) + losses(second.stdout))

    def test_refused_step_is_an_ordinary_error(self):
        """A job that cannot fit even alone gets PyTorch's own error, and no crash."""
        p = run([PYTHON, os.path.join(EXAMPLES, "resnet.py"), "--batch", "32", "--steps", "2"],
                hooked_env(ZICO_LOCAL="96M", ZICO_MAX_WAIT="2s"), check=False)
        self.assertEqual(1, p.returncode)
        self.assertIn("RuntimeError", p.stderr)
        self.assertIn("memory", p.stderr)


if __name__ == "__main__":
    hooked.main()
