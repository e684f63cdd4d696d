"""A run moves from one server to another, as docs/operations.md tells it: bit for bit, with its alerts, while it goes on."""

import json
import unittest

import harness
from harness import until

RANKS = 8


class Move(harness.Case):
    def load(self, address, run, steps, name="load"):
        words = [f"run={run}", f"ranks={RANKS}", "layers=2", "rate=20", f"steps={steps}"]
        return self.start(name, [harness.BIN / "fs_tests_load", address, *words])

    def last_step(self, server, run):
        return (self.run_of(server, run) or {"last_step": -1})["last_step"]

    def content(self, server, run, ranks=RANKS):
        """Everything that readers see of a run, as text: points of each rank and merged, events, steps, worst heads."""
        seen = {"events": self.get(server, f"/api/v1/runs/{run}/events")}
        last = self.run_of(server, run)["last_step"]
        for rank in [None, *range(ranks)]:
            query = {} if rank is None else {"rank": rank}
            for signal in ("loss", "logit_max" if ranks == 1 else "wq_sigma1"):
                seen[f"{signal} {rank}"] = self.get(server, f"/api/v1/runs/{run}/series", signal=signal, **query)
            seen[f"step {rank}"] = self.get(server, f"/api/v1/runs/{run}/step/{last}", **query)
        return seen

    def sources(self, server, run):
        return {(a["attempt"], s.get("rank", 0)): s for a in self.run_of(server, run)["attempts"] for s in a["sources"]}

    def test_a_finished_run_by_a_file(self):
        a, b = self.server("a"), self.server("b")
        agent = self.agent(a.grpc)
        self.assertEqual(self.load(agent.address, "gpt", 150).wait(), 0)
        self.await_end(a, "gpt")
        until(lambda: len(self.get(a, "/api/v1/runs/gpt/series", signal="loss")["points"]) == 150, "all steps merged")
        file = self.folder / "gpt.fsar"
        made = self.cli("export", "gpt", "--archive", file, "--json", server=a.grpc)
        self.assertEqual((made["frames"], made["processes"]), (150 * RANKS, RANKS))
        self.assertEqual(made["bytes"], file.stat().st_size)
        self.assertIn("there already", self.cli("export", "gpt", "--archive", file, server=a.grpc, status=1))
        self.cli("export", "nobody", "--archive", self.folder / "no", server=a.grpc, status=1)
        self.assertEqual([p.name for p in self.folder.glob("no*")], [])

        torn = self.folder / "torn.fsar"
        torn.write_bytes(file.read_bytes()[:-1])
        self.assertIn("torn", self.cli("import", torn, server=b.grpc, status=2))
        self.assertIsNone(self.run_of(b, "gpt"))
        came = self.cli("import", file, "--json", server=b.grpc)
        self.assertEqual(int(came["added"]["frames"]), 150 * RANKS)
        self.assertEqual(self.content(a, "gpt"), self.content(b, "gpt"))
        self.assertEqual(self.sources(a, "gpt"), self.sources(b, "gpt"))
        again = self.cli("import", file, "--json", server=b.grpc)
        self.assertEqual(int(again.get("added", {}).get("frames", 0)), 0)
        self.assertEqual(int(again["known"]["frames"]), 150 * RANKS)
        self.cli("delete", "gpt", "--yes", server=a.grpc)
        # Over a restart, and out again.
        before = self.content(b, "gpt")
        b.kill9()
        b = self.server("b", grpc=b.grpc, http=b.http)
        self.assertEqual(self.content(b, "gpt"), before)
        self.assertIn("imported gpt", self.cli("move", "gpt", "--from", b.grpc, "--to", a.grpc))
        self.assertEqual(self.content(a, "gpt"), before)
        self.assertTrue("foreshock_run_imports_total 1" in self.http(a, "/metrics").splitlines())

    def test_a_run_that_goes_on(self):
        a, b = self.server("a"), self.server("b")
        agent = self.agent(a.grpc)
        load = self.load(agent.address, "gpt", 400)
        until(lambda: self.last_step(a, "gpt") > 100, "the run to begin")
        self.cli("move", "gpt", "--from", a.grpc, "--to", b.grpc)
        self.assertGreater(self.last_step(b, "gpt"), 90)
        # Its agent is pointed to the new server; its spool and the trainer's queue hold what comes meanwhile.
        agent.stop()
        agent = self.agent(b.grpc)
        until(lambda: self.last_step(b, "gpt") > self.last_step(a, "gpt") + 20, "the run to go on at the new server")
        self.cli("move", "gpt", "--from", a.grpc, "--to", b.grpc)  # what the old one took after the first time
        self.assertEqual(load.wait(), 0, load.err())
        self.await_end(b, "gpt")
        told = {rank["rank"]: rank for rank in map(json.loads, load.out().splitlines())}
        steps = set()
        for (_, rank), source in self.sources(b, "gpt").items():
            lost = told[rank]["queue_dropped"] + told[rank]["window_dropped"]  # while no agent listened
            points = self.get(b, "/api/v1/runs/gpt/series", signal="wq_sigma1", layer=0, rank=rank)["points"]
            self.assertEqual((source["frames"], len(points)), (told[rank]["published"] - lost,) * 2)
            steps |= {p["step"] for p in points}
        merged = until(lambda: len(p) == len(steps) and p if (p := self.get(b, "/api/v1/runs/gpt/series", signal="loss")["points"])
                       else None, "all steps merged")
        self.assertEqual({p["step"] for p in merged}, steps)
        # What the old server had of the ranks is there, bit for bit, and nothing stands twice.
        for rank in range(RANKS):
            old, new = (self.get(s, "/api/v1/runs/gpt/series", signal="wq_sigma1", layer=0, rank=rank)["points"] for s in (a, b))
            self.assertEqual(new[:len(old)], old)
            self.assertEqual([p["step"] for p in new], sorted({p["step"] for p in new}))
        self.assertIn("going on", self.cli("delete", "gpt", "--yes", server=a.grpc, status=1))
        self.cli("delete", "gpt", "--yes", "--force", server=a.grpc)
        self.assertIsNone(self.run_of(a, "gpt"))
        c = self.server("c")
        self.cli("move", "gpt", "--from", b.grpc, "--to", c.grpc)
        self.assertEqual(self.content(b, "gpt"), self.content(c, "gpt"))

    def test_alerts_and_who_looks_after_them(self):
        a, b = self.server("a"), self.server("b")
        agent = self.agent(a.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", 100_000, "--lr", "1000", "--warmup",
                               "0", "--quiet")
        until(lambda: self.get(a, "/api/v1/runs/gpt/alerts")["alerts"] if self.run_of(a, "gpt") else None, "an alert")
        trainer.kill9()
        agent.stop()  # nothing comes any more
        self.cli("acknowledge", "gpt", "--comment", "looking", server=a.grpc)
        self.cli("move", "gpt", "--from", a.grpc, "--to", b.grpc)

        def same():
            here, there = (self.get(s, "/api/v1/runs/gpt/alerts")["alerts"] for s in (a, b))
            return here and [self.core(x) for x in there] == [self.core(x) for x in here]

        until(same, "the same alerts")
        self.assertEqual(self.content(a, "gpt", 1), self.content(b, "gpt", 1))
        trail = [(e["who"], e["what"], e.get("subject")) for e in self.cli("audit", "gpt", "--json", server=a.grpc)["entries"]]
        moved = [(e["who"], e["what"], e.get("subject")) for e in self.cli("audit", "gpt", "--json", server=b.grpc)["entries"]]
        self.assertEqual([e for e in moved if e[1] != "run_imported"], [e for e in trail if e[1] != "run_exported"])

    @staticmethod
    def core(alert):
        return {k: alert.get(k) for k in ("id", "rule", "severity", "layer", "head", "first_step", "fired_step", "fired_unix_ns",
                                          "summary", "acknowledgement")}


if __name__ == "__main__":
    harness.main()
