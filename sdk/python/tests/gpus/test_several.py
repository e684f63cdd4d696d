"""Several ranks of one host, a real agent and server: the same signals as one process, the same silence.

On two GPUs (scripts/gpu-test --gpus 2): GPT-2 124M, bf16, torch.compile, NCCL. Without a GPU a small model on gloo goes the same way.
With one GPU it is skipped: that is too few.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch

import harness
from harness import until

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import expect  # noqa: E402

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
TINY = {"layers": 2, "dim": 128, "heads": 4, "vocabulary": 256, "context": 64}
SHAPE = {"layers": 12, "dim": 768, "heads": 12, "vocabulary": 50304, "context": 1024} if GPUS else TINY
EXPECT = [0, 1, 2]
FAULT = {"rank": 1, "layer": 1, "head": 3, "ulp": 16, "step": 2}
# Rounding takes turns over the layers: at every step it would hardly have one.
EVERY_TEN = {"attention_every_steps": 10, "spectra_every_steps": 10, "row_every": 1, "budget": 1.0}
FAULTY = range(0, 61, 10) if GPUS else range(10)
EVERY_FAULTY = {"every": EVERY_TEN} if GPUS else {}
ADDED = ("output_rounding_bias", "delta_output_bias")

pytestmark = [
    pytest.mark.skipif(GPUS == 1, reason="needs 2 GPUs of one host, there is 1 (without any, gloo carries it)"),
    pytest.mark.skipif(not (harness.BIN / "foreshockd").exists(), reason=f"no foreshockd in {harness.BIN}: ranks are merged by the server")]


def environment(**extra):
    env = harness.Case.environment({"FORESHOCK_LIBRARY": os.environ["FORESHOCK_LIBRARY"], "OMP_NUM_THREADS": "1",
                                    "TORCHINDUCTOR_COMPILE_THREADS": "4", "PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    return {**env, **{k: str(v) for k, v in extra.items()}}


def command(how, out, **options):
    """trainer.py's words."""
    words = [str(HERE / "trainer.py"), "--how", how, "--out", str(out)]
    for name, value in options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return words


class Launcher:
    """torchrun over two ranks, or one process; waits once."""

    def __init__(self, how, out, nproc=None, **options):
        out.mkdir(parents=True)
        self.out, self.how = out, how
        nproc = nproc or (1 if how == "one" else 2)
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc)] if nproc > 1 else [sys.executable]
        eager = {} if GPUS else {"eager": True}
        with open(out / "log", "wb") as log:
            self.popen = subprocess.Popen([*start, *command(how, out, **eager, **options)], stdout=log, stderr=log, env=environment())

    def reports(self):
        """[what each rank wrote]; fails with the log's end."""
        try:
            code = self.popen.wait(400)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            code = "timeout"
        assert code == 0, f"{self.out.name}: {code}\n" + (self.out / "log").read_text(errors="replace")[-9000:]
        return [json.loads(p.read_text()) for p in sorted(self.out.glob("rank*.json"))]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(case, server, {name: Launcher}): every training of this file, all at once."""
    folder = tmp_path_factory.mktemp("several")
    case = harness.Case()
    case.setUp()
    server = case.server()
    address = case.agent(server.grpc).address
    watched = {"address": address, "shape": SHAPE}
    runs = {how: Launcher(how, folder / how, name=how, steps=4, expect=EXPECT, size=8 if how == "one" else 4, **watched)
            for how in ("one", "ddp", "fsdp2")}
    runs["tp"] = Launcher("tp", folder / "tp", name="tp", steps=4, expect=EXPECT, size=4, **watched)
    runs["fault"] = Launcher("ddp", folder / "fault", name="fault", steps=FAULTY[-1] + 1, size=4, fault=FAULT, **EVERY_FAULTY, **watched)
    yield case, server, runs
    for run in runs.values():
        if run.popen.poll() is None:
            run.popen.terminate()
    case.doCleanups()


class Frame:
    """One stored step: {(signal, layer): {head: value}}."""

    def __init__(self, case, server, run, step, **rank):
        got = case.get(server, f"/api/v1/runs/{run}/step/{step}", exact="true", **rank)["frame"]
        self.rows, self.doubled = {}, []
        for series in got["series"]:
            key = series["signal"], series.get("layer")
            if key in self.rows or len(set(series.get("heads", []))) != len(series.get("heads", [])):
                self.doubled.append(key)
            values = [v["value"] if isinstance(v, dict) else v for v in series["values"]]
            self.rows[key] = dict(zip(series.get("heads", range(len(values))), values))


def stored(case, server, run, step, ranks=2):
    """The merged frame, once every rank's has come."""
    until(lambda: all(s["last_step"] >= step for a in (case.run_of(server, run) or {"attempts": []})["attempts"] for s in a["sources"]),
          "the ranks' frames")
    def merged():
        try:
            return Frame(case, server, run, step)
        except AssertionError:
            return None
    return until(merged, f"step {step} of {run}")


