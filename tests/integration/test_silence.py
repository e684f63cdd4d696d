"""Silences, acknowledgements and imports by the command line, over kill -9 of the server, with a real webhook."""

import unittest

import harness
from harness import until
from receiver import Receiver


class Silence(harness.Case):
    def hook(self):
        hook = Receiver()
        self.addCleanup(hook.close)
        return hook

    def runs_told(self, hook):
        return [m["run"] for m in hook.received]

    def diverge(self, daemon, run):
        """A log whose loss is not a number at its end, sent in by the command line: a critical that fires and, at the
        announced end, resolves."""
        log = self.folder / f"{run}.csv"
        log.write_text("step,loss\n" + "".join(f"{s},{4 if s < 40 else 'nan'}\n" for s in range(60)))
        return self.cli("import", log, "--run", run, "--notify", "--json", server=daemon.grpc)

    def test_a_silence_holds_over_kill_9_and_shows_everywhere(self):
        hook = self.hook()
        data = self.folder / "data"
        daemon = self.server("server", data, "--webhook", hook.url)
        made = self.cli("silence", "create", "--run", "quiet*", "--for", "1h", "--comment", "a test", "--author", "ada",
                        "--json", server=daemon.grpc)
        self.assertEqual(made["state"], "active")
        daemon.kill9()
        daemon = self.server("again", data, "--webhook", hook.url)
        listed = self.cli("silence", "list", "--json", server=daemon.grpc)["silences"]
        self.assertEqual([(s["id"], s["comment"], s["author"]) for s in listed], [(made["id"], "a test", "ada")])
        self.diverge(daemon, "quiet-1")
        self.diverge(daemon, "loud-1")
        until(lambda: "loud-1" in self.runs_told(hook), lambda: f"news of loud-1: {hook.received}")
        self.assertNotIn("quiet-1", self.runs_told(hook))
        alerts = self.get(daemon, "/api/v1/runs/quiet-1/alerts")["alerts"]
        self.assertTrue(any(a["rule"] == "non_finite" for a in alerts), alerts)
        self.assertIn("foreshock_silences 1", self.http(daemon, "/metrics"))
        self.cli("silence", "expire", made["id"], "--author", "bob", server=daemon.grpc)
        self.assertIn("no silences", self.cli("silence", "list", server=daemon.grpc))
        trail = self.cli("audit", "--json", server=daemon.grpc)["entries"]
        self.assertEqual([(e["who"], e["what"]) for e in trail], [("bob", "silence_expired"), ("ada", "silence_created")])
        self.cli("silence", "expire", "nothing", server=daemon.grpc, status=1)

    def test_an_acknowledgement_holds_over_kill_9(self):
        data = self.folder / "data"
        daemon = self.server("server", data)
        self.cli("acknowledge", "gpt", server=daemon.grpc, status=1)
        node = self.agent(daemon.grpc)
        self.trainer("--foreshock", node.address, "--run", "gpt", "--steps", 1000000, "--lr", "1000", "--warmup", "0",
                     "--quiet")
        until(lambda: self.run_of(daemon, "gpt") and self.get(daemon, "/api/v1/runs/gpt/alerts", firing="true")["alerts"],
              "an alert")
        taken = self.cli("acknowledge", "gpt", "--comment", "mine", "--author", "ada", "--json", server=daemon.grpc)
        self.assertTrue(taken["silences"])
        daemon.kill9()
        daemon = self.server("again", data, grpc=daemon.grpc)
        held = {s["alert"] for s in self.cli("silence", "list", "--json", server=daemon.grpc)["silences"]}
        firing = [a for a in self.get(daemon, "/api/v1/runs/gpt/alerts", firing="true")["alerts"] if a["id"] in held]
        self.assertTrue(firing, held)
        for alert in firing:
            self.assertEqual((alert["acknowledgement"]["author"], alert["acknowledgement"]["comment"]), ("ada", "mine"))
        # A run is on the page from its next frame on.
        until(lambda: "foreshock_alerts_acknowledged{" in self.http(daemon, "/metrics"), "the run in /metrics")
        self.assertIn("taken by ada", self.cli("alerts", "gpt", "--firing", "--detail", server=daemon.grpc))


