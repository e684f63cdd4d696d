"""deploy/prometheus and deploy/alertmanager: valid, rules that fire when they should, routes that deliver."""

import re
import shutil
import subprocess
import unittest

import harness
from harness import SOURCE, until
from receiver import Receiver

PROMETHEUS = SOURCE / "deploy" / "prometheus"
ALERTMANAGER = SOURCE / "deploy" / "alertmanager" / "alertmanager.yml"


def ran(test, *argv):
    if shutil.which(argv[0]) is None:
        test.skipTest(f"{argv[0]} is not installed")
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout


class Rules(unittest.TestCase):
    def test_configuration_is_valid(self):
        ran(self, "promtool", "check", "config", PROMETHEUS / "prometheus.yml")

    def test_rules_fire_when_they_should(self):
        ran(self, "promtool", "test", "rules", PROMETHEUS / "tests" / "rules_test.yml")

    def test_every_alert_has_a_test_and_says_what_to_do(self):
        text = (PROMETHEUS / "alerting.rules.yml").read_text()
        names = re.findall(r"- alert: (\w+)", text)
        self.assertGreater(len(names), 10)
        tests = (PROMETHEUS / "tests" / "rules_test.yml").read_text()
        for name in names:
            self.assertIn(f"alertname: {name}", tests)
        for rule in text.split("- alert: ")[1:]:
            for part in ("{severity: ", "summary:", "description:"):
                self.assertIn(part, rule)


class Routes(unittest.TestCase):
    def test_severity_decides_who_hears(self):
        ran(self, "amtool", "check-config", ALERTMANAGER)
        for labels, receiver in (
                (["alertname=qk_runaway", "severity=critical", "run=gpt", "source=foreshock"], "page"),
                (["alertname=logit_saturation", "severity=warning", "run=gpt", "source=foreshock"], "chat"),
                (["alertname=unmonitored", "severity=info"], "chat"),
                (["alertname=ForeshockServerDown", "severity=critical"], "page"),
                (["alertname=ForeshockHeartbeat", "severity=info"], "dead-mans-switch"),
                (["alertname=somebody_elses"], "chat")):
            with self.subTest(labels):
                ran(self, "amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}",
                    f"--verify.receivers={receiver}", *labels)


class Delivery(harness.Case):
    def test_a_real_critical_pages_and_the_heartbeat_beats(self):
        receiver = Receiver()  # of all routes, told apart by path
        self.addCleanup(receiver.close)

        def alerts(route):
            return [a for path, body in receiver.posts if path == f"/{route}" for a in body["alerts"]]

        def names(route):
            return {a["labels"]["alertname"] for a in alerts(route)}

        config = self.folder / "alertmanager.yml"
        config.write_text(ALERTMANAGER.read_text().replace("127.0.0.1:9095", receiver.address))
        base = self.alertmanager(config)
        options = self.folder / "server.yml"
        options.write_text(f"alertmanager_url: {base}\nheartbeat: true\nresend_seconds: 5\n")
        daemon = self.server("server", None, "--config", options)
        node = self.agent(daemon.grpc)
        self.trainer("--foreshock", node.address, "--run", "gpt", "--steps", 1000000, "--quiet", "--lr", "1000", "--warmup",
                     "0")
        until(lambda: "loss_divergence" in names("page"), lambda: f"a page: {receiver.posts}")
        until(lambda: "ForeshockHeartbeat" in names("heartbeat"), "a heartbeat")
        page = next(a for a in alerts("page") if a["labels"]["alertname"] == "loss_divergence")
        self.assertEqual((page["labels"]["severity"], page["labels"]["run"]), ("critical", "gpt"))
        # Prometheus' second way is mute while the server itself has told; a run of its own is heard.
        subprocess.run(["amtool", f"--alertmanager.url={base}", "alert", "add", "alertname=ForeshockRunCritical", "run=gpt",
                        "severity=critical"], check=True)
        subprocess.run(["amtool", f"--alertmanager.url={base}", "alert", "add", "alertname=ForeshockRunCritical", "run=other",
                        "severity=critical"], check=True)
        until(lambda: "ForeshockRunCritical" in names("page"), "the other run's page")
        told = {a["labels"]["run"] for a in alerts("page")
                if a["labels"]["alertname"] == "ForeshockRunCritical"}
        self.assertEqual(told, {"other"})
        self.assertNotIn("loss_divergence", names("chat"))


if __name__ == "__main__":
    harness.main()
