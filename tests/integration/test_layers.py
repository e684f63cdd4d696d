"""The layer rule bites: an edge that cmake/Layers.cmake does not list fails the configure step."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]

TOP = """cmake_minimum_required(VERSION 3.25)
project(layers LANGUAGES CXX)
option(FORESHOCK_TESTS "" OFF)
add_library(foreshock_flags INTERFACE)
include(cmake/Component.cmake)
add_subdirectory(base/result)
add_subdirectory({folder})
"""


class Layers(unittest.TestCase):
    def configure(self, folder, declaration):
        root = pathlib.Path(tempfile.mkdtemp(prefix="fs-layers-"))
        self.addCleanup(shutil.rmtree, root)
        shutil.copytree(SOURCE / "cmake", root / "cmake")
        (root / "CMakeLists.txt").write_text(TOP.format(folder=folder))
        for name, text in (("base/result", "foreshock_component(base/result)"), (folder, declaration)):
            path = root / name
            path.mkdir(parents=True, exist_ok=True)
            (path / "CMakeLists.txt").write_text(text + "\n")
            (path / "x.cc").write_text("int x;\n")
        return subprocess.run(["cmake", "-G", "Ninja", "-S", root, "-B", root / "build"], capture_output=True, text=True, check=False)

    def refused(self, folder, declaration, edge):
        done = self.configure(folder, declaration)
        self.assertNotEqual(done.returncode, 0, "a forbidden edge was let through")
        self.assertIn("layer rule: " + edge, " ".join(done.stderr.split()))

    def test_a_listed_edge_configures(self):
        done = self.configure("sdk/kernels", "foreshock_component(sdk/kernels SOURCES x.cc DEPS base/result)")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sdk_may_not_use_the_server(self):
        self.refused("sdk/kernels", "foreshock_component(sdk/kernels SOURCES x.cc DEPS server/store)",
                     "sdk/kernels may not use server/store")

    def test_public_edges_count_too(self):
        self.refused("sdk/probe", "foreshock_component(sdk/probe SOURCES x.cc PUBLIC_DEPS base/logging)",
                     "sdk/probe may not use base/logging")

    def test_detection_stays_pure(self):
        self.refused("server/detect", "foreshock_component(server/detect SOURCES x.cc DEPS base/file)",
                     "server/detect may not use base/file")

    def test_base_uses_nobody(self):
        self.refused("base/queue", "foreshock_component(base/queue SOURCES x.cc DEPS proto/wire)",
                     "base/queue may not use proto/wire")

    def test_agent_and_server_do_not_meet(self):
        self.refused("agent/app", "foreshock_component(agent/app SOURCES x.cc DEPS server/store)",
                     "agent/app may not use server/store")


if __name__ == "__main__":
    unittest.main(verbosity=2)
