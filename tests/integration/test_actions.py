"""Actions reach the trainer, are taken only when allowed, and their effect is recorded."""

import unittest

import harness
from harness import until


class Actions(harness.Case):
    def setUp(self):
        super().setUp()
        self.daemon = self.server()
        self.node = self.agent(self.daemon.grpc)

    def begin(self, *flags):
        trainer = self.trainer("--foreshock", self.node.address, "--run", "gpt", "--steps", 100000, "--quiet", *flags)
        until(lambda: (self.run_of(self.daemon, "gpt") or {"last_step": 0})["last_step"] >= 40, "step 40")
        return trainer

    def largest_logit(self, step):
        reply = self.get(self.daemon, f"/api/v1/runs/gpt/step/{step}", signal="logit_max")
        return max(v for s in reply["frame"]["series"] for v in s["values"] if isinstance(v, float))

    def test_enable_qk_norm_lowers_the_logits_and_says_so(self):
        # A large learning rate from the start: logits well above what normalised heads of 16 can reach.
        self.begin("--lr", "0.03", "--warmup", "0")
        until(lambda: self.largest_logit("last") > 8, lambda: f"logits above 8: {self.largest_logit('last')}")
        record = self.cli("act", "gpt", "enable_qk_norm", "--reason", "test", "--wait", 100, "--json",
                          server=self.daemon.grpc)
        self.assertEqual(record["state"], "effective", record)
        self.assertGreater(record["logit_before"], record["logit_after"])
        self.assertLess(self.largest_logit("last"), 4.01, "heads of 16 with normalised q and k")
        events = self.get(self.daemon, "/api/v1/runs/gpt/events")["events"]
        states = [e["action_state"] for e in events if e["kind"] == "action"]
        self.assertIn("taken", states)
        self.assertIn("effective", states)
        self.assertIn("effective", self.cli("actions", "gpt", server=self.daemon.grpc))

    def test_stop_ends_the_trainer_and_the_run_says_stopped(self):
        trainer = self.begin()
        self.cli("act", "gpt", "stop", "--wait", 60, server=self.daemon.grpc)
        self.assertEqual(trainer.wait(), 0, trainer.err())
        self.assertEqual(self.await_end(self.daemon, "gpt")["state"], "stopped")

    def test_what_is_wrong_is_refused(self):
        self.begin()
        self.assertIn("kind", self.cli("act", "gpt", "reboot", server=self.daemon.grpc, status=2))
        self.cli("act", "nobody", "stop", server=self.daemon.grpc, status=1)
        text = self.cli("act", "gpt", "qk_clip", "--value", 10, "--layer", 7, server=self.daemon.grpc, status=2)
        self.assertIn("no layer 7", text)

    def test_an_action_that_is_void_already_is_refused_and_training_goes_on(self):
        self.begin()
        text = self.cli("act", "gpt", "stop", "--expires", 1, server=self.daemon.grpc, status=2)
        self.assertIn("expiry_step", text)
        last = self.run_of(self.daemon, "gpt")["last_step"]
        until(lambda: self.run_of(self.daemon, "gpt")["last_step"] > last + 5, "training to go on")


if __name__ == "__main__":
    harness.main()
