"""Real servers for tests, recordings, one thread."""

import json
import os
import pathlib
import sys
import urllib.request

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("FORESHOCK_BUILD_DIR", SOURCE / "build"))
os.environ["FORESHOCK_BUILD_DIR"] = str(BUILD)
os.environ.setdefault("FORESHOCK_LIBRARY", str(BUILD / "lib" / "libforeshock.so"))
for name in ("FORESHOCK_ADDR", "FORESHOCK_RUN", "FORESHOCK_ATTEMPT", "RANK", "WORLD_SIZE"):
    os.environ.pop(name, None)
sys.path[:0] = [str(HERE), str(HERE.parent / "src"), str(SOURCE / "tests" / "integration")]
torch.set_num_threads(1)

import harness  # noqa: E402
import foreshock  # noqa: E402
from foreshock import _patch  # noqa: E402

with_taps = pytest.mark.skipif(not _patch.compiled_taps, reason=_patch.TOO_OLD)  # of tests whose attention is compiled
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

EVERY = {"attention_every_steps": 1, "spectra_every_steps": 1, "row_every": 1, "budget": 1.0}


class Recording:
    """A run recorded as text."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def steps(self):
        return {d["step"]: d for d in self.lines() if "step" in d and "event" not in d}

    def events(self):
        return [d for d in self.lines() if "event" in d]

    def layer(self, step, layer):
        """{signal: [per head]} of a step."""
        frame = self.steps()[step]
        return {n: v[layer] for n, v in frame.items() if isinstance(v, list) and layer < len(v) and v[layer] is not None}


@pytest.fixture
def record(tmp_path):
    """record(model, optimizer, **options) -> (monitor, Recording); monitors are closed at the end."""
    monitors = []

    def make(model, optimizer=None, name="run", every=EVERY, **options):
        path = tmp_path / f"{name}.jsonl"
        monitor = foreshock.watch(model, optimizer, **{"address": f"file:{path}", "run": name, **every, **options})
        monitors.append(monitor)
        return monitor, Recording(path)

    yield make
    for monitor in monitors:
        monitor.close()


class Servers(harness.Case):
    """The integration tests' harness, driven by pytest."""

    def runTest(self):
        pass

    def layer(self, server, run, step, layer):
        """{signal: [per head]} as the server answers."""
        reply = self.get(server, f"/api/v1/runs/{run}/step/{step}", exact="true")
        number = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}
        plain = lambda v: plain(v["value"]) if isinstance(v, dict) else number.get(v, v)
        return {s["signal"]: [plain(v) for v in s["values"]] for s in reply["frame"]["series"] if s.get("layer") == layer}


    def post(self, server, path, body):
        request = urllib.request.Request(f"http://{server.http}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)


@pytest.fixture
def servers():
    case = Servers()
    case.setUp()
    yield case
    case.doCleanups()
