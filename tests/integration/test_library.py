"""libforeshock.so as its users meet it: exports fs_* alone and needs the C++ runtime alone."""

import re
import subprocess
import unittest

import harness

LIBRARY = harness.BUILD / "lib" / "libforeshock.so"
NEEDED = re.compile(r"lib(c|m|stdc\+\+|gcc_s)\.so|ld-linux|linux-vdso")


class Library(unittest.TestCase):
    def setUp(self):
        cache = (harness.BUILD / "CMakeCache.txt").read_text()
        if re.search(r"^FORESHOCK_SANITIZE:STRING=.", cache, re.MULTILINE):
            self.skipTest("sanitizers export and need symbols of their own")

    def test_exports_only_fs(self):
        text = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        names = [line.split()[-1].split("@")[0] for line in text.splitlines()]
        self.assertIn("fs_open", names)
        self.assertEqual([n for n in names if not n.startswith("fs_")], [])

    def test_needs_only_the_runtime(self):
        text = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
        others = [line.strip() for line in text.splitlines() if not NEEDED.search(line)]
        self.assertEqual(others, [])


if __name__ == "__main__":
    harness.main()
