"""Marks the training steps of PyTorch scripts that know nothing of zico.

A finder on sys.meta_path waits for `torch.optim.optimizer` to be imported and adds two things
to it: the end of a step after `Optimizer.step`, and, once, the beginning of training at the
first forward pass after an optimizer was made.  Nothing is imported before the script does.

torch 1.13 is tested.  For torch 2.x the official hook (register_optimizer_step_post_hook) is
used; that path is written after its documentation and UNTESTED.
"""
import importlib.abc
import importlib.util
import sys

TARGET = "torch.optim.optimizer"


class _Loader(importlib.abc.Loader):
    """The module's own loader, and `after` when it has run."""

    def __init__(self, inner, after):
        self.inner = inner
        self.after = after

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = self.inner
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        try:
            self.after(module)
        except Exception:  # never harm the program
            pass


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, after):
        self.after = after

    def find_spec(self, name, path=None, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.after)
        return spec


def install():
    """Watch for torch.optim; at once if it is there already."""
    if TARGET in sys.modules:
        _patch(sys.modules[TARGET])
    else:
        sys.meta_path.insert(0, _Finder(_patch))


def _patch(module):
    from zico import steps
    steps.patch(module.Optimizer, getattr(module, "register_optimizer_step_post_hook", None))
