"""docs/security.md as it stands: certificates by openssl, tokens, and the real programs over TLS."""

import os
import re
import shutil
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

import harness
from harness import until


@unittest.skipIf(shutil.which("openssl") is None, "FORESHOCK_SKIPPED: openssl is not installed")
class Security(harness.Case):
    def setUp(self):
        super().setUp()
        # The documented commands, for the name that is dialled here.
        self.certificates("DNS:localhost", "IP:127.0.0.1")
        self.tokens = self.folder / "tokens"
        self.agents = self.token("agents", "--scope", "write")
        self.ana = self.token("ana", "--scope", "read", "--scope", "control", "--runs", "team-a/", "--expires-days", "90")

    def sh(self, command):
        done = subprocess.run(command.split(), cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")

    def token(self, name, *flags):
        """A file with a new token."""
        path = self.folder / f"{name}.token"
        made = self.cli("token", "create", name, "--tokens", self.tokens, *flags, "--json")
        path.write_text(made["token"] + "\n")
        return path

    def daemon(self, *flags):
        return self.server("server", None, "--tls-cert", self.folder / "server.pem", "--tls-key", self.folder / "server.key",
                           "--tokens", self.tokens, *flags)

    def ask(self, daemon, path, token=None):
        """(code, body) over HTTPS."""
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token else {}
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        try:
            with urllib.request.urlopen(urllib.request.Request(f"https://{daemon.http}{path}", headers=headers), context=context,
                                        timeout=harness.DEADLINE_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def tls(self, token):
        return ("--tls-ca", self.folder / "ca.pem", "--token-file", token)

    def test_a_trainer_is_watched_over_tls_by_agent_and_directly(self):
        daemon = self.daemon()
        node = self.agent(daemon.grpc, "agent", *self.tls(self.agents))
        self.train(node.address, "team-a/by-agent", 20, name="by-agent")
        address = f"grpc://{daemon.grpc}?tls_ca={self.folder}/ca.pem&token_file={self.agents}"
        self.train(address, "team-a/direct", 20, name="direct")
        self.train(address, "team-b/foreign", 20, name="foreign")

        def runs():
            return {r["run"]: r["state"] for r in
                    self.cli("runs", *self.tls(self.ana), "--json", server=daemon.grpc)["runs"]}

        until(lambda: runs() == {"team-a/by-agent": "finished", "team-a/direct": "finished"}, lambda: f"two runs: {runs()}")
        text = self.cli("show", "team-b/foreign", *self.tls(self.ana), server=daemon.grpc, status=1)
        self.assertIn("token ana is for runs that begin with team-a/", text)
        text = self.cli("act", "team-a/direct", "stop", *self.tls(self.agents), server=daemon.grpc, status=1)
        self.assertIn("token agents lacks the scope control", text)
        # The environment does the same as the flags.
        env = {"FORESHOCK_TLS_CA": str(self.folder / "ca.pem"), "FORESHOCK_TOKEN_FILE": str(self.ana),
               "FORESHOCK_SERVER": daemon.grpc}
        self.assertIn("team-a/direct", self.cli("runs", env=env))
        code, body = self.ask(daemon, "/api/v1/runs", self.ana)
        self.assertEqual((code, "team-b" in body), (200, False), body)
        self.assertEqual(self.ask(daemon, "/api/v1/runs")[0], 401)
        self.assertEqual(self.ask(daemon, "/metrics", self.ana)[0], 403)
        self.assertEqual(self.ask(daemon, "/healthz")[0], 200)
        # No program has said a secret.
        secrets = [self.agents.read_text().strip(), self.ana.read_text().strip()]
        for process in self.processes:
            for secret in secrets:
                self.assertNotIn(secret, process.out() + process.err(), process.name)
        status = node.status.read_text()
        for secret in secrets:
            self.assertNotIn(secret, status)

    def test_errors_say_what_to_do(self):
        daemon = self.daemon()
        text = self.cli("runs", "--token-file", self.ana, server=daemon.grpc, status=1)
        self.assertIn("talks TLS: give --tls-ca", text)
        text = self.cli("runs", "--tls", "--token-file", self.ana, server=daemon.grpc, status=1)
        self.assertIn("the system's roots did not issue it", text)
        text = self.cli("runs", "--tls-ca", self.folder / "ca.pem", server=daemon.grpc, status=1)
        self.assertIn("this server needs a token; give one with --token-file", text)
        trainer = self.train(f"grpc://{daemon.grpc}", "team-a/x", 20, name="plain")
        self.assertIn("talks TLS", trainer.err())

    def test_a_revoked_agent_is_refused(self):
        daemon = self.daemon()
        node = self.agent(daemon.grpc, "agent", *self.tls(self.agents))
        self.train(node.address, "team-a/before", 20, name="before")
        self.cli("token", "revoke", "agents", "--tokens", self.tokens)
        self.assertEqual([t["name"] for t in self.cli("token", "list", "--tokens", self.tokens, "--json")["tokens"]], ["ana"])
        # 403 while the server knows the token, 401 once it has forgotten it.
        until(lambda: self.ask(daemon, "/api/v1/status", self.agents)[0] == 401, "the server to forget the token")
        self.train(node.address, "team-a/after", 20, name="after")
        until(lambda: "does not know the token" in node.status.read_text(), "the refusal in the agent's status")
        text = self.cli("token", "create", "agents", "--tokens", self.tokens, "--scope", "everything", status=2)
        self.assertIn("'everything', must be write, read or control", text)

    def test_secrets_of_the_file_are_hashes(self):
        text = self.tokens.read_text()
        self.assertEqual(len(re.findall(r'"sha256":"[0-9a-f]{64}"', text)), 2)
        self.assertNotIn("fsk_", text)
        self.assertEqual(os.stat(self.tokens).st_mode & 0o022, 0, "nobody else may write it")


if __name__ == "__main__":
    harness.main()
