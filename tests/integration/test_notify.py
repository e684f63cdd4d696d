"""A real Alertmanager and a webhook get one firing and one resolved of an alert.

A learning rate far too large throws the trainer's loss up within its first steps, which is a critical alert at once; the
announced end of the run resolves it.
"""

import http.server
import json
import shutil
import threading
import unittest
import urllib.request

import harness
from harness import until


RULE = "loss_divergence"


class Hook:
    """An HTTP server that keeps what is posted to it."""

    def __init__(self):
        received = self.received = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                received.append(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Notify(harness.Case):
    def hook(self):
        hook = Hook()
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
        if shutil.which("prometheus-alertmanager") is None:
            self.skipTest("prometheus-alertmanager is not installed")
        hook = self.hook()
        port = harness.free_port()
        config = self.folder / "alertmanager.yml"
        config.write_text("route: {receiver: hook, group_by: [alertname, run], group_wait: 0s, group_interval: 1s}\n"
                          f"receivers: [{{name: hook, webhook_configs: [{{url: '{hook.url}', send_resolved: true}}]}}]\n")
        base = f"http://127.0.0.1:{port}"
        self.start("alertmanager", ["prometheus-alertmanager", f"--config.file={config}",
                                    f"--storage.path={self.folder}/am", f"--web.listen-address=127.0.0.1:{port}",
                                    "--cluster.listen-address="])

        def up():
            try:
                return urllib.request.urlopen(f"{base}/-/ready", timeout=10).status == 200
            except OSError:
                return False

        until(up, "Alertmanager")
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
