"""The C handle: options from Python's arguments, layers from plans, one thin method a call."""

import ctypes as C
import os
import sys

from . import _abi, _library
from ._device import DTYPES


def _bytes(text):
    return None if text is None else str(text).encode()


def _strings(texts):
    array = (C.c_char_p * max(len(texts), 1))(*[t.encode() for t in texts])
    return C.cast(array, C.POINTER(C.c_char_p)), array


NUMBERS = ("rank", "world_size", "local_world_size", "replica", "replicas", "attention_every_steps", "spectra_every_steps",
           "projections_every_steps", "row_every", "sequence_every", "budget", "seed", "queue_frames", "queue_bytes",
           "window_bytes", "flush_timeout_ms")
TEXTS = ("run", "attempt", "address", "framework", "model_name", "token")


def fill_options(library, given):
    """(fs_options, what must stay alive) from keyword arguments. TypeError for a name that is none."""
    options, keep = _abi.Options(), []
    library.fs_options_init_size(C.byref(options), C.sizeof(options))
    for name, value in given.items():
        if name in TEXTS:
            setattr(options, name, _bytes(value))
        elif name in NUMBERS:
            if value is not None:
                setattr(options, name, value)
        elif name == "labels":
            options.labels, array = _strings([f"{k}={v}" for k, v in dict(value).items()])
            options.label_count = len(value)
            keep.append(array)
        elif name == "allowed_actions":
            options.allowed_actions, array = _strings(value)
            options.allowed_action_count = len(value)
            keep.append(array)
        else:
            known = sorted((*TEXTS, *NUMBERS, "allowed_actions", "labels"))
            raise TypeError(f"foreshock.watch() has no option '{name}'; there are {', '.join(known)}")
    grpc = _library.beside("libforeshock_grpc.so")
    if grpc and not os.environ.get("FORESHOCK_GRPC_LIBRARY"):
        options.grpc_library = grpc.encode()
    return options, keep


def start_agent_options(options, keep):
    """No address anywhere: the node's agent, started on demand, when this package brought one."""
    agent = _library.beside("foreshock-agent")
    server = os.environ.get("FORESHOCK_SERVER")
    if options.address or os.environ.get("FORESHOCK_ADDR") is not None or agent is None or not server:
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/foreshock-{os.getuid()}"
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    options.address = f"unix:{runtime}/foreshock-agent.sock".encode()
    options.start_agent, options.agent_path = 1, agent.encode()
    options.agent_arguments, array = _strings(["--server", server, "--spool", f"{runtime}/foreshock-spool"])
    options.agent_argument_count = 4
    keep.append(array)


def open_run(given):
    """(library, handle). A library or option that is not there is said once; the handle is None then, and inert."""
    try:
        library = _library.load()
    except OSError as error:
        print(f"foreshock: {error}; training goes on unwatched", file=sys.stderr)
        return None, None
    options, keep = fill_options(library, given)
    start_agent_options(options, keep)
    handle = C.c_void_p()
    status = library.fs_open(C.byref(options), C.byref(handle))
    return library, handle if status == _abi.OK and handle.value else None


def weights_struct(projection, parameter, decay, keep):
    """fs_weights of a plan's projection over a parameter's memory."""
    w = _abi.Weights()
    _library.load().fs_weights_init_size(C.byref(w), C.sizeof(w))
    row, col, offsets = projection.strides(parameter)
    array = (C.c_int64 * len(offsets))(*offsets)
    keep.append(array)
    w.dtype, w.data = DTYPES[parameter.dtype], parameter.data_ptr()
    w.row_stride, w.col_stride = row, col
    w.head_offsets = C.cast(array, C.POINTER(C.c_int64))
    w.weight_decay = decay
    if parameter.is_cuda:
        w.device = parameter.get_device()
    return w


def layer_struct(layer, wq, wk):
    """fs_layer of a plan; wq, wk: fs_weights or None."""
    s = _abi.Layer()
    _library.load().fs_layer_init_size(C.byref(s), C.sizeof(s))
    s.layer, s.name = layer.index, layer.name.encode()[:200]
    s.model_dim, s.query_heads, s.kv_heads, s.head_dim = layer.model_dim, layer.query_heads, layer.kv_heads, layer.head_dim
    s.first_query_head, s.local_query_heads = layer.first_query_head, layer.local_query_heads
    s.first_kv_head, s.local_kv_heads = layer.first_kv_head, layer.local_kv_heads
    s.scale, s.softcap = layer.scale or 0.0, layer.softcap
    s.causal, s.qk_norm, s.dropout = int(bool(layer.causal)), int(layer.qk_norm), layer.dropout
    if wq is not None:
        s.wq = C.pointer(wq)
    if wk is not None:
        s.wk = C.pointer(wk)
    return s
