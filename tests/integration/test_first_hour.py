"""What goes wrong in a newcomer's first hour: each error ends in what to do about it."""

import os
import pathlib
import shutil
import socket
import subprocess
import unittest

import harness
from harness import BIN, SOURCE

ANY = "127.0.0.1:0"
NOBODY = 65534


class FirstHour(harness.Case):
    def taken(self):
        """HOST:PORT on which something listens that never answers."""
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        self.addCleanup(holder.close)
        return f"127.0.0.1:{holder.getsockname()[1]}"

    def said(self, program, *flags, status, prefix=()):
        argv = [*prefix, BIN / program, *flags]
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False,
                              env=self.environment(), cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{argv}: {done.stdout}{done.stderr}")
        return done.stderr

    def somebody_else(self):
        """How to run a program as a user who may not enter `self.folder / "private"`."""
        private = self.folder / "private"
        private.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chmod(self.folder, 0o755)
            if shutil.which("setpriv") is None or not all(os.stat(p).st_mode & 0o005 == 5 for p in pathlib.Path(BIN).parents):
                self.skipTest("no other user can run the programs here")
            return private, NOBODY, ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        private.chmod(0)
        self.addCleanup(private.chmod, 0o700)
        return private, os.geteuid(), ()

    def test_a_port_that_is_taken(self):
        address = self.taken()
        for flags in (("--http", address, "--grpc", ANY), ("--grpc", address, "--http", ANY)):
            said = self.said("foreshockd", "--data", self.folder / "data", *flags, status=1)
            for word in (address, "taken", "ss -ltnp", "port 0"):
                self.assertIn(word, said)
        said = self.said("foreshock", "up", "--data", self.folder / "up", "--http", address, "--grpc", ANY, status=3)
        self.assertIn(f"{address} cannot be listened on", said)

    def test_a_second_server_on_the_same_folder(self):
        self.server(data=self.folder / "data")
        said = self.said("foreshockd", "--data", self.folder / "data", "--http", ANY, "--grpc", ANY, status=1)
        self.assertIn("in use by another server", said)

    def test_no_permission(self):
        private, uid, prefix = self.somebody_else()
        server = self.said("foreshockd", "--data", private / "data", "--http", ANY, "--grpc", ANY, status=1, prefix=prefix)
        up = self.said("foreshock", "up", "--data", private / "data", status=2, prefix=prefix)
        agent = self.said("foreshock-agent", "--socket", private / "agent.sock", "--spool", private / "spool", "--server", ANY,
                          status=1, prefix=prefix)
        for said in (server, up, agent):
            for word in (str(private), "denied", f"uid {uid}", "name another place"):
                self.assertIn(word, said)
        trainer = self.trainer("--foreshock", f"unix:{private}/agent.sock", "--run", "r", "--steps", 2, "--quiet", prefix=prefix)
        self.assertEqual(trainer.wait(), 0, "no permission stops no training")
        for word in (f"uid {uid}", "group of the socket"):
            self.assertIn(word, trainer.err())

    def test_a_wrong_address(self):
        nobody = f"127.0.0.1:{harness.free_port()}"
        self.assertIn("foreshock up", self.said("foreshock", "runs", "--server", nobody, status=3))
        said = self.said("foreshock", "runs", "--server", self.server().http, status=3)
        self.assertIn("the web page has a port of its own", said)
        self.assertIn("FORESHOCK_SERVER", said)
        self.assertIn("leave out", self.said("foreshock", "runs", "--server", "http://127.0.0.1:7071", status=2))
        self.assertIn("no port", self.said("foreshock", "runs", "--server", "127.0.0.1", status=2))
        self.assertIn("foreshock COMMAND --option", self.said("foreshock", "--server", nobody, "runs", status=2))
        trainer = self.trainer("--foreshock", nobody, "--run", "r", "--steps", 2, "--quiet")
        self.assertEqual(trainer.wait(), 0, "a wrong address stops no training")
        self.assertIn("must be unix:PATH, file:PATH", trainer.err())

    def test_a_package_that_is_missing_or_too_old(self):
        """As the configure step meets it: cmake/Dependencies.cmake asks for every package by this function."""
        if shutil.which("cmake") is None or shutil.which("ninja") is None:
            self.skipTest("cmake or ninja is not installed")

        def configured(lines):
            (self.folder / "CMakeLists.txt").write_text(
                f"cmake_minimum_required(VERSION 3.20)\nproject(p NONE)\ninclude({SOURCE}/cmake/Need.cmake)\n{lines}\n")
            build = self.folder / "b"
            shutil.rmtree(build, ignore_errors=True)
            return subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", build], capture_output=True, text=True,
                                  check=False)

        (self.folder / "FindOldThing.cmake").write_text("set(OldThing_FOUND TRUE)\nset(OldThing_VERSION 3.12.4)\n")
        (self.folder / "FindCapital.cmake").write_text("set(Capital_FOUND TRUE)\nset(CAPITAL_VERSION 3.0.1)\n")
        here = f"list(APPEND CMAKE_MODULE_PATH {self.folder})\n"
        fine = configured(here + "foreshock_need(OldThing old-dev VERSION 3.12)\nforeshock_need(Capital c-dev VERSION 3)")
        self.assertEqual(fine.returncode, 0, fine.stderr)
        old = configured(here + "foreshock_need(OldThing old-dev VERSION 3.21)")
        self.assertNotEqual(old.returncode, 0)
        self.assertNotEqual(configured(here + "foreshock_need(Capital c-dev VERSION 3.1)").returncode, 0)
        missing = configured("foreshock_need(NoSuchThing no-such-dev)")
        self.assertNotEqual(missing.returncode, 0)
        for said, words in ((old.stderr, ("OldThing 3.12.4 is too old", "3.21", "old-dev", "Debian 12")),
                            (missing.stderr, ("NoSuchThing is missing", "apt install no-such-dev"))):
            for word in words:
                self.assertIn(word, " ".join(said.split()))


if __name__ == "__main__":
    harness.main()
