"""The preload library of this process, through ctypes.  Without it every call does nothing."""
import ctypes


class Stats(ctypes.Structure):
    """zi_hook_stats of src/hook/hook.h."""
    _fields_ = (
        [("struct_size", ctypes.c_uint32), ("mode", ctypes.c_uint32),
         ("joined", ctypes.c_uint32), ("connected", ctypes.c_uint32)]
        + [(name, ctypes.c_uint64) for name in (
            "n_steps", "n_pool_blocks", "n_own_blocks", "n_surprises", "n_refused",
            "live_bytes", "cached_bytes", "leased_bytes", "private_bytes", "peak_bytes",
            "wait_step_ns", "wait_lease_ns", "budget_bytes", "n_asides")])


def _load():
    try:
        lib = ctypes.CDLL(None)
        lib.zico_step.restype = None
        lib.zico_hook_train_begin.restype = None
        lib.zico_hook_train_begin.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
        lib.zico_hook_cores.restype = ctypes.c_uint
        lib.zico_hook_stats.restype = ctypes.c_int
        lib.zico_hook_stats.argtypes = [ctypes.POINTER(Stats)]
        lib.zico_hook_message.restype = ctypes.c_size_t
        lib.zico_hook_message.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        return lib
    except (AttributeError, OSError):
        return None


_lib = _load()


def present():
    return _lib is not None


def step():
    if _lib is not None:
        _lib.zico_step()


def train_begin(sizes):
    if _lib is None:
        return
    sizes = sorted(sizes)
    _lib.zico_hook_train_begin((ctypes.c_uint64 * len(sizes))(*sizes), len(sizes))


def cores():
    return _lib.zico_hook_cores() if _lib is not None else 0


def stats():
    """A dict, or None without the library."""
    if _lib is None:
        return None
    s = Stats(struct_size=ctypes.sizeof(Stats))
    if _lib.zico_hook_stats(ctypes.byref(s)) < 0:
        return None
    return {name: getattr(s, name) for name, _ in Stats._fields_ if name != "struct_size"}


def message():
    if _lib is None:
        return ""
    buf = ctypes.create_string_buffer(512)
    _lib.zico_hook_message(buf, len(buf))
    return buf.value.decode("utf-8", "replace")
