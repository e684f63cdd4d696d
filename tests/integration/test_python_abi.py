"""The Python package's ctypes structs have the layout that the C compiler gives foreshock.h. Needs no torch."""

import ctypes
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HEADER = SOURCE / "sdk" / "capi" / "include"


def load_abi():
    """The module by its file: the package itself imports torch."""
    spec = importlib.util.spec_from_file_location("abi", SOURCE / "sdk" / "python" / "src" / "foreshock" / "_abi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def c_name(struct):
    """fs_guard_options of GuardOptions."""
    return "fs_" + "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(struct.__name__))


class PythonAbi(unittest.TestCase):
    def test_offsets_and_sizes(self):
        abi = load_abi()
        structs = [s for s in vars(abi).values() if isinstance(s, type) and issubclass(s, ctypes.Structure)]
        self.assertGreaterEqual({c_name(s) for s in structs}, {"fs_options", "fs_weights", "fs_attention", "fs_stats"})
        lines, expected = [], []
        for struct in structs:
            name = c_name(struct)
            for field, _ in struct._fields_:
                lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
                expected.append((name, field, getattr(struct, field).offset))
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append((name, "size of all", ctypes.sizeof(struct)))
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fs-abi-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "offsets.c").write_text('#include <stddef.h>\n#include <stdio.h>\n#include "foreshock/foreshock.h"\n'
                                          "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run([os.environ.get("CC", "cc"), "-I", HEADER, folder / "offsets.c", "-o", folder / "offsets"], check=True)
        out = subprocess.run([folder / "offsets"], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([(name, field, int(o)) for (name, field, _), o in zip(expected, out)], expected)


if __name__ == "__main__":
    unittest.main()
