"""The ctypes structs and the library agree (their layout: tests/integration/test_python_abi.py)."""

import ctypes

from foreshock import _abi

STRUCTS = {"fs_options": _abi.Options, "fs_weights": _abi.Weights, "fs_layer": _abi.Layer, "fs_tensor": _abi.Tensor,
           "fs_scores": _abi.Scores, "fs_attention": _abi.Attention, "fs_action": _abi.Action,
           "fs_guard_options": _abi.GuardOptions, "fs_stats": _abi.Stats}


def test_every_init_function_takes_the_size_that_is_known_here():
    from foreshock import _library

    library = _library.load()
    for name, struct in STRUCTS.items():
        if struct._fields_[0][0] == "size":
            value = struct()
            getattr(library, f"{name}_init_size")(ctypes.byref(value), ctypes.sizeof(value))
            assert value.size == ctypes.sizeof(value), name
