"""Runs when Python starts under `zico run`: watches for torch, then makes way.

`zico run` puts this folder in front of PYTHONPATH.  A sitecustomize of the user's or of the
distribution still runs: it is imported from wherever it lies behind us.  Whatever goes wrong
here is silent; the program runs as it would without zico.
"""
import os
import sys


def _make_way():
    """Take this folder from sys.path and run the sitecustomize that we stand in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401  (the next one on the path)
    except ImportError as e:
        if getattr(e, "name", None) != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


def _watch():
    try:
        from zico import watch
        watch.install()
    except Exception:  # never harm the program
        if os.environ.get("ZICO_VERBOSE", "1") not in ("", "0", "1"):
            import traceback
            traceback.print_exc()


if os.environ.get("ZICO_HOOK") in ("join", "observe"):
    _watch()
_make_way()
