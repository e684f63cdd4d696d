"""Starts and stops the real programs on free loopback ports, in a folder of their own.

FORESHOCK_BUILD_DIR says which build to test. Everything that a test starts is stopped by its own pid when the test
ends, and a sanitizer's complaint in any program's output fails the test. Standard library only.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(os.environ.get("FORESHOCK_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("FORESHOCK_BUILD_DIR", SOURCE / "build"))
BIN = BUILD / "bin"
DEADLINE_S = 120  # of waits: generous, because sanitized builds on a busy machine are slow; nothing is asserted by it
COMPLAINTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:")


def until(condition, what, deadline_s=DEADLINE_S):
    """The first true value of condition(); fails with `what` when none comes."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"waited {deadline_s} s for {what() if callable(what) else what}")
        time.sleep(0.02)


def free_port():
    """A port that was free a moment ago: only for servers that cannot take port 0."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """A program with its output in files. Signals go to its own pid only."""

    def __init__(self, name, argv, folder, env=None, cwd=None):
        self.name = name
        self.out_path = folder / f"{name}.out"
        self.err_path = folder / f"{name}.err"
        with open(self.out_path, "ab") as out, open(self.err_path, "ab") as err:
            self.popen = subprocess.Popen([str(a) for a in argv], stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                          env=env, cwd=cwd)

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def wait(self, deadline_s=DEADLINE_S):
        try:
            return self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {deadline_s} s:\n{self.err()[-2000:]}") from None

    def signal(self, number):
        if self.running():
            os.kill(self.pid, number)

    def kill9(self):
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self):
        """SIGTERM, then the exit status; a program that does not stop is killed and reported."""
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(30)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"{self.name} did not stop within 30 s of SIGTERM") from None


class Case(unittest.TestCase):
    """A test with a folder (short path: unix sockets) and programs that end with it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fs-", dir="/tmp"))
        self.processes = []
        self.prefixes = {}  # what stands before a program's command, by name: where it runs
        self.addCleanup(self._clean)

    def _clean(self):
        complaints = []
        for process in reversed(self.processes):
            if process.running():
                try:
                    process.stop()
                except AssertionError as error:
                    complaints.append(str(error))
            text = process.err() + process.out()
            complaints += [f"{process.name}: {text[text.index(c):][:3000]}" for c in COMPLAINTS if c in text]
        failed = any(error for _, error in getattr(self._outcome, "errors", [])) or complaints
        if failed:
            for process in self.processes:
                print(f"--- {process.name}: exit status {process.popen.returncode}\n{process.err()[-1500:]}")
        shutil.rmtree(self.folder, ignore_errors=True)
        if complaints:
            self.fail("\n".join(complaints))

    def start(self, name, argv, env=None, cwd=None):
        argv = [*self.prefixes.get(name, ()), *argv]
        process = Process(name, argv, self.folder, env=self.environment(env), cwd=cwd)
        self.processes.append(process)
        return process

    @staticmethod
    def environment(extra=None):
        """This process's, without what would change a program's behaviour."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("FORESHOCK_", "SLURM_", "TORCHELASTIC_"))}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            env.pop(name, None)
        env["FORESHOCK_GRPC_LIBRARY"] = str(BUILD / "lib" / "libforeshock_grpc.so")
        env.update(extra or {})
        return env

    def alertmanager(self, config):
        """Debian's Alertmanager with this configuration file, ready; its URL. Skips the test where there is none."""
        if shutil.which("prometheus-alertmanager") is None:
            self.skipTest("prometheus-alertmanager is not installed")
        port = free_port()
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
        return base

    def certificates(self, *names):
        """By docs/security.md's own commands: ca.pem, server.pem and server.key in the folder, for these names of the server
        ("DNS:fs.example", "IP:127.0.0.1")."""
        text = (SOURCE / "docs" / "security.md").read_text().replace("\\\n", " ")
        for command in re.findall(r"^openssl req .*$", text, re.M):
            subprocess.run(command.replace("DNS:fs.example", ",".join(names)).split(), cwd=self.folder, capture_output=True,
                           check=True, timeout=60)

    # ---- Foreshock's own programs

    def server(self, name="server", data=None, *flags, grpc="127.0.0.1:0", http="127.0.0.1:0"):
        """foreshockd, listening; with .grpc and .http as host:port."""
        ready = self.folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        argv = [BIN / "foreshockd", "--data", data or self.folder / f"{name}.data", "--grpc", grpc, "--http", http,
                "--ready-file", ready, *flags]
        process = self.start(name, argv)
        until(lambda: ready.exists() or not process.running(), "the server to listen")
        self.assertTrue(process.running(), f"{name} ended: {process.err()}")
        ports = json.loads(ready.read_text())
        process.grpc, process.http = f"127.0.0.1:{ports['grpc']}", f"127.0.0.1:{ports['http']}"
        return process

    def agent(self, server, name="agent", *flags):
        """foreshock-agent, listening; with .address for trainers."""
        path = self.folder / f"{name}.sock"
        status = self.folder / f"{name}.sock.status.json"
        status.unlink(missing_ok=True)
        argv = [BIN / "foreshock-agent", "--socket", path, "--spool", self.folder / f"{name}.spool", "--server", server,
                *flags]
        process = self.start(name, argv)
        until(lambda: status.exists() or not process.running(), "the agent to listen")
        self.assertTrue(process.running(), f"{name} ended: {process.err()}")
        process.address, process.status = f"unix:{path}", status
        return process

    def trainer(self, *flags, name="trainer", env=None, prefix=()):
        data = [] if "--data" in flags else ["--data", self.text()]
        return self.start(name, [*prefix, BIN / "foreshock-trainer", "--row-every", "1", "--budget", "1", *data, *flags],
                          env)

    def text(self):
        """A small text to train on, always the same."""
        path = self.folder / "text.txt"
        if not path.exists():
            lines = [f"{i}: the quick brown fox jumps over {i * i % 97} lazy dogs\n" for i in range(4000)]
            path.write_text("".join(lines))
        return path

    def train(self, address, run, steps, *flags, name="trainer", env=None):
        """A whole run; fails when the trainer does."""
        process = self.trainer("--foreshock", address, "--run", run, "--steps", steps, "--quiet", *flags, name=name,
                               env=env)
        self.assertEqual(process.wait(300), 0, process.err())
        return process

    # ---- asking

    def cli(self, *words, server=None, status=0, env=None):
        """The command line's standard output; with --json among the words, what it says as Python values."""
        argv = [str(BIN / "foreshock"), *map(str, words)]
        if server is not None:
            argv += ["--server", server]
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment(env), timeout=DEADLINE_S,
                              check=False)
        self.assertEqual(done.returncode, status, f"{argv}: {done.stdout[-500:]} {done.stderr}")
        return json.loads(done.stdout) if "--json" in words and status == 0 else done.stdout + done.stderr

    def http(self, server, path, expect=200, **query):
        """The body of a GET, as text."""
        url = f"http://{server.http}{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query, doseq=True)
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
                code, body = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            code, body = error.code, error.read().decode()
        self.assertEqual(code, expect, f"{url}: {body[:500]}")
        return body

    def get(self, server, path, **query):
        return json.loads(self.http(server, path, **query))

    def run_of(self, server, run):
        """The run as the server has it, or None."""
        runs = self.get(server, "/api/v1/runs", prefix=run)["runs"]
        return next((r for r in runs if r["run"] == run), None)

    def await_end(self, server, run):
        """The run, once its announced end has arrived."""
        def ended():
            found = self.run_of(server, run)
            return found if found and found["state"] in ("finished", "failed", "stopped") else None
        return until(ended, lambda: f"the end of {run}: {self.run_of(server, run)}")

    def losses(self, server, run, **query):
        """[(step, loss)] as stored, in the server's order."""
        points = self.get(server, f"/api/v1/runs/{run}/series", signal="loss", **query)["points"]
        return [(p["step"], scalar(p["series"])) for p in points]


def scalar(series):
    """The one value of a scalar's series."""
    value = series["values"][0] if "values" in series else series["value"]
    return value["value"] if isinstance(value, dict) else value


def main():
    unittest.main(verbosity=2)
