"""zico_watch_test -- optimizers are watched without torch: a stand-in module.  timeout: 30"""
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

from zico import hook, steps, watch


class Optimizer:
    """What the watcher needs of torch.optim.Optimizer."""

    def __init__(self, inner=None):
        self.param_groups = []
        self.inner = inner

    def step(self):
        return self.inner.step() if self.inner else "stepped"


class Watch(unittest.TestCase):
    def setUp(self):
        steps._state.__init__()
        self.ends = 0
        patches = [mock.patch.object(hook, "present", lambda: True),
                   mock.patch.object(hook, "step", self.count),
                   mock.patch.object(steps, "_born", steps._state.optimizers.add)]
        for p in patches:
            p.start()
            self.addCleanup(p.stop)
        self.cls = type("Opt", (Optimizer,), {"step": Optimizer.step})
        steps.patch(self.cls)

    def count(self):
        self.ends += 1

    def test_one(self):
        """Each step of an optimizer ends a step; its result comes through."""
        o = self.cls()
        self.assertEqual("stepped", o.step())
        o.step()
        self.assertEqual(2, self.ends)

    def test_wrapped(self):
        """An optimizer that steps another one inside counts once."""
        o = self.cls(self.cls())
        o.step()
        self.assertEqual(1, self.ends)

    def test_failure(self):
        """An exception from the optimizer passes through, and the depth is right again."""
        bad = type("Bad", (self.cls,), {"step": lambda self: 1 / 0})()
        with self.assertRaises(ZeroDivisionError):
            bad.step()
        self.assertEqual(0, steps._state.depth)
        self.cls().step()
        self.assertEqual(2, self.ends)

    def test_finder(self):
        """The module is patched when it is imported, by its own loader, and only once."""
        with tempfile.TemporaryDirectory(prefix="zi-test-") as d:
            os.makedirs(os.path.join(d, "torch", "optim"))
            for path, text in (("torch/__init__.py", ""), ("torch/optim/__init__.py", ""),
                               ("torch/optim/optimizer.py", "class Optimizer:\n    pass\n")):
                with open(os.path.join(d, path), "w", encoding="utf-8") as f:
                    f.write(text)
            saved = {k: v for k, v in sys.modules.items() if k.split(".")[0] == "torch"}
            for k in saved:
                del sys.modules[k]
            sys.path.insert(0, d)
            try:
                seen = []
                with mock.patch.object(watch, "_patch", seen.append):
                    watch.install()
                    finders = len(sys.meta_path)
                    import torch.optim.optimizer as module
                self.assertEqual([module], seen)
                self.assertEqual(finders - 1, len(sys.meta_path))
                self.assertIsInstance(module, types.ModuleType)
                self.assertTrue(module.__spec__.loader is module.__loader__)
            finally:
                sys.path.remove(d)
                for k in [k for k in sys.modules if k.split(".")[0] == "torch"]:
                    del sys.modules[k]
                sys.modules.update(saved)

    def test_no_library(self):
        """Without the preload library every call is allowed and does nothing."""
        import zico
        with mock.patch.object(hook, "_lib", None):
            self.assertIsNone(zico.stats())
            self.assertEqual("", zico.message())
            zico.step()
            hook.train_begin({4096})
            self.assertEqual(0, hook.cores())
        with mock.patch.dict(os.environ, clear=True):
            self.assertIsNone(zico.limit("1G"))


if __name__ == "__main__":
    unittest.main()
