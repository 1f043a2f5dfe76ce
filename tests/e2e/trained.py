"""What tests of the command share: the command, its events, a folder that goes away."""
import json
import os
import subprocess
import tempfile
import unittest

ZICO = os.path.join(os.environ["ZI_BUILD_DIR"], "zico")
ENV = {k: v for k, v in os.environ.items() if k not in ("ZICO_SOCKET", "LC_ALL", "LANG")}
ENV["OMP_WAIT_POLICY"] = "passive"  # tests run side by side: idle threads should not spin


def zico(*words, cwd=None, env=ENV, before=None):
    return subprocess.run([ZICO, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, cwd=cwd, env=env, timeout=120, preexec_fn=before)


def events(text):
    return [json.loads(line) for line in text.splitlines()]


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="zi-test-")
        self.dir = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.dir, name)

    def train(self, *words):
        """The events of a run that must end well."""
        r = zico("train", *words, "--json", cwd=self.dir)
        self.assertEqual(0, r.returncode, r.stderr)
        return events(r.stdout)
