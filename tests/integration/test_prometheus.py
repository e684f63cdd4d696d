"""/metrics is what Prometheus wants: promtool is content, and a real Prometheus scrapes the run's signals."""

import json
import shutil
import subprocess
import unittest
import urllib.parse
import urllib.request

import harness
from harness import until


class Metrics(harness.Case):
    def setUp(self):
        super().setUp()
        for program in ("prometheus", "promtool"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")
        self.daemon = self.server()
        self.node = self.agent(self.daemon.grpc)
        self.trainer("--foreshock", self.node.address, "--run", "gpt", "--steps", 100000, "--quiet")
        until(lambda: "foreshock_qk_sigma1{" in self.http(self.daemon, "/metrics"), "the run's signals in /metrics")

    def test_promtool_is_content(self):
        text = self.http(self.daemon, "/metrics")
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((done.stdout + done.stderr).strip(), "")
        self.assertNotIn("step=", text, "step is a gauge, never a label")

    def test_a_real_prometheus_scrapes_them(self):
        port = harness.free_port()
        config = self.folder / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: foreshock\n"
                          f"    static_configs: [{{targets: ['{self.daemon.http}']}}]\n")
        self.start("prometheus", ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                                  f"--web.listen-address=127.0.0.1:{port}"])

        def ask(query):
            try:
                url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                return json.load(urllib.request.urlopen(url, timeout=10))["data"]["result"]
            except OSError:
                return []

        result = until(lambda: ask('foreshock_qk_sigma1{run="gpt",layer="1",stat="max"}'), "a scraped signal")
        self.assertEqual(len(result), 1, result)
        self.assertGreater(float(result[0]["value"][1]), 0)
        self.assertTrue(until(lambda: ask('foreshock_loss{run="gpt"}'), "the loss"))


if __name__ == "__main__":
    harness.main()
