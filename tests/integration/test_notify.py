"""A real Alertmanager and a webhook get one firing and one resolved of an alert.

A learning rate far too large throws the trainer's loss up within its first steps, which is a critical alert at once; the
announced end of the run resolves it.
"""

import json
import unittest

import harness
from harness import until
from receiver import Receiver


RULE = "loss_divergence"


class Notify(harness.Case):
    def hook(self):
        hook = Receiver()
        self.addCleanup(hook.close)
        return hook

    def collapse(self, node):
        self.train(node.address, "gpt", 60, "--lr", "1000", "--warmup", "0")

    def test_webhook_gets_one_firing_and_one_resolved(self):
        hook = self.hook()
        daemon = self.server("server", None, "--webhook", hook.url)
        self.collapse(self.agent(daemon.grpc))
        self.await_end(daemon, "gpt")
        alerts = self.get(daemon, "/api/v1/runs/gpt/alerts")["alerts"]
        self.assertTrue(any(a["rule"] == RULE and a["severity"] == "critical" for a in alerts), alerts)

        def told(state):
            return [m for m in hook.received if RULE in json.dumps(m) and state in json.dumps(m).lower()]

        until(lambda: told("firing"), lambda: f"a firing: {hook.received}")
        until(lambda: told("resolved"), lambda: f"a resolved: {hook.received}")
        self.assertEqual(len(told("firing")), 1, hook.received)
        self.assertEqual(len(told("resolved")), 1, hook.received)

    def test_alertmanager_forwards_one_firing_and_one_resolved(self):
        hook = self.hook()
        config = self.folder / "alertmanager.yml"
        config.write_text("route: {receiver: hook, group_by: [alertname, run], group_wait: 0s, group_interval: 1s}\n"
                          f"receivers: [{{name: hook, webhook_configs: [{{url: '{hook.url}', send_resolved: true}}]}}]\n")
        base = self.alertmanager(config)
        daemon = self.server("server", None, "--alertmanager", base)
        self.collapse(self.agent(daemon.grpc))
        self.await_end(daemon, "gpt")

        def of(status):
            return [a for m in hook.received for a in m["alerts"]
                    if a["status"] == status and RULE in json.dumps(a["labels"])]

        until(lambda: of("firing"), lambda: f"a firing: {hook.received}")
        until(lambda: of("resolved"), lambda: f"a resolved: {hook.received}")
        self.assertEqual(len({a["fingerprint"] for a in of("firing")}), 1, hook.received)
        self.assertEqual(len(of("resolved")), 1, hook.received)
        self.assertEqual(of("firing")[0]["labels"]["run"], "gpt")


if __name__ == "__main__":
    harness.main()
