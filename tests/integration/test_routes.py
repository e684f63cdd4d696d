"""Ways to the server other than one agent and one server: several servers by run, and an agent behind an agent."""

import json
import unittest

import harness
from harness import until


class Routes(harness.Case):
    def load(self, address, run, name, **options):
        words = [f"{k}={v}" for k, v in {"ranks": 2, "layers": 2, "rate": 50, **options}.items()]
        return self.start(name, [harness.BIN / "fs_tests_load", address, f"run={run}", *words])

    def ended(self, process, server, run):
        """Every frame of the run is on the server, once."""
        self.assertEqual(process.wait(), 0, process.err())
        found = self.await_end(server, run)
        sources = {s.get("rank", 0): s for s in found["attempts"][-1]["sources"]}
        for line in process.out().splitlines():
            rank = json.loads(line)
            source = sources[rank["rank"]]
            self.assertEqual((source["frames"], source["dropped"]), (rank["published"], 0), line)

    def status(self, agent):
        return json.loads(agent.status.read_text())

    def test_several_servers_each_with_its_runs(self):
        one, two = self.server("one"), self.server("two")
        first = self.agent(f"{one.grpc},{two.grpc}", "first")
        second = self.agent(f"{two.grpc},{one.grpc}", "second")
        # Processes of a run reach the same server by whatever agent they come. Names until both servers have one.
        homes = {}
        for i in range(60):
            run = f"run-{i}"
            if i >= 4 and len({id(s) for s in homes.values()}) == 2:
                break
            self.load((first if i % 2 else second).address, run, f"a-{run}", steps=10).wait()
            self.load((second if i % 2 else first).address, run, f"b-{run}", steps=10).wait()
            home = until(lambda: [s for s in (one, two) if self.run_of(s, run)], f"{run} somewhere")
            self.assertEqual(len(home), 1, run)
            homes[run] = home[0]
            self.assertEqual(len(self.run_of(home[0], run)["attempts"]), 1)
        self.assertEqual({id(s) for s in homes.values()}, {id(one), id(two)}, "of 60 runs one server got none")
        # One server away: the other's runs go on, the agent says which is away, and nothing is lost.
        here = next(r for r in homes if homes[r] is one), next(r for r in homes if homes[r] is two)
        two.kill9()
        going = self.load(first.address, here[0], "going", steps=100)
        waiting = self.load(first.address, here[1], "waiting", steps=100)
        until(lambda: (self.run_of(one, here[0]) or {"last_step": -1})["last_step"] > 50, "the run of the server that lives")
        until(lambda: two.grpc in self.status(first)["health"], lambda: f"the agent to say so: {self.status(first)['health']}")
        again = self.server("two", None, grpc=two.grpc, http=two.http)
        for process, server, run in ((going, one, here[0]), (waiting, again, here[1])):
            self.assertEqual(process.wait(), 0)
            until(lambda: (self.run_of(server, run) or {"last_step": -1})["last_step"] >= 99, f"{run} to its last step")
        until(lambda: self.status(first)["health"] == "ok", "all well again")

    def relay(self, server):
        relay = self.agent(server, "relay", "--listen-grpc", "127.0.0.1:0")
        relay.grpc = f"127.0.0.1:{self.status(relay)['relay']['port']}"
        return relay

    def test_an_agent_behind_an_agent(self):
        server = self.server()
        relay = self.relay(server.grpc)
        fronts = [self.agent(relay.grpc, f"front{i}") for i in range(3)]
        loads = [self.load(front.address, f"run-{i}", f"load{i}", steps=100) for i, front in enumerate(fronts)]
        for i, process in enumerate(loads):
            self.ended(process, server, f"run-{i}")
        self.assertEqual(self.status(relay)["receive"]["records"], 0)
        until(lambda: self.status(relay)["relay"]["records"] >= 600, "the relay's count")

    def test_relay_and_server_killed(self):
        server = self.server()
        relay = self.agent(server.grpc, "relay", "--listen-grpc", f"127.0.0.1:{(port := harness.free_port())}")
        front = self.agent(f"127.0.0.1:{port}", "front")
        process = self.load(front.address, "gpt", "load", steps=300)
        until(lambda: (self.run_of(server, "gpt") or {"last_step": -1})["last_step"] > 50, "the run to begin")
        relay.kill9()
        server.kill9()
        self.agent(server.grpc, "relay", "--listen-grpc", f"127.0.0.1:{port}")
        again = self.server(grpc=server.grpc, http=server.http)
        self.ended(process, again, "gpt")

    def test_actions_go_through_a_relay(self):
        server = self.server()
        relay = self.relay(server.grpc)
        front = self.agent(relay.grpc, "front")
        trainer = self.trainer("--foreshock", front.address, "--run", "gpt", "--steps", 100000, "--quiet")
        until(lambda: (self.run_of(server, "gpt") or {"last_step": -1})["last_step"] >= 40, "step 40")
        self.cli("act", "gpt", "stop", "--wait", 60, server=server.grpc)
        self.assertEqual(trainer.wait(), 0, trainer.err())


if __name__ == "__main__":
    harness.main()