@pytest.mark.parametrize("how", ["one", "ddp", "fsdp2", "tp"])
def test_every_head_once_and_as_one_process_measures_it(world, how):
    case, server, runs = world
    reports = runs[how].reports()
    assert [r["unwatched"] for r in reports] == [{}] * len(reports)
    case.await_end(server, how)
    heads, worst, rounding = set(range(SHAPE["heads"])), {}, 0
    for step in EXPECT:
        frame = stored(case, server, how, step)
        assert frame.doubled == []
        each = [Frame(case, server, how, step, rank=r).rows for r in range(len(reports))]
        parts = [r["expect"][str(step)] for r in reports]
        for layer in range(SHAPE["layers"]):
            rows = sum(p["attention"][layer]["entropy_mean"][0][1] for p in parts) // (len(parts) if how == "tp" else 1)
            want = expect.merged([p["attention"][layer] for p in parts], how)
            want.update(parts[0]["weights"][layer], update_projection_1=parts[0]["projections"][layer])
            if ("output_rounding_bias", layer) not in frame.rows:
                for name in ADDED:  # rounding takes turns over the layers
                    del want[name]
            elif any(("output_rounding_bias", layer) not in e for e in each):
                for name in ADDED:
                    del want[name]  # not of every rank in this step
            else:
                rounding += 1
            for signal, values in want.items():
                row = frame.rows.get((signal, layer), {})
                assert set(row) == heads and len(values) == len(heads), (how, step, layer, signal, sorted(row))
                for head, value in enumerate(values):
                    sigma1 = {"wq": want["wq_sigma1"][head], "wk": want["wk_sigma1"][head]}
                    error = expect.error_of(signal, row[head], value, sigma1, rows)
                    worst[signal] = max(worst.get(signal, (0,)), (error, step, layer, head, row[head], value))
    print(f"\n{how}: largest error, 1 is what is allowed; rounding compared in {rounding} layers")
    for signal, (error, *where) in sorted(worst.items()):
        print(f"  {signal:28} {error:10.3g}  {where}")
    assert rounding > 0
    wrong = {s: w for s, w in worst.items() if not w[0] <= 1}
    assert not wrong, (how, wrong)


def test_as_the_one_process_run(world):
    """The trainings themselves part by what bf16 and other orders of adding do; their signals stay together."""
    case, server, runs = world
    for how in ("ddp", "fsdp2"):
        runs[how].reports()
        for step in EXPECT:
            one, several = stored(case, server, "one", step).rows, stored(case, server, how, step).rows
            far = {}
            for (signal, layer), row in one.items():
                if signal in ("wq_sigma1", "wk_sigma1", "qk_sigma1", "wq_stable_rank", "logit_max", "entropy_mean", "lse_mean"):
                    for head, value in row.items():
                        far[signal] = max(far.get(signal, 0), abs(several[signal, layer][head] - value) / max(1, abs(value)))
            print(f"\n{how} step {step} from one process: " + ", ".join(f"{s} {x:.2g}" for s, x in sorted(far.items())))
            if step == 0:  # later ones: Adam's first update is a sign, whatever the size of a gradient
                assert all(x < (1e-5 if s[0] in "wq" else 2e-2) for s, x in far.items()), (how, step, far)


def test_a_fault_of_one_rank_is_seen_and_told_apart(world):
    case, server, runs = world
    runs["fault"].reports()
    case.await_end(server, "fault")
    stored(case, server, "fault", FAULTY[-1])
    seen = 0
    for step in FAULTY:
        ranks = [Frame(case, server, "fault", step, rank=r).rows.get(("output_rounding_bias", FAULT["layer"])) for r in range(2)]
        if None in ranks or None in (ranks[0][FAULT["head"]], ranks[1][FAULT["head"]]):
            continue
        print(f"step {step}: output_rounding_bias, rank 0 {ranks[0][FAULT['head']]:.4f}, rank 1 {ranks[1][FAULT['head']]:.4f}")
        assert all(abs(x) < 0.5 for x in ranks[0].values()), "rank 0 is healthy"
        assert all(abs(x) < 0.5 for h, x in ranks[1].items() if h != FAULT["head"]), "so are rank 1's other heads"
        if step < FAULT["step"]:
            assert abs(ranks[1][FAULT["head"]]) < 0.5
            continue
        seen += 1
        assert 0.8 * FAULT["ulp"] < ranks[1][FAULT["head"]] < 1.2 * FAULT["ulp"]
        both = stored(case, server, "fault", step).rows["output_rounding_bias", FAULT["layer"]]
        assert 0.3 * FAULT["ulp"] < both[FAULT["head"]] < 0.7 * FAULT["ulp"], "merged: of both ranks' rows"
        assert all(abs(x) < 0.5 for h, x in both.items() if h != FAULT["head"])
    assert seen > 0, "the layer had no turn"


