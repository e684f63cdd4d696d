"""The ctypes structs have the layout that the C compiler gives foreshock.h."""

import ctypes
import os
import pathlib
import shutil
import subprocess

import pytest

from foreshock import _abi

HEADER = pathlib.Path(__file__).resolve().parents[3] / "sdk" / "capi" / "include"
STRUCTS = {"fs_options": _abi.Options, "fs_weights": _abi.Weights, "fs_layer": _abi.Layer, "fs_tensor": _abi.Tensor,
           "fs_scores": _abi.Scores, "fs_attention": _abi.Attention, "fs_action": _abi.Action,
           "fs_guard_options": _abi.GuardOptions, "fs_stats": _abi.Stats}


def test_offsets_and_sizes(tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    lines, expected = [], []
    for name, struct in STRUCTS.items():
        for field, _ in struct._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append((name, field, getattr(struct, field).offset))
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append((name, "size of all", ctypes.sizeof(struct)))
    source = tmp_path / "offsets.c"
    source.write_text('#include <stdio.h>\n#include "foreshock/foreshock.h"\nint main(void) {' + "\n".join(lines) + "}\n")
    subprocess.run([compiler, "-I", HEADER, source, "-o", tmp_path / "offsets"], check=True)
    out = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout.split()
    assert [(n, f, int(o)) for (n, f, _), o in zip(expected, out)] == expected


def test_every_init_function_takes_the_size_that_is_known_here():
    from foreshock import _library

    library = _library.load()
    for name, struct in STRUCTS.items():
        if struct._fields_[0][0] == "size":
            value = struct()
            getattr(library, f"{name}_init_size")(ctypes.byref(value), ctypes.sizeof(value))
            assert value.size == ctypes.sizeof(value), name
