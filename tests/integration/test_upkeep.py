"""Backups and deletion as an operator does them: a copy of the whole history while the server works, then a run goes."""

import json
import unittest
import urllib.error
import urllib.request

import harness


class Upkeep(harness.Case):
    def post(self, server, path, body, token=None):
        request = urllib.request.Request(f"http://{server.http}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=harness.DEADLINE_S) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_what_was_backed_up_is_served_after_its_deletion(self):
        backups = self.folder / "backups"
        backups.mkdir()
        server = self.server("server", None, "--backup-folder", backups)
        agent = self.agent(server.grpc)
        for run in ("first", "second"):
            self.train(agent.address, run, 60, name=run)
            self.await_end(server, run)
        before = self.losses(server, "first")
        self.assertGreater(len(before), 3)

        self.assertIn("--yes", self.cli("delete", "first", server=server.grpc, status=2))
        made = self.cli("backup", "one", "--json", server=server.grpc)
        self.assertEqual(made["folder"], str(backups / "one"))
        self.assertIn("there already", self.cli("backup", "one", server=server.grpc, status=1))
        self.assertIn("name", self.cli("backup", "../one", server=server.grpc, status=2))
        self.cli("delete", "first", "--yes", server=server.grpc)
        self.assertIsNone(self.run_of(server, "first"))
        self.assertIsNotNone(self.run_of(server, "second"))
        self.cli("delete", "first", "--yes", server=server.grpc, status=1)

        restored = self.server("restored", backups / "one")
        self.assertEqual(self.losses(restored, "first"), before)
        metrics = self.http(server, "/metrics").splitlines()
        for line in ("foreshock_runs_deleted_by_hand_total 1", "foreshock_backups_total 1"):
            self.assertTrue(line in metrics, line)

    def test_by_http_with_the_control_token(self):
        token = "0123456789abcdef-control"
        (self.folder / "token").write_text(token + "\n")
        server = self.server("server", None, "--control-token-file", self.folder / "token")
        agent = self.agent(server.grpc)
        self.train(agent.address, "run", 20)
        self.await_end(server, "run")
        self.assertEqual(self.post(server, "/api/v1/runs/run/delete", {})[0], 403)
        code, text = self.post(server, "/api/v1/backups", {"name": "one"}, token)
        self.assertNotEqual(code, 201)
        self.assertIn("backup_folder", text)
        self.assertEqual(self.post(server, "/api/v1/runs/run/delete", {"force": "maybe"}, token)[0], 400)
        self.assertEqual(self.post(server, "/api/v1/runs/run/delete", {}, token), (200, {}))
        self.assertIsNone(self.run_of(server, "run"))
        self.assertEqual(self.post(server, "/api/v1/runs/run/delete", {}, token)[0], 404)

    def test_a_run_that_goes_on_is_not_deleted_by_accident(self):
        server = self.server()
        agent = self.agent(server.grpc)
        trainer = self.trainer("--foreshock", agent.address, "--run", "live", "--steps", 100_000, "--quiet")
        harness.until(lambda: self.run_of(server, "live"), "the run to arrive")
        self.assertIn("going on", self.cli("delete", "live", "--yes", server=server.grpc, status=1))
        self.cli("delete", "live", "--yes", "--force", server=server.grpc)
        trainer.kill9()


if __name__ == "__main__":
    harness.main()
