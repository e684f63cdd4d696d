"""Clients that mean harm, against a real server and a real agent, with a good trainer beside them.

Each attack is refused with a counter that says so; the good run arrives whole, and memory stays bounded.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import unittest

import harness
from harness import until

HOSTILE = harness.BIN / "fs_tests_hostile"
SANITIZED = harness.BUILD.name.split("-")[-1] in ("asan", "tsan")
SERVER_MEMORY_MIB = 600  # two messages of 16 MiB a stream being decoded, the queue of 128 MiB, the store's buffers


class Hostile(harness.Case):
    def setUp(self):
        super().setUp()
        self.tokens = self.folder / "tokens"
        self.good, self.evil = self.token("good", "good/"), self.token("evil", "evil/")
        self.reader = self.token("reader", "", "read")
        config = self.folder / "server.yaml"
        config.write_text("max_new_runs_per_hour: 200\nmax_streams_per_identity: 100\nmax_connections: 512\n")
        self.daemon = self.server("server", None, "--tokens", self.tokens, "--config", config)
        self.node = self.agent(self.daemon.grpc, "agent", "--token-file", self.folder / "good.token",
                               "--max-connections-per-user", "40")
        self.load = self.start("load", [harness.BIN / "fs_tests_load", self.node.address, "run=good/load", "ranks=4", "layers=8",
                                        "rate=20"])
        until(lambda: self.last_step() > 3, "the good run's first steps")

    def token(self, name, prefix, scope="write"):
        made = self.cli("token", "create", name, "--tokens", self.tokens, "--scope", scope,
                        *(("--runs", prefix) if prefix else ()), "--json")
        (self.folder / f"{name}.token").write_text(made["token"] + "\n")
        return made["token"]

    def ask(self, path):
        request = harness.urllib.request.Request(f"http://{self.daemon.http}{path}",
                                                 headers={"Authorization": f"Bearer {self.reader}"})
        with harness.urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as reply:
            return reply.read().decode()

    def good_run(self):
        runs = json.loads(self.ask("/api/v1/runs?prefix=good/load"))["runs"]
        return runs[0] if runs else {"last_step": -1, "state": ""}

    def last_step(self):
        return self.good_run()["last_step"]

    def counter(self, name):
        found = re.search(rf"^foreshock_{name}(?:_total)? (\S+)$", self.ask("/metrics"), re.M)
        self.assertIsNotNone(found, name)
        return float(found.group(1))

    def status(self):
        return json.loads(self.node.status.read_text())

    def attack(self, mode, address, count, token=None):
        argv = [HOSTILE, mode, address, count, self.evil if token is None else token]
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, f"{mode}: {done.stderr[-1000:]}")
        return json.loads(done.stdout)

    def hold(self, mode, address, count):
        """The same for attacks that last; ended by its standard input."""
        argv = [HOSTILE, mode, address, count, self.evil]
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "held\n", mode)
        return process

    def good_goes_on(self):
        step = self.last_step()
        until(lambda: self.last_step() > step + 5, f"the good run to go on from step {step}")

    def good_is_whole(self):
        self.load.signal(15)
        self.assertEqual(self.load.wait(), 0, self.load.err())
        until(lambda: self.good_run()["state"] == "finished", lambda: f"the end: {self.good_run()['state']}")
        sources = {s.get("rank", 0): s for s in self.good_run()["attempts"][-1]["sources"]}
        for line in self.load.out().splitlines():
            rank = json.loads(line)
            source = sources[rank["rank"]]
            self.assertEqual((source["frames"], source["dropped"], source["quarantined"]), (rank["published"], 0, 0), line)
        if not SANITIZED:
            status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) // 1024
            print(f"server's peak memory {peak} MiB", flush=True)
            self.assertLess(peak, SERVER_MEMORY_MIB)

    def test_the_server(self):
        server = self.daemon.grpc
        for mode, count, why in (("giant", 5, "larger than max"), ("fat", 3, "layers"), ("rehello", 20, "second")):
            outcome = self.attack(mode, server, count)
            self.assertEqual(outcome["refused"], count, (mode, outcome))
            self.assertIn(why, outcome["reason"], mode)
            self.good_goes_on()
        self.attack("garbage", server, 50)
        until(lambda: self.counter("ingest_unreadable") > 0, "bytes that are no record to be counted")
        self.attack("deaf", server, 20000)
        self.good_goes_on()
        names = self.attack("names", server, 2000)
        self.assertGreaterEqual(names["refused"], 1800, names)
        self.assertIn("max_new_runs_per_hour", names["reason"])
        self.assertGreaterEqual(self.counter("ingest_refused_runs"), 1800)
        utf8 = self.attack("utf8", server, 50)
        self.assertEqual(utf8["refused"], 50, utf8)
        self.assertGreaterEqual(self.counter("ingest_refused_hellos"), 1870)
        foreign = self.attack("names", server, 20, self.good)
        self.assertEqual(foreign["refused"], 20, "a good token does not open other teams' runs")
        self.assertGreaterEqual(self.counter("auth_not_allowed"), 20)
        self.attack("names", server, 20, "fs_nobody")
        self.assertGreaterEqual(self.counter("auth_unknown_token"), 20)
        self.good_goes_on()
        self.good_is_whole()

    def test_the_server_flooded_with_connections_and_silent_streams(self):
        silent = self.hold("silent", self.daemon.grpc, 150)
        until(lambda: self.counter("ingest_refused_streams") >= 50, "streams above max_streams_per_identity to be refused")
        flood = self.hold("tcp", self.daemon.grpc, 400)
        pages = self.hold("tcp", self.daemon.http, 60)
        self.good_goes_on()
        until(lambda: self.counter("http_refused_connections") > 0, "HTTP connections of one address to be refused")
        until(lambda: self.counter("ingest_late_hellos") >= 90, "streams without a Hello to be closed")
        self.good_goes_on()
        for process in (silent, flood, pages):
            process.stdin.close()
            process.wait()
        self.good_is_whole()

    def test_the_server_full_of_idle_connections(self):
        """Thousands that say nothing, or their first words of HTTP/2 alone: no handle is left to one host alone."""
        before = self.descriptors()
        held = [self.hold(mode, self.daemon.grpc, 3000) for mode in ("tcp", "idle")] + [self.hold("tcp", self.daemon.http, 2000)]
        # Of 6,000 some may never leave the kernel's queue, which drops what is too much for it (2,908 and 4,550 seen on a busy machine).
        until(lambda: self.counter("grpc_refused_connections") >= 2000,
              lambda: f"connections of one host to be refused: {self.counter('grpc_refused_connections')}")
        until(lambda: self.descriptors() - before < 512 + 50, lambda: f"descriptors: {self.descriptors()}, before {before}")
        print(f"8,000 connections of one host, {self.descriptors() - before} more descriptors open", flush=True)
        # Who is connected goes on, and who comes is let in.
        self.good_goes_on()
        late = self.agent(self.daemon.grpc, "late", "--token-file", self.folder / "good.token")
        load = self.start("late load", [harness.BIN / "fs_tests_load", late.address, "run=good/late", "steps=20", "rate=50"])
        self.assertEqual(load.wait(), 0, load.err())
        until(lambda: '"good/late"' in self.ask("/api/v1/runs?prefix=good/late"), "the run of an agent that came later")
        self.good_goes_on()
        self.cli("runs", "--token-file", self.folder / "reader.token", server=self.daemon.grpc)
        self.refusals_are_told()
        for process in held:
            process.stdin.close()
            process.wait()
        self.good_is_whole()

    def refusals_are_told(self):
        """To who is refused, this host now, and in the log: a line at once, not one for each of thousands."""
        before = self.counter("grpc_refused_connections")
        host, port = self.daemon.grpc.rsplit(":", 1)
        own = [socket.create_connection((host, int(port))) for _ in range(600)]
        until(lambda: self.counter("grpc_refused_connections") > before, "this host to be refused, too")
        said = self.cli("runs", "--token-file", self.folder / "reader.token", server=self.daemon.grpc, status=1)
        self.assertIn("max_connections", said)
        self.assertNotIn("foreshock up", said, "advice for a server that is not there")
        for one in own:
            one.close()
        self.good_goes_on()
        lines = [line for line in self.daemon.err().splitlines() if "gRPC connections refused" in line]
        self.assertTrue(lines and "max_connections" in lines[0] and "most_of=127." in lines[0], lines)
        self.assertLess(len(lines), 20)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def test_the_agent(self):
        agent = self.node.address
        for mode, count in (("utf8", 20), ("giant", 20), ("rehello", 20)):
            outcome = self.attack(mode, agent, count)
            self.assertEqual(outcome["refused"], count, (mode, outcome))
        self.attack("garbage", agent, 20)
        until(lambda: self.status()["receive"]["damaged"] >= 20, lambda: f"damage to be counted: {self.status()}")
        until(lambda: self.status()["receive"]["refused"] >= 40, lambda: f"bad Hellos to be counted: {self.status()}")
        before = self.status()["receive"]["refused"]
        held = self.hold("silent", agent, 100)
        until(lambda: self.status()["receive"]["refused"] >= before + 60, "connections above the user's limit to be refused")
        self.good_goes_on()
        held.stdin.close()
        held.wait()
        self.attack("deaf", agent, 5000)
        self.good_goes_on()
        self.good_is_whole()


if __name__ == "__main__":
    harness.main()
