"""Servers and agents that are killed in mid-run: the trainer never notices, and nothing acknowledged is lost."""

import signal
import unittest

import harness
import recording
from harness import until

STEPS = 400


class Killed(harness.Case):
    known = None

    def reference(self):
        """(step, loss bits) of the same run, recorded once: the trainer is deterministic."""
        if Killed.known is None:
            Killed.known = self.record_reference()
        return Killed.known

    def record_reference(self):
        path = self.folder / "reference.fsk"
        self.train(f"file:{path}", "reference", STEPS, name="reference")
        out = []
        for frame in recording.frames(path):
            loss = next(s for s in frame["series"] if s["signal"] == 1)
            out.append((frame["step"], loss["entries"][0][0][0]))
        self.assertEqual([step for step, _ in out], list(range(STEPS)))
        return out

    def mid_run(self, server, at_least):
        until(lambda: (self.run_of(server, "gpt") or {"last_step": -1})["last_step"] >= at_least,
              f"step {at_least} on the server")

    def check(self, server, trainer, reference):
        self.assertEqual(trainer.wait(300), 0, trainer.err())
        run = self.await_end(server, "gpt")
        stored = [(step, recording.bits(loss)) for step, loss in self.losses(server, "gpt")]
        self.assertEqual(stored, reference, "every step once, in order, as computed")
        sources = run["attempts"][-1]["sources"]
        self.assertEqual(len(sources), 1)
        self.assertEqual(sources[0]["dropped"], 0)
        self.assertEqual(sources[0]["quarantined"], 0)

    def test_server_killed_and_restarted(self):
        reference = self.reference()
        server = self.server()
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", STEPS, "--quiet")
        self.mid_run(server, STEPS // 5)
        server.kill9()
        self.assertTrue(trainer.running(), "killed too late to show anything")
        again = self.server(grpc=server.grpc, http=server.http)
        self.check(again, trainer, reference)

    def test_server_killed_three_times(self):
        reference = self.reference()
        server = self.server()
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", STEPS, "--quiet")
        for part in (1, 2, 3):
            self.mid_run(server, STEPS * part // 5)
            server.kill9()
            server = self.server(grpc=server.grpc, http=server.http)
        self.check(server, trainer, reference)

    def test_agent_killed_and_restarted(self):
        reference = self.reference()
        server = self.server()
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", STEPS, "--quiet")
        self.mid_run(server, STEPS // 5)
        agent.kill9()
        self.assertTrue(trainer.running(), "killed too late to show anything")
        self.agent(server.grpc)
        self.check(server, trainer, reference)

    def test_both_killed_at_once(self):
        reference = self.reference()
        server = self.server()
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", STEPS, "--quiet")
        self.mid_run(server, STEPS // 5)
        server.kill9()
        agent.kill9()
        again = self.server(grpc=server.grpc, http=server.http)
        self.agent(again.grpc)
        self.check(again, trainer, reference)

    def test_trainer_killed_is_not_taken_for_finished(self):
        server = self.server("server", None)
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "gpt", "--steps", 100000, "--quiet")
        self.mid_run(server, 20)
        trainer.signal(signal.SIGKILL)
        trainer.popen.wait()
        self.assertIn(self.run_of(server, "gpt")["state"], ("running", "silent"))


if __name__ == "__main__":
    harness.main()
