"""Runs that stop and go on: attempts and incarnations."""

import signal
import unittest

import harness
from harness import until


class Attempts(harness.Case):
    def setUp(self):
        super().setUp()
        self.daemon = self.server()
        self.node = self.agent(self.daemon.grpc)

    def stored_steps(self, attempt):
        return [step for step, _ in self.losses(self.daemon, "gpt", attempt=attempt)]

    def test_killed_at_212_and_resumed_at_200(self):
        checkpoints = self.folder / "ckpt"
        flags = ("--foreshock", self.node.address, "--run", "gpt", "--checkpoint-dir", checkpoints, "--checkpoint-every",
                 100, "--quiet")
        first = self.trainer("--steps", 100000, *flags, name="first")
        until(lambda: (self.run_of(self.daemon, "gpt") or {"last_step": 0})["last_step"] >= 212, "step 212")
        first.signal(signal.SIGKILL)
        first.popen.wait()
        newest = checkpoints / "step-200.ckpt"
        self.assertTrue(newest.exists())
        second = self.trainer("--steps", 230, "--resume", newest, *flags, name="second")
        self.assertEqual(second.wait(300), 0, second.err())

        run = self.await_end(self.daemon, "gpt")
        self.assertEqual(len(run["attempts"]), 2, run["attempts"])
        old, new = run["attempts"]
        self.assertNotEqual(old["attempt"], new["attempt"])
        self.assertGreaterEqual(old["last_step"], 212)
        self.assertEqual(self.stored_steps(old["attempt"])[:213], list(range(213)), "nothing of the first is dropped")
        self.assertEqual(self.stored_steps(new["attempt"]), list(range(200, 230)))
        self.assertEqual(new["state"], "finished")

    def test_the_same_attempt_restarted_is_a_new_incarnation(self):
        env = {"FORESHOCK_ATTEMPT": "job-7"}
        flags = ("--foreshock", self.node.address, "--run", "gpt", "--quiet")
        for part, name in ((40, "first"), (40, "second")):
            trainer = self.trainer("--steps", part, *flags, name=name, env=env)
            self.assertEqual(trainer.wait(300), 0, trainer.err())
        def both():
            run = self.run_of(self.daemon, "gpt")
            sources = run["attempts"][0]["sources"] if run else []
            return run if len(sources) == 2 and all(s["last_step"] == 39 for s in sources) else None
        run = until(both, lambda: f"two incarnations: {self.run_of(self.daemon, 'gpt')}")
        self.assertEqual([a["attempt"] for a in run["attempts"]], ["job-7"])
        sources = run["attempts"][0]["sources"]
        self.assertEqual(len({s["incarnation"] for s in sources}), 2)
        for source in sources:
            self.assertEqual(source["duplicates"], 0, "a restarted process is no duplicate")
            self.assertEqual(source["frames"], 40)
        self.assertEqual(self.stored_steps("job-7"), list(range(40)))


if __name__ == "__main__":
    harness.main()
