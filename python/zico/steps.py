"""Tells the preload library where steps begin and end."""
import functools
import weakref

from zico import hook
from zico.cycle import Cycle


class _State:
    def __init__(self):
        self.cycle = Cycle()
        self.depth = 0                       # inside the step of an optimizer that wraps another
        self.optimizers = weakref.WeakSet()
        self.waiting = None                  # handle of the hook on the first forward pass
        self.begun = False


_state = _State()


def _sizes():
    sizes = set()
    for optimizer in list(_state.optimizers):
        for group in optimizer.param_groups:
            for p in group["params"]:
                sizes.add(p.numel() * p.element_size())
    return sizes


def _first_forward(module, inputs):
    """The first forward pass that trains: parameters and data are there, the step begins."""
    import torch
    if not module.training or not torch.is_grad_enabled():
        return
    _state.waiting.remove()
    _state.begun = True
    hook.train_begin(_sizes())


def _born(optimizer):
    _state.optimizers.add(optimizer)
    if _state.begun or _state.waiting is not None:
        return
    from torch.nn.modules.module import register_module_forward_pre_hook
    _state.waiting = register_module_forward_pre_hook(_first_forward)


def _stepped(optimizer):
    _state.begun = True
    if _state.waiting is not None:
        _state.waiting.remove()
    if len(_state.optimizers) <= 1 or _state.cycle.step(id(optimizer)):
        hook.step()


def _marked(step):
    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        _state.depth += 1
        try:
            return step(self, *args, **kwargs)
        finally:
            _state.depth -= 1
            if _state.depth == 0:
                _stepped(self)
    wrapper.zico_marked = True
    return wrapper


def patch(optimizer_class, register_post_hook=None):
    """Add ourselves to torch.optim.Optimizer."""
    if not hook.present():
        return
    init = optimizer_class.__init__

    @functools.wraps(init)
    def born(self, *args, **kwargs):
        init(self, *args, **kwargs)
        try:
            cls = type(self)
            if register_post_hook is None and not hasattr(cls.step, "zico_marked"):
                cls.step = _marked(cls.step)
            _born(self)
        except Exception:  # never harm the program
            pass

    optimizer_class.__init__ = born
    if register_post_hook is not None:  # torch 2.x; untested
        register_post_hook(lambda optimizer, args, kwargs: _stepped(optimizer))
