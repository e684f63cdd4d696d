"""Nobody there, nowhere to write, a wrong address: training goes on, one clear line says why, counters say how much."""

import os
import subprocess
import unittest

import harness
from harness import BIN


class Absent(harness.Case):
    STEPS = 60

    def healthy_loss(self):
        process = self.trainer("--steps", self.STEPS, "--log-every", self.STEPS - 1, name="unwatched")
        self.assertEqual(process.wait(300), 0, process.err())

    def complaint(self, address, *words, **kw):
        """Trains to the end and says why nothing is recorded, in one line of Foreshock's."""
        process = self.trainer("--foreshock", address, "--run", "r", "--steps", self.STEPS, **kw)
        self.assertEqual(process.wait(300), 0, process.err())
        lines = [line for line in process.err().splitlines() if "foreshock" in line.lower()]
        self.assertGreaterEqual(len(lines), 1, f"nothing was said: {process.err()}")
        said = "\n".join(lines)
        for word in words:
            self.assertIn(word.lower(), said.lower())
        self.assertLessEqual(len(lines), 3, f"said too often:\n{said}")
        return process

    def test_no_agent(self):
        path = self.folder / "nobody.sock"
        self.complaint(f"unix:{path}", str(path), "start foreshock-agent")

    def test_no_server_behind_grpc(self):
        port = harness.free_port()
        self.complaint(f"grpc://127.0.0.1:{port}", str(port))

    def test_wrong_scheme(self):
        self.complaint("carrier-pigeon:coop", "carrier-pigeon")

    def test_file_in_a_folder_that_is_not_there(self):
        self.complaint(f"file:{self.folder}/no/such/folder/run.jsonl", "no/such/folder")

    def test_full_disk(self):
        self.complaint("file:/dev/full", "/dev/full")

    def test_read_only_disk(self):
        if os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0:
            # A real read-only mount, seen by the trainer alone.
            mount = self.folder / "ro"
            mount.mkdir()
            script = f'mount -t tmpfs -o ro tmpfs {mount} && exec "$@"'
            self.complaint(f"file:{mount}/run.jsonl", "read-only",
                           prefix=("unshare", "--mount", "sh", "-c", script, "sh"))
        elif os.geteuid() != 0:
            folder = self.folder / "ro"
            folder.mkdir(mode=0o500)
            self.complaint(f"file:{folder}/run.jsonl", "denied")
        else:
            self.skipTest("root without mount namespaces: nothing is read-only here")

    def test_agent_without_server_keeps_everything(self):
        agent = self.agent(f"127.0.0.1:{harness.free_port()}")
        self.train(agent.address, "r", self.STEPS)
        spool = self.folder / "agent.spool"
        shown = subprocess.run([BIN / "foreshock-agent", "spool", "--spool", spool, "--json"], capture_output=True,
                               text=True, check=True).stdout
        self.assertIn('"r"', shown)
        server = self.server()
        agent.stop()
        self.agent(server.grpc)
        run = self.await_end(server, "r")
        self.assertEqual(run["last_step"], self.STEPS - 1)
        self.assertEqual([s for s, _ in self.losses(server, "r")], list(range(self.STEPS)))


if __name__ == "__main__":
    harness.main()