class ImportIntoAServer(harness.Case):
    def test_a_log_is_there_whole_and_nobody_is_notified(self):
        hook = Receiver()
        self.addCleanup(hook.close)
        daemon = self.server("server", None, "--webhook", hook.url)
        log = self.folder / "old.csv"
        rows = [(s, 5 - s / 1000 if s < 2500 else "nan") for s in range(3000)]
        log.write_text("step,train/loss\n" + "".join(f"{s},{v}\n" for s, v in rows))
        told = self.cli("import", log, "--run", "old", "--json", server=daemon.grpc)
        self.assertEqual((told["run"], told["frames"], told["recording"]), ("old", 3000, None))
        run = self.await_end(daemon, "old")
        self.assertEqual((run["state"], run["last_step"]), ("finished", 2999))
        losses = self.losses(daemon, "old")
        self.assertEqual(len(losses), 3000)
        self.assertEqual(losses[1000][0], 1000)
        self.assertAlmostEqual(losses[1000][1], 4.0, places=5)
        until(lambda: any(a["rule"] == "non_finite" and a["state"] == "resolved"
                          for a in self.get(daemon, "/api/v1/runs/old/alerts")["alerts"]), "the alert and its end")
        # The same again adds nothing.
        self.cli("import", log, "--run", "old", "--json", server=daemon.grpc)
        self.assertEqual(len(self.losses(daemon, "old")), 3000)
        # A second run, whose alerts are told, shows that of the first nothing was.
        self.cli("import", log, "--run", "new", "--notify", server=daemon.grpc)
        until(lambda: hook.received, "a message")
        self.assertEqual({m["run"] for m in hook.received}, {"new"}, hook.received)

    def test_what_cannot_be_is_refused(self):
        daemon = self.server()
        node = self.agent(daemon.grpc)
        self.train(node.address, "mine", 20)
        self.await_end(daemon, "mine")
        log = self.folder / "log.csv"
        log.write_text("step,loss\n0,5\n1,4\n")
        refused = self.cli("import", log, "--run", "mine", server=daemon.grpc, status=1)
        self.assertIn("'mine' is there already", refused)
        refused = self.cli("import", log, "--run", "/x", server=daemon.grpc, status=1)
        self.assertIn("run", refused)
        away = self.cli("import", log, "--run", "x", server=f"127.0.0.1:{harness.free_port()}", status=3)
        self.assertIn("server", away)
        # Into a file no server is needed, whatever the environment says.
        self.cli("import", log, self.folder / "x.fsk", env={"FORESHOCK_SERVER": "127.0.0.1:1"})
        self.assertTrue((self.folder / "x.fsk").exists())


class Templates(harness.Case):
    def test_a_template_makes_the_message_and_a_bad_one_stops_the_start(self):
        hook = Receiver()
        self.addCleanup(hook.close)
        text = self.folder / "hook.json"
        text.write_text('{"title": "{{run}}", "what": [{{#alerts}}"{{rule}}"{{^last}}, {{/last}}{{/alerts}}]}\n')
        daemon = self.server("server", None, "--webhook", hook.url, "--webhook-template", text)
        log = self.folder / "log.csv"
        log.write_text("step,loss\n0,4\n1,nan\n")
        self.cli("import", log, "--run", "r", "--notify", server=daemon.grpc)
        until(lambda: hook.received, "a message")
        self.assertEqual(hook.received[0]["title"], "r")
        self.assertIn("non_finite", hook.received[0]["what"])
        text.write_text('{"title":\n  "{{rum}}"}')
        bad = self.start("bad", [harness.BIN / "foreshockd", "--data", self.folder / "bad.data", "--grpc", "127.0.0.1:0",
                                 "--http", "127.0.0.1:0", "--webhook", hook.url, "--webhook-template", text])
        self.assertNotEqual(bad.wait(), 0)
        self.assertIn("webhook_template_file: ", bad.err())
        self.assertIn("line 2, column 4: 'rum' is not known", bad.err())


if __name__ == "__main__":
    harness.main()
