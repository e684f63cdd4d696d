"""Kills agent and server again and again under load, seeded, and counts.

Ranks send known numbers through the SDK at a known pace (tests/load). At random moments the agent, the server, or both
get SIGKILL and are started again after a random while. At the end every rank's record of what it published and dropped
is held against what the server has: each frame once or declared dropped, none twice, none changed.

usage: soak_agent.py [--agent N] [--server N] [--both N] [--seed N] [--ranks N] [--layers N] [--rate N]
"""

import argparse
import json
import random
import sys
import time

import harness
import recording
from harness import until

RUN = "load"
WINDOW_BYTES = 2 << 20  # about two seconds at full size: longer absences of the agent cost frames, and must be counted


class Soak:
    """One soak on a harness.Case. `check` fails the case with what is wrong."""

    def __init__(self, case, seed, kills, ranks=8, layers=96, rate=20.0, server_flags=()):
        self.case, self.seed, self.kills = case, seed, kills
        self.ranks, self.layers, self.rate = ranks, layers, rate
        self.server_flags = server_flags
        self.random = random.Random(seed)
        self.server = self.agent = self.load = None
        self.killed = {"agent": 0, "server": 0, "both": 0}

    def run(self):
        case = self.case
        self.server = case.server("server", None, *self.server_flags)
        self.agent = case.agent(self.server.grpc)
        binary = harness.BIN / "fs_tests_load"
        self.load = case.start("load", [binary, self.agent.address, f"run={RUN}", f"ranks={self.ranks}",
                                        f"layers={self.layers}", f"rate={self.rate}", f"window={WINDOW_BYTES}"])
        until(lambda: case.run_of(self.server, RUN), "the first frames on the server")
        for what in self.plan():
            time.sleep(self.random.uniform(0.1, 1.5))
            self.kill(what)
        time.sleep(1)
        case.assertTrue(self.load.running(), self.load.err())
        self.load.signal(15)
        case.assertEqual(self.load.wait(600), 0, self.load.err())
        return [json.loads(line) for line in self.load.out().splitlines()]

    def plan(self):
        plan = [what for what, times in self.kills.items() for _ in range(times)]
        self.random.shuffle(plan)
        return plan

    def kill(self, what):
        for process in {"agent": (self.agent,), "server": (self.server,), "both": (self.agent, self.server)}[what]:
            process.kill9()
        self.killed[what] += 1
        # Now and then for longer than the SDK's window lasts.
        time.sleep(self.random.choice((0, 0.05, 0.3, 1, 4)))
        if what != "agent":
            old = self.server
            self.server = self.case.server("server", None, *self.server_flags, grpc=old.grpc, http=old.http)
        if what != "server":
            self.agent = self.case.agent(self.server.grpc)

    def check(self, ranks):
        """Holds the ranks' own records against the server; a line of figures."""
        case = self.case
        case.assertEqual(len(ranks), self.ranks, self.load.err())
        run = self.await_end()
        sources = {s.get("rank", 0): s for s in run["attempts"][-1]["sources"]}
        case.assertEqual(len(run["attempts"]), 1)
        published = stored = dropped = 0
        for rank in ranks:
            source = sources[rank["rank"]]
            points = case.losses(self.server, RUN, rank=rank["rank"], max_points=10_000_000)
            steps = [step for step, _ in points]
            case.assertEqual(steps, sorted(set(steps)), f"rank {rank['rank']}: a step twice or out of order")
            wrong = [(s, v) for s, v in points
                     if recording.bits(v) != recording.bits(recording.load_value(rank["rank"], s, 0))]
            case.assertEqual(wrong[:3], [], f"rank {rank['rank']}: values changed")
            lost = rank["queue_dropped"] + rank["window_dropped"]
            kept = rank["published"] - lost
            case.assertEqual((len(points), source["frames"], source["dropped"], source["quarantined"]),
                             (kept, kept, lost, 0), f"points, frames, dropped, quarantined of {rank}")
            # Every frame is one record, and the Goodbye is one more.
            case.assertEqual(rank["acknowledged"], rank["published"] + 1, f"not all acknowledged: {rank}")
            self.check_step(rank["rank"], self.random.choice(steps))
            published, stored, dropped = published + rank["published"], stored + len(points), dropped + lost
        # All is checked: nothing is gained by letting rules and sealer catch up with what the soak left.
        self.server.kill9()
        return (f"seed {self.seed}: kills {self.killed}, {published} frames published, {stored} stored once each, "
                f"{dropped} dropped before acknowledgement and declared, 0 lost, 0 twice")

    def await_end(self):
        """The finished run. What the spool gathered may take long to arrive: waits as long as something does."""
        arrived, since = -1, time.monotonic()
        while True:
            run = self.case.run_of(self.server, RUN)
            if run["state"] == "finished":
                return run
            now = sum(s["durable_seq"] for s in run["attempts"][-1]["sources"])
            if now > arrived:
                arrived, since = now, time.monotonic()
            self.case.assertLess(time.monotonic() - since, harness.DEADLINE_S, f"nothing arrives any more: {run}")
            time.sleep(0.2)

    def check_step(self, rank, step):
        """Every value of one step of one rank."""
        place = 0
        names = ("wq_sigma1", "wk_sigma1", "wq_sigma2", "qk_sigma1")
        answer = self.case.get(self.server, f"/api/v1/runs/{RUN}/step/{step}", exact="true", rank=rank,
                               signal=names)
        rows = {(s["signal"], s.get("layer", 0)): s for s in answer["frame"]["series"]}
        for name in names:
            for layer in range(self.layers):
                values = rows[(name, layer)]["values"]
                wanted = [recording.bits(recording.load_value(rank, step, place + h)) for h in range(32)]
                got = [recording.bits(v["value"] if isinstance(v, dict) else v) for v in values]
                self.case.assertEqual(got, wanted, f"rank {rank} step {step} {name} layer {layer}")
                place += 32


def main():
    parser = argparse.ArgumentParser(description="Kills agent and server under load and counts.")
    for what in ("agent", "server", "both"):
        parser.add_argument(f"--{what}", type=int, default=20, help=f"kills of {what} (20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--layers", type=int, default=96, help="of 32 heads with four values each (96: 12,288 values)")
    parser.add_argument("--rate", type=float, default=20, help="steps a second (20)")
    options = parser.parse_args()

    class Once(harness.Case):
        def runTest(self):
            soak = Soak(self, options.seed, {w: getattr(options, w) for w in ("agent", "server", "both")},
                        options.ranks, options.layers, options.rate)
            print(f"seed {options.seed}", flush=True)
            started = time.monotonic()
            print(soak.check(soak.run()), f"{time.monotonic() - started:.0f} s", flush=True)

    result = harness.unittest.TextTestRunner(verbosity=2).run(Once())
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
