"""pytorch_observe_test -- `zico run --observe` changes nothing and tells the tide.  timeout: 200"""
import os
import re
import tempfile
import unittest

import hooked
from hooked import EXAMPLES, PYTHON, clean_env, losses, run

try:
    import torch  # noqa: F401
    HAVE_TORCH = True
except ImportError:
    HAVE_TORCH = False


class Observe(unittest.TestCase):
    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_resnet(self):
        """Same losses; picture, period, peak, floor, mean, and how many fit; an SVG file."""
        script = [PYTHON, os.path.join(EXAMPLES, "resnet.py"), "--batch", "8", "--steps", "6"]
        with tempfile.TemporaryDirectory(prefix="zi-e2e-") as d:
            svg = os.path.join(d, "tide.svg")
            p = run([hooked.ZICO, "run", "--observe", "--svg", svg, "--budget", "400M", "--",
                     *script], clean_env(TMPDIR=d))
            self.assertEqual(losses(run(script).stdout), losses(p.stdout))
            with open(svg, encoding="utf-8") as f:
                self.assertIn("<svg", f.read())
            self.assertEqual(["tide.svg"], os.listdir(d))  # nothing is left behind
        self.assertRegex(p.stderr, r"steps   6, one every")
        for word in ("peak", "floor", "mean"):
            self.assertRegex(p.stderr, rf"(?m)^{word} +\d")
        fits = re.search(r"fits    (\d+).* sharing, (\d+)", p.stderr)
        self.assertIsNotNone(fits, p.stderr)
        self.assertGreaterEqual(int(fits.group(2)), int(fits.group(1)))

    @unittest.skipUnless(HAVE_TORCH, "python3-torch is not installed")
    def test_record(self):
        """A command's tide is kept by its name, and the simulator takes it."""
        with tempfile.TemporaryDirectory(prefix="zi-e2e-") as d:
            with open(os.path.join(d, "jobs.yaml"), "w", encoding="utf-8") as f:
                f.write(f"""budget: 1G
jobs:
  - name: net
    command: ["{PYTHON}", "{EXAMPLES}/resnet.py", "--batch", "8", "--steps", "6"]
""")
            run([hooked.ZICO, "run", "--record", "--out", d, os.path.join(d, "jobs.yaml")], clean_env(TMPDIR=d))
            with open(os.path.join(d, "mix.yaml"), "w", encoding="utf-8") as f:
                f.write("jobs:\n  - name: net\n    tide: tides/net.tide\n    count: 2\n")
            p = run([hooked.ZICO, "sim", os.path.join(d, "mix.yaml"), "--policy", "zico", "--budget", "70%"],
                    clean_env())
        self.assertRegex(p.stdout, r"net-2 +\d+")

    def test_no_steps(self):
        """A program without steps gets a picture of its life, and its exit code."""
        p = run([hooked.ZICO, "run", "--observe", "--", PYTHON, "-c",
                 "import numpy as np; a = np.ones(1 << 20); raise SystemExit(5)"], check=False)
        self.assertEqual(5, p.returncode)
        self.assertIn("none were marked", p.stderr)
        self.assertRegex(p.stderr, r"peak +8")

    def test_small(self):
        """A program without large blocks is told so."""
        p = run([hooked.ZICO, "run", "--observe", "--", "true"])
        self.assertIn("no large block", p.stderr)


if __name__ == "__main__":
    hooked.main()
