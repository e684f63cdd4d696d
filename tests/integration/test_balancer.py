"""Agents, a real balancer (HAProxy), servers: a run stays with its server, and quiet connections do not tear."""

import json
import pathlib
import shutil
import socket
import unittest

import harness
from harness import SOURCE, until

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
DROPS_AFTER_S = 8  # a connection on which nothing comes, where the balancer is told to
QUIET_S = 18


def libraries():
    """Where those of an unpacked package lie (scripts/lib.sh)."""
    return ":".join(str(p) for p in pathlib.Path(HAPROXY).resolve().parents[1].glob("lib/*-linux-gnu"))


@unittest.skipIf(HAPROXY is None, "FORESHOCK_SKIPPED: haproxy is not installed")
@unittest.skipIf(shutil.which("openssl") is None, "FORESHOCK_SKIPPED: openssl is not installed")
class Balancer(harness.Case):
    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.certificates("IP:127.0.0.1")
        (self.folder / "balancer.pem").write_text("".join((self.folder / f"server.{end}").read_text() for end in ("pem", "key")))
        (self.folder / "server.yaml").write_text("http_tls: false\n")
        self.tls = ("--tls-ca", self.folder / "ca.pem")

    def tls_server(self, name, **where):
        flags = ("--tls-cert", self.folder / "server.pem", "--tls-key", self.folder / "server.key", "--config",
                 self.folder / "server.yaml")
        return self.server(name, None, *flags, **where)

    def balance(self, config):
        path = self.folder / "haproxy.cfg"
        path.write_text(config)
        self.haproxy = self.start("haproxy", [HAPROXY, "-db", "-f", path], env={"LD_LIBRARY_PATH": libraries()})

        def listens():
            self.assertTrue(self.haproxy.running(), self.haproxy.err() + self.haproxy.out())
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0

        until(listens, "haproxy to listen")

    def by_connection(self, server, timeout="1h"):
        """One server behind it; bytes pass as they are."""
        self.balance(f"defaults\n mode tcp\n timeout connect 2s\n timeout client {timeout}\n timeout server {timeout}\n"
                     f"listen all\n bind {self.address}\n server one {server.grpc}\n")

    def by_run(self, servers, timeout="1d"):
        """deploy/balancer/haproxy.cfg as it is, but for addresses, files and how long a stream may be quiet."""
        text = (SOURCE / "deploy" / "balancer" / "haproxy.cfg").read_text()
        for old, new in (("bind :7443", f"bind {self.address}"), ("/etc/haproxy/foreshock.pem", self.folder / "balancer.pem"),
                         ("/etc/haproxy/foreshock-ca.pem", self.folder / "ca.pem"), ("a.example:7071", servers[0].grpc),
                         ("b.example:7071", servers[1].grpc), ("timeout client 1d", f"timeout client {timeout}"),
                         ("timeout server 1d", f"timeout server {timeout}")):
            self.assertIn(old, text)
            text = text.replace(old, str(new))
        self.balance(text)

    def load(self, agent, run, name, **options):
        words = [f"{k}={v}" for k, v in {"ranks": 2, "layers": 2, "rate": 50, **options}.items()]
        return self.start(name, [harness.BIN / "fs_tests_load", agent.address, f"run={run}", *words])

    def whole(self, process, server, run):
        """Every frame that was published is on the server, once."""
        self.assertEqual(process.wait(), 0, process.err())
        sources = {s.get("rank", 0): s for s in self.await_end(server, run)["attempts"][-1]["sources"]}
        for line in process.out().splitlines():
            rank = json.loads(line)
            source = sources[rank["rank"]]
            self.assertEqual((source["frames"], source["dropped"]), (rank["published"], 0), line)

    def last_step(self, server, run):
        return (self.run_of(server, run) or {"last_step": -1})["last_step"]

    def forward(self, agent):
        return json.loads(agent.status.read_text())["forward"]

    def test_one_server_behind_it(self):
        server = self.server()
        self.by_connection(server)
        agent = self.agent(self.address)
        load = self.load(agent, "gpt", "load", steps=400)
        until(lambda: self.last_step(server, "gpt") > 50, "the run to begin")
        self.haproxy.kill9()
        self.by_connection(server)
        step = self.last_step(server, "gpt")
        until(lambda: self.last_step(server, "gpt") > step + 50, "the run to go on through another balancer")
        server.kill9()
        server = self.server(grpc=server.grpc, http=server.http)
        self.whole(load, server, "gpt")

    def test_a_run_stays_with_its_server(self):
        one, two = self.tls_server("one"), self.tls_server("two")
        self.by_run((one, two))
        agents = [self.agent(self.address, f"agent{i}", *self.tls) for i in range(2)]
        homes = {}
        for i in range(60):
            if i >= 4 and len({id(s) for s in homes.values()}) == 2:
                break
            run = f"team {i % 3}/gpt-{i}"  # what a header cannot carry as it is
            for j, agent in enumerate(agents):
                self.load(agent, run, f"{i}-{j}", steps=10).wait()
            home = until(lambda: [s for s in (one, two) if self.has(s, run)], f"{run} somewhere")
            self.assertEqual(len(home), 1, run)
            self.assertEqual(len(self.run_of(home[0], run)["attempts"]), 1)
            homes[run] = home[0]
        self.assertEqual({id(s) for s in homes.values()}, {id(one), id(two)}, "of 60 runs one server got none")
        # One away: its runs wait for it, the other's go on.
        here, there = next(r for r in homes if homes[r] is one), next(r for r in homes if homes[r] is two)
        two.kill9()
        going, waiting = self.load(agents[0], here, "going", steps=100), self.load(agents[0], there, "waiting", steps=100)
        until(lambda: self.last_step(one, here) > 50, "the run of the server that lives")
        self.assertFalse(self.has(one, there), "a run whose server is away went to another")
        again = self.tls_server("two", grpc=two.grpc, http=two.http)
        for process, server, run in ((going, one, here), (waiting, again, there)):
            self.assertEqual(process.wait(), 0, process.err())
            until(lambda: self.last_step(server, run) >= 99, f"{run} to its last step")
        self.assertFalse(self.has(one, there))

    def has(self, server, run):
        return self.run_of(server, run) is not None

    def test_quiet_connections(self):
        """A balancer that drops what is quiet: pings more often than that keep it; without them it is made anew."""
        server = self.server()
        self.by_connection(server, f"{DROPS_AFTER_S}s")
        pinging = self.agent(self.address, "pinging", "--keepalive-s", "5")
        silent = self.agent(self.address, "silent", "--keepalive-s", "3600")
        loads = {name: self.load(agent, name, f"load-{name}", steps=2, rate=1 / QUIET_S)
                 for name, agent in (("pinging", pinging), ("silent", silent))}
        until(lambda: self.last_step(server, "pinging") >= 1, "the step after a quiet time")
        kept, torn = self.forward(pinging), self.forward(silent)
        print(f"opened, broken: with pings {kept['opened']}, {kept['failures']}; without {torn['opened']}, {torn['failures']}",
              flush=True)
        self.assertEqual((kept["opened"], kept["failures"]), (2, 0), "one stream a rank, none told to go away")
        self.assertGreater(torn["opened"], 2, "nothing was dropped: the balancer is no test of pings")
        for run, process in loads.items():
            self.whole(process, server, run)

    def test_quiet_streams(self):
        """Pings end at a balancer that reads HTTP/2: what it drops are streams, and they are made anew."""
        one, two = self.tls_server("one"), self.tls_server("two")
        self.by_run((one, two), f"{DROPS_AFTER_S}s")
        agent = self.agent(self.address, "agent", "--keepalive-s", "5", *self.tls)
        load = self.load(agent, "gpt", "load", steps=2, rate=1 / QUIET_S)
        home = until(lambda: next((s for s in (one, two) if self.last_step(s, "gpt") >= 1), None), "the step after a quiet time")
        self.assertGreater(self.forward(agent)["opened"], 2)
        self.whole(load, home, "gpt")


if __name__ == "__main__":
    harness.main()
