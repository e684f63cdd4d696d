"""The command line as a person meets it: help, exit statuses, recordings, `up` with real servers."""

import json
import os
import pathlib
import signal
import subprocess
import unittest
import venv

import harness
from harness import BIN, until

HEADER = '{"run":"r","layers":1,"heads":2,"head_dim":4,"model_dim":8,"sample_every_steps":10}\n'


class Replay(harness.Case):
    def replay(self, content, name="run.jsonl"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        done = subprocess.run([BIN / "foreshock", "replay", path, "--json"], capture_output=True, text=True, check=False,
                              errors="replace", timeout=harness.DEADLINE_S)
        return done

    def test_no_attention_signals_is_unmonitored_and_never_healthy(self):
        lines = [json.dumps({"step": s, "loss": 5.5 - s / 200, "grad_norm": 1.0}) for s in range(0, 500, 10)]
        done = self.replay(HEADER + "\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(e["rule"], e["severity"]) for e in events], [("unmonitored", "warning")])

    def test_not_finite_fires_and_every_line_is_json(self):
        lines = [json.dumps({"step": s, "loss": 2.0 if s < 300 else "NaN"}) for s in range(0, 500, 10)]
        done = self.replay(HEADER + "\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(any(e["rule"] == "non_finite" and e["severity"] == "critical" for e in events), events)

    def test_bad_recordings_are_refused_with_the_line(self):
        cases = {
            "empty": "",
            "no header": '{"step":0,"loss":1}\n',
            "not JSON": HEADER + '{"step":0,"loss":1}\n{"step":1,"loss":\n{"step":2,"loss":1}\n',
            "wrong type": HEADER + '{"step":"ten","loss":1}\n',
            "absurd shape": HEADER.replace('"layers":1', '"layers":1000000000'),
            "negative heads": HEADER.replace('"heads":2', '"heads":-2'),
            "random bytes": bytes(range(256)) * 64,
            "magic alone": b"FSK1",
            "huge length": b"FSK1\x01\x02\x00\x00\xff\xff\xff\xff" + b"x" * 100,
        }
        for name, content in cases.items():
            with self.subTest(name):
                done = self.replay(content)
                self.assertEqual(done.returncode, 2, f"{done.stdout}{done.stderr}")
                self.assertNotEqual(done.stderr.strip(), "")

    def test_an_unfinished_last_line_is_a_warning(self):
        done = self.replay(HEADER + '{"step":0,"loss":5}\n{"step":10,"loss":4.9}\n{"step":20,"lo')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("line 4: torn", done.stderr)

    def test_absurd_steps_do_not_stop_it(self):
        done = self.replay(HEADER + '{"step":0,"loss":5}\n{"step":9000000000000000000,"loss":5}\n{"step":10,"loss":5}\n')
        self.assertIn(done.returncode, (0, 2), done.stderr)

    def test_a_missing_file(self):
        self.assertIn("/no/such", self.cli("replay", "/no/such", status=2))


class Import(harness.Case):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "log.csv"
        self.log.write_text("step,loss\n" + "".join(f"{step},{5 - step / 100}\n" for step in range(0, 300, 10)))
        self.main = self.server()
        self.named = {"FORESHOCK_SERVER": self.main.grpc}

    def runs(self):
        return [run["run"] for run in self.cli("runs", "--json", server=self.main.grpc)["runs"]]

    def test_into_the_server_that_the_environment_names(self):
        self.cli("import", self.log, "--run", "past", env=self.named)
        self.assertEqual(self.runs(), ["past"])
        losses = self.losses(self.main, "past")
        self.assertEqual(len(losses), 30)
        self.assertAlmostEqual(dict(losses)[100], 4.0)

    def test_into_a_file_alone_where_only_the_environment_names_a_server(self):
        recording = self.folder / "past.jsonl"
        self.cli("import", self.log, recording, "--run", "past", env=self.named)
        self.assertTrue(recording.exists())
        self.assertEqual(self.runs(), [])

    def test_into_both_where_the_flag_names_the_server(self):
        recording = self.folder / "past.jsonl"
        self.cli("import", self.log, recording, "--run", "past", server=self.main.grpc)
        self.assertTrue(recording.exists())
        self.assertEqual(self.runs(), ["past"])

    def test_a_server_that_is_not_there(self):
        said = self.cli("import", self.log, env={"FORESHOCK_SERVER": f"127.0.0.1:{harness.free_port()}"}, status=3)
        self.assertIn("foreshock up", said)


class Up(harness.Case):
    def up(self, *flags):
        ready = self.folder / "up.json"
        process = self.start("up", [BIN / "foreshock", "up", "--data", self.folder / "data", "--grpc", "127.0.0.1:0",
                                    "--http", "127.0.0.1:0", "--ready-file", ready, *flags])
        until(lambda: ready.exists() or not process.running(), "up to be ready")
        self.assertTrue(process.running(), process.err())
        process.ready, process.addresses = ready, json.loads(ready.read_text())
        return process

    def children(self, process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def test_starts_both_trains_and_stops_both(self):
        up = self.up()
        self.assertEqual(len(self.children(up)), 2)
        children = self.children(up)
        self.train(up.addresses["agent"], "gpt", 30)
        server = up.addresses["grpc"]
        until(lambda: self.cli("runs", "--json", server=server)["runs"], "the run")
        until(lambda: self.cli("show", "gpt", "--json", server=server)["state"] == "finished", "its end")
        self.assertIn("gpt", self.cli("runs", server=server))
        self.assertIn("qk_sigma1", self.cli("heads", "gpt", server=server))
        self.assertIn("loss", self.cli("series", "gpt", "loss", "--from", 3, "--to", 9, server=server))
        self.cli("alerts", "gpt", server=server)
        self.cli("show", "nobody", server=server, status=1)
        self.cli("doctor", server=server, env={"FORESHOCK_ADDR": up.addresses["agent"]})
        self.assertEqual(up.stop(), 0, up.err())
        self.assertFalse(up.ready.exists())
        for pid in children:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), "a child outlived `up`")

    def test_a_child_that_dies_ends_it_and_is_named(self):
        up = self.up()
        agent = next(pid for pid in self.children(up)
                     if b"foreshock-agent" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(up.wait(), 3)
        self.assertIn("foreshock-agent", up.err())
        self.assertIn("signal 9", up.err())

    def test_history_survives_a_restart(self):
        first = self.up()
        self.train(first.addresses["agent"], "gpt", 20)
        until(lambda: self.cli("runs", "--json", server=first.addresses["grpc"])["runs"], "the run")
        until(lambda: self.cli("show", "gpt", "--json", server=first.addresses["grpc"])["state"] == "finished", "its end")
        first.stop()
        second = self.up()
        self.assertEqual(self.cli("show", "gpt", "--json", server=second.addresses["grpc"])["last_step"], 19)


class DoctorOfAModel(harness.Case):
    """With a Python that has torch: sdk/python/tests/test_doctor.py."""

    def doctor(self, python):
        return subprocess.run([BIN / "foreshock", "doctor", "--model", "gpt2", "--python", python], capture_output=True, text=True,
                              env=self.environment(), timeout=harness.DEADLINE_S, check=False)

    def test_no_such_python(self):
        done = self.doctor(self.folder / "python")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"python: '{self.folder}/python': No such file", done.stderr)

    def test_a_python_without_torch(self):
        venv.create(self.folder / "bare", with_pip=False, symlinks=True)
        done = self.doctor(self.folder / "bare" / "bin" / "python")
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertIn(f"python: {self.folder}/bare/bin/python: No module named 'torch'", done.stderr)
        self.assertIn("FORESHOCK_PYTHON", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Unreachable(harness.Case):
    def test_every_command_that_asks_exits_with_three(self):
        for words in (["runs"], ["show", "r"], ["series", "r", "loss"], ["heads", "r"], ["alerts"], ["watch", "r"],
                      ["summary", "r"], ["act", "r", "stop"], ["actions", "r"], ["doctor"],
                      ["report", "r", "-o", self.folder / "x.html"]):
            with self.subTest(words):
                text = self.cli(*words, server="127.0.0.1:1", status=3)
                self.assertIn("127.0.0.1:1", text)
        self.assertFalse((self.folder / "x.html").exists())


if __name__ == "__main__":
    harness.main()
