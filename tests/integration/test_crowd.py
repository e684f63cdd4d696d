"""64 trainers on one agent, and one that sends thousands of steps a second for a moment: every frame arrives once or is counted."""

import json

import harness
from harness import until


class Crowd(harness.Case):
    def load(self, name, agent, **options):
        words = [f"{key}={value}" for key, value in options.items()]
        return self.start(name, [harness.BIN / "fs_tests_load", agent.address, f"run={name}", "layers=1", "ranks=1", *words])

    def check(self, server, load):
        """Holds one trainer's own record against the server's; frames published and dropped."""
        self.assertEqual(load.wait(600), 0, load.err())
        rank = json.loads(load.out())
        lost = rank["queue_dropped"] + rank["window_dropped"]
        run = self.await_end(server, load.name)
        source = run["attempts"][-1]["sources"][0]
        kept = rank["published"] - lost
        self.assertEqual((source["frames"], source["dropped"], source.get("gaps", 0), source["quarantined"]), (kept, lost, 0, 0),
                         f"{load.name}: {rank}")
        self.assertEqual(rank["acknowledged"], rank["published"] + 1, rank)
        steps = [step for step, _ in self.losses(server, load.name, rank=0, max_points=10_000_000)]
        self.assertEqual(len(steps), kept)
        self.assertEqual(steps, sorted(set(steps)))
        return rank["published"], lost

    def test_64_processes(self):
        server = self.server()
        agent = self.agent(server.grpc)
        loads = [self.load(f"load{i:02}", agent, steps=150, rate=50) for i in range(64)]
        until(lambda: json.loads(agent.status.read_text())["receive"]["connections"] >= 64 or not all(l.running() for l in loads),
              "64 trainers on the agent")
        sums = [self.check(server, load) for load in loads]
        print(f"{sum(p for p, _ in sums)} frames of 64 processes, {sum(d for _, d in sums)} dropped and declared")
        self.assertEqual(json.loads(agent.status.read_text())["receive"]["refused"], 0)

    def test_a_burst(self):
        server = self.server()
        agent = self.agent(server.grpc)
        published, dropped = self.check(server, self.load("burst", agent, steps=20_000, rate=5_000))
        print(f"{published} frames at up to 5,000 a second, {dropped} dropped and declared")
        self.assertEqual(published, 20_000)
        self.assertLess(dropped, published)


if __name__ == "__main__":
    harness.main()
