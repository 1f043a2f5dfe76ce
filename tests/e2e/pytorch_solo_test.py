"""pytorch_solo_test -- unmodified PyTorch scripts alone under the hook: every loss is the same bit
for bit, steps are seen, and the pool is really used.

timeout: 240
"""
import os
import tempfile
import unittest

import hooked
from hooked import EXAMPLES, PYTHON, hooked_env, losses, plain_losses, run

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


SCRIPTS = {
    "resnet": ["resnet.py", "--batch", "8", "--steps", "4"],
    "lstm": ["lstm.py", "--hidden", "128", "--steps", "3"],
    "transformer": ["transformer.py", "--batch", "4", "--steps", "3"],
    "accumulate": ["accumulate.py", "--batch", "4", "--parts", "3", "--steps", "3"],
    "gan": ["gan.py", "--steps", "5"],
    "dataloader": ["dataloader.py", "--batch", "8", "--count", "32", "--evaluate", "2", "--steps", "3"],
    "resume": ["dataloader.py", "--batch", "8", "--workers", "0", "--count", "8", "--evaluate", "0",
               "--steps", "6"],
}


@unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
class Solo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = dict(zip(SCRIPTS, plain_losses(SCRIPTS.values())))

    def compare(self, name, *more, marks=None):
        """Same losses with and without; `marks` steps are seen, else as many as the script makes."""
        script, *args = SCRIPTS[name]
        under = run([PYTHON, "-c", TAIL, os.path.join(EXAMPLES, script), *args, *more], hooked_env())
        steps = int(args[-1])
        self.assertGreaterEqual(len(self.plain[name]), steps)
        self.assertEqual(self.plain[name], losses(under.stdout))
        n_steps, n_pool, n_surprises, n_refused = map(
            int, under.stdout.rsplit("hook ", 1)[1].split())
        self.assertEqual(marks or steps, n_steps)
        self.assertEqual(0, n_refused)
        self.assertGreater(n_pool, 10 * steps)
        self.assertLess(n_surprises, n_pool / steps)

    def test_resnet(self):
        self.compare("resnet")

    def test_lstm_set_to_none(self):
        self.compare("lstm")

    def test_transformer_schedule(self):
        self.compare("transformer")

    def test_accumulate(self):
        """Three backward passes to one optimizer step are one step."""
        self.compare("accumulate")

    def test_two_optimizers(self):
        """Until the cycle is known each optimizer's step counts, then one per pair."""
        self.compare("gan", marks=2 * 2 + 3)

    def test_dataloader_workers(self):
        """Two worker processes by fork and by spawn, with evaluation in between."""
        self.compare("dataloader", "--start", "fork")
        self.compare("dataloader", "--start", "spawn")

    def test_checkpoint_and_resume(self):
        """Three steps, a checkpoint, and three more are the six steps of one run."""
        with tempfile.TemporaryDirectory(prefix="zi-e2e-") as d:
            state = os.path.join(d, "s.pt")
            script, *args = SCRIPTS["resume"]
            words = [PYTHON, os.path.join(EXAMPLES, script), *args, "--checkpoint", state]
            first = run([*words, "--steps", "3"], hooked_env())
            second = run([*words, "--resume", "1"], hooked_env())
            self.assertEqual(self.plain["resume"], losses(first.stdout) + losses(second.stdout))

    def test_refused_step_is_an_ordinary_error(self):
        """A job that cannot fit even alone gets PyTorch's own error, and no crash."""
        p = run([PYTHON, os.path.join(EXAMPLES, "resnet.py"), "--batch", "32", "--steps", "2"],
                hooked_env(ZICO_LOCAL="96M", ZICO_MAX_WAIT="2s"), check=False)
        self.assertEqual(1, p.returncode)
        self.assertIn("RuntimeError", p.stderr)
        self.assertIn("memory", p.stderr)


if __name__ == "__main__":
    hooked.main()
