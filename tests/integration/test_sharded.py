"""Two processes that share the parameters (FSDP2) show on the server what one process with the whole shows."""

import unittest

import harness

STEPS = 31
SIGNALS = ("update_projection_1", "update_projection_3", "wk_update_projection_2", "update_sign_mean_1",
           "update_sign_mean_2", "wk_update_sign_mean_1", "update_drift_ratio_1", "wq_sigma1", "qk_sigma1")


class Sharded(harness.Case):
    def test_parts_of_two_processes_become_the_whole(self):
        server = self.server()
        agent = self.agent(server.grpc)
        program = harness.BIN / "fs_tests_sharded_trainer"
        for run, world in (("whole", 1), ("sharded", 2)):
            ranks = [self.start(f"{run}-{rank}", [program, agent.address, run, rank, world, STEPS])
                     for rank in range(world)]
            for rank in ranks:
                self.assertEqual(rank.wait(), 0, rank.err())
            self.await_end(server, run)
        harness.until(lambda: self.points(server, "sharded", "tokens")[-1][0] == STEPS - 1, "the last merged step")
        for signal in SIGNALS:
            whole, sharded = (self.points(server, run, signal, layer=0) for run in ("whole", "sharded"))
            self.assertEqual([step for step, _ in whole], [0, 10, 20, 30], signal)
            self.assertEqual([step for step, _ in sharded], [0, 10, 20, 30], signal)
            for (step, one), (_, two) in zip(whole, sharded):
                self.assertEqual(len(one), len(two))
                for head, (a, b) in enumerate(zip(one, two)):
                    self.compare(signal, a, b, f"{signal} step {step} head {head}")

    def compare(self, signal, a, b, where):
        """Signs are whole numbers over n and agree exactly; sums are rounded to float32 once a part."""
        self.assertIsNotNone(a, where)
        self.assertIsNotNone(b, where)
        if isinstance(a, dict):
            self.assertLessEqual(abs(a["weight"] - b["weight"]), 1e-6 * max(1, abs(a["weight"])), where)
            a, b = a["numerator"], b["numerator"]
        if "sign_mean" in signal:
            self.assertEqual(a, b, where)
        else:
            self.assertLessEqual(abs(a - b), 1e-6 * max(1, abs(a)), where)

    def points(self, server, run, signal, **query):
        """[(step, value of every head)]"""
        found = self.get(server, f"/api/v1/runs/{run}/series", signal=signal, **query)["points"]
        return [(p["step"], p["series"].get("values")) for p in found]


if __name__ == "__main__":
    harness.main()