# ---- what dies

LONG = {"shape": TINY, "steps": 4000, "size": 2, "pause": 0.02, "eager": True, "timeout": 20,
        "every": {"attention_every_steps": 10, "spectra_every_steps": 10, "row_every": 1, "budget": 1.0}}


class Pair:
    """Two ranks started by hand: a launcher would end the other when one dies. how "one": they share nothing (local training)."""

    def __init__(self, case, how, out, name, **options):
        port = harness.free_port()
        self.out, self.ranks = out, []
        for rank in range(2):
            env = environment(RANK=rank, LOCAL_RANK=rank if GPUS else 0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                              MASTER_PORT=port, FORESHOCK_ATTEMPT="1")
            self.ranks.append(harness.Process(f"{name}{rank}", [sys.executable, *command(how, out, name=name, **LONG, **options)],
                                              case.folder, env=env))
        case.processes += self.ranks

    def step(self, rank):
        path = self.out / f"step{rank}"
        return int(path.read_text()) if path.exists() else -1

    def reach(self, step, rank=0):
        until(lambda: self.step(rank) >= step or not self.ranks[rank].running(),
              lambda: f"step {step}; at {self.step(rank)}: {self.ranks[rank].err()[-1500:]}")
        assert self.step(rank) >= step, self.ranks[rank].err()[-3000:]


def check_nothing_is_lost(case, server, run, rank, at_least):
    """Steps of a rank: each once, in order, and none missing but those that were declared lost."""
    source = next(s for s in case.run_of(server, run)["attempts"][0]["sources"] if s["rank"] == rank)
    steps = [s for s, _ in case.losses(server, run, rank=rank)]
    assert steps == sorted(set(steps))
    assert steps[0] == 0 and steps[-1] >= at_least
    missing = steps[-1] + 1 - len(steps)
    print(f"{run} rank {rank}: steps to {steps[-1]}, missing {missing}, declared lost {source['dropped']}, duplicates {source['duplicates']}")
    assert missing <= source["dropped"]
    return steps[-1]


@pytest.mark.parametrize("how", ["one", "ddp"])
def test_agent_and_one_rank_are_killed(tmp_path, servers, how):
    name = f"dies-{how}"
    server = servers.server()
    agent = servers.agent(server.grpc)
    watched = Pair(servers, how, tmp_path / "watched", name, address=agent.address)
    plain = Pair(servers, how, tmp_path / "plain", name + "-plain") if how == "ddp" else None
    watched.reach(60)
    agent.kill9()
    at = watched.step(0)
    watched.reach(at + 40)  # nobody waits for an agent
    agent = servers.agent(server.grpc)
    watched.reach(watched.step(0) + 60)
    until(lambda: len(servers.losses(server, name, rank=1)) > at + 20, "rank 1 through the new agent")
    killed_at = watched.step(1)
    watched.ranks[1].kill9()
    if plain is not None:
        plain.reach(60)
        plain.ranks[1].kill9()
        ends = [pair.ranks[0].wait(120) for pair in (watched, plain)]
        print(f"\nrank 0 ends with {ends[0]}, unwatched with {ends[1]}; rank 1 was killed after step {killed_at}")
        assert (ends[0] == 0, ends[0] < 0) == (ends[1] == 0, ends[1] < 0), "as it would have"
    else:
        watched.reach(killed_at + 80)  # it trains on
        watched.ranks[0].signal(signal.SIGTERM)
        watched.ranks[0].wait(60)
    until(lambda: servers.losses(server, name, rank=0)[-1][0] >= killed_at, "rank 0's last steps")
    last = [check_nothing_is_lost(servers, server, name, rank, killed_at - 2) for rank in range(2)]
    shown = servers.cli("show", name, server=server.grpc)
    print(shown[:2500])
    if how == "one":
        assert last[1] < last[0] - 40, "the run shows who fell silent: its last step stays behind"
