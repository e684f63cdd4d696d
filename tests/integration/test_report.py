"""The HTML page about runs: whole, self-contained, and about the runs that were asked for."""

import os
import re
import shutil
import struct
import unittest

import harness

CHROMIUM = os.environ.get("FORESHOCK_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Report(harness.Case):
    def test_one_page_about_two_runs_loads_nothing(self):
        server = self.server()
        agent = self.agent(server.grpc)
        for run in ("first", "second"):
            self.train(agent.address, run, 40, name=run)
            self.await_end(server, run)
        page = self.folder / "both.html"
        self.cli("report", "first", "second", "-o", page, server=server.grpc)
        html = page.read_text()
        self.assertIn("</html>", html.lower())
        self.assertIn("first", html)
        self.assertIn("second", html)
        # Nothing is fetched: no script, style, font or picture by address.
        loads = re.findall(r'(?:src|href)\s*=\s*["\'](?!data:|#)([^"\']+)', html)
        self.assertEqual([u for u in loads if not u.startswith(("http://", "https://")) or "<script src" in html], [])
        self.assertEqual(re.findall(r'<(?:script|img|iframe)[^>]*\ssrc\s*=', html), [])
        self.assertEqual(re.findall(r'<link[^>]*stylesheet', html), [])
        self.assertEqual(re.findall(r'@import|url\(\s*["\']?https?:', html), [])

    def test_a_picture_of_the_page(self):
        server = self.server()
        agent = self.agent(server.grpc)
        self.train(agent.address, "drawn", 40, name="drawn")
        self.await_end(server, "drawn")
        png = self.folder / "drawn.png"
        if not CHROMIUM:
            self.cli("report", "drawn", "--png", png, server=server.grpc, status=1)
            return
        self.cli("report", "drawn", "--png", png, server=server.grpc)
        data = png.read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        self.assertEqual(width, 1280)
        self.assertGreater(height, 1000, "the whole page, not one screen of it")
        self.assertFalse((self.folder / "drawn.html").exists())

    def test_an_unknown_run_leaves_no_file(self):
        server = self.server()
        page = self.folder / "none.html"
        self.cli("report", "nobody", "-o", page, server=server.grpc, status=1)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("none")], [])


if __name__ == "__main__":
    harness.main()
