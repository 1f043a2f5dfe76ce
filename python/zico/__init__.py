"""zico for Python programs.  Optional: PyTorch scripts need none of it under `zico run`.

    import zico
    zico.step()          a training step ends here (for loops that have no torch optimizer)
    zico.stats()         what this process holds and has waited for; None outside `zico run`
    zico.limit("2G")     the most bytes this job may hold from now on
    zico.message()       the last refusal or reason to wait, in words

Outside `zico run` every call is allowed and does nothing.
"""
from zico.hook import message, present, stats, step
from zico.limits import limit

__all__ = ["limit", "message", "present", "stats", "step"]
