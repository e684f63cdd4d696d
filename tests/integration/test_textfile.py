"""foreshock-agent-textfile over the status of a real agent, and over one whose node has GPUs."""

import json
import subprocess
import unittest

import harness
from harness import SOURCE, until

SCRIPT = SOURCE / "deploy" / "prometheus" / "foreshock-agent-textfile"


class Textfile(harness.Case):
    def metrics(self, path):
        """{metric with labels: value}."""
        done = subprocess.run(["python3", "-B", SCRIPT, path], capture_output=True, text=True, check=True)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        types = [line for line in done.stdout.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(types), len(set(types)))
        return dict(line.rsplit(" ", 1) for line in lines)

    def test_every_counter_of_an_agent_that_is_a_relay(self):
        agent = self.agent("127.0.0.1:1", "agent", "--listen-grpc", "127.0.0.1:0", "--no-gpus")
        metrics = until(lambda: self.metrics(agent.status), "metrics")
        label = f'{{socket="{agent.address[5:]}"}}'
        for name in ("spool_refused_share", "spool_refused_limit", "spool_refused_disk", "spool_lost", "receive_refused",
                     "receive_dropped_by_trainers", "receive_abandoned", "relay_refused", "relay_stalled", "forward_failures",
                     "forward_refusals", "forward_undeliverable"):
            self.assertIn(f"foreshock_agent_{name}_total{label}", metrics)
        self.assertEqual(metrics[f"foreshock_agent_relay_streams{label}"], "0")
        self.assertEqual(metrics[f"foreshock_agent_up{label}"], "1")
        self.assertEqual(json.loads(agent.status.read_text())["device"]["reason"], "switched off")

    def test_gpus(self):
        agent = self.agent("127.0.0.1:1")
        status = json.loads(agent.status.read_text())
        self.assertIsNone(status["relay"])
        self.assertIn("foreshock_agent_spool_bytes", str(self.metrics(agent.status)), "without relay and without GPUs")
        status["device"] = {"reason": "", "gpus": [
            {"index": 1, "uuid": "GPU-x", "values": {"gpu_power_watts": 700.5, "gpu_ecc_uncorrected_errors": 3},
             "throttled_by": ["hw_slowdown"], "xids": 2}]}
        path = self.folder / "with-gpus.json"
        path.write_text(json.dumps(status))
        labels = f'{{socket="{agent.address[5:]}",gpu="1",uuid="GPU-x"}}'
        metrics = self.metrics(path)
        self.assertEqual({k: v for k, v in metrics.items() if "gpu" in k.split("{")[0]}, {
            f"foreshock_gpu_power_watts{labels}": "700.5", f"foreshock_gpu_ecc_uncorrected_errors_total{labels}": "3",
            f"foreshock_gpu_throttled{labels}": "1", f"foreshock_gpu_xid_errors_total{labels}": "2"})


if __name__ == "__main__":
    harness.main()
