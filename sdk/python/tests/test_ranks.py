"""Two processes on gloo: together they measure what one process measures."""

import json
import multiprocessing
import os
import signal
import traceback

import pytest
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.nn.functional as F

import foreshock
import models
from conftest import EVERY, with_taps
from foreshock import _patch

STEPS = 4
with_fsdp2 = pytest.mark.skipif(not hasattr(torch.distributed.fsdp, "fully_shard"), reason="this PyTorch's FSDP2 needs a GPU")


def halves(step, rank=None):
    x, y = models.batch(step, size=4)
    return (x, y) if rank is None else (x[2 * rank: 2 * rank + 2], y[2 * rank: 2 * rank + 2])


def loop(model, inner, tmp_path, name, rank=None, **options):
    # Ranks add up gradients in another order. With a small eps Adam's first steps would make of that what no tolerance holds.
    optimizer = torch.optim.AdamW(inner.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-3)
    monitor = foreshock.watch(model, optimizer, run="ranks", address=f"file:{tmp_path}/{name}.jsonl", **EVERY, **options)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(*halves(step, rank))
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
    if monitor.staging is not None:
        model(*halves(STEPS, rank)).backward()  # one more forward brings the last step's W_{t+1}
        copied = sum(copy.tensor.numel() for copy in monitor.staging.copies.values())
        assert copied == 2 * 2 * 2 * 8 * 32, copied  # two layers' W_Q and W_K: two of four heads each, 8 of 32 wide; nothing of W_V
    monitor.close()
    assert monitor.unwatched == {}, monitor.unwatched


def ddp(rank, tmp_path):
    model = models.nanogpt()
    loop(torch.nn.parallel.DistributedDataParallel(model), model, tmp_path, f"rank{rank}", rank)


def sharded(compiled=False):
    """As torchtitan does it: each block compiled, then sharded. No hook inside of a compiled block runs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = models.nanogpt(), init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    for i, block in enumerate(model.h):
        model.h[i] = torch.compile(block, backend="aot_eager") if compiled else block
        fully_shard(model.h[i], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def fsdp2(rank, tmp_path):
    model = sharded()
    loop(model, model, tmp_path, f"rank{rank}", rank)


def fsdp2_compiled(rank, tmp_path):
    model = sharded(compiled=True)
    loop(model, model, tmp_path, f"rank{rank}", rank)


def fsdp2_at_every_third(rank, tmp_path):
    """Steps end inside of the next backward: it must find every layer awake, and leave compiled code in peace."""
    for compiled in (False, True)[: 1 + _patch.compiled_taps]:
        model = sharded(compiled)
        optimizers = [torch.optim.AdamW(part, lr=1e-2) for part in (list(model.h.parameters()), [model.wte.weight, model.wpe.weight])]
        monitor = foreshock.watch(model, optimizers, run="ranks", address=f"file:{tmp_path}/{compiled}{rank}.jsonl",
                                  **{**EVERY, "attention_every_steps": 3, "spectra_every_steps": 3})
        reset, resets = torch.compiler.reset, []
        torch.compiler.reset = lambda: resets.append(1)
        for step in range(8):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = model(*halves(step, rank))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            if step < 4:
                monitor.step(loss=loss)  # afterwards the optimizers' steps are counted
        monitor.close()
        torch.compiler.reset = reset
        assert resets == [] and monitor.unwatched == {}, (resets, monitor.unwatched)


COLLECTIVES = ("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "reduce_scatter_tensor", "broadcast",
               "broadcast_object_list", "barrier", "gather", "scatter", "reduce", "send", "recv", "all_to_all", "monitored_barrier")


def one_rank_has_no_data(rank, tmp_path):
    """Rank 1 watches and never trains: rank 0 must not wait for it, nor either of them call anything that could."""
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def refuse(*args, **kwargs):
        raise AssertionError("a collective")

    kept = {name: getattr(dist, name) for name in COLLECTIVES}
    for name in COLLECTIVES:
        setattr(dist, name, refuse)
    try:
        monitor = foreshock.watch(model, optimizer, run="ranks", address=f"file:{tmp_path}/rank{rank}.jsonl", **EVERY)
        if rank == 0:
            models.train(model, optimizer, 3, monitor)
        monitor.close()
        assert monitor.unwatched == {}
    finally:
        for name, function in kept.items():
            setattr(dist, name, function)


class ColumnAttention(models.CausalSelfAttention):
    """Half of the heads of models.CausalSelfAttention, as a tensor-parallel rank holds them: separate projections."""

    def __init__(self, whole, rank):
        torch.nn.Module.__init__(self)
        dim, self.n_head, self.rank = whole.c_proj.weight.shape[0], whole.n_head // 2, rank
        half = dim // 2
        self.wq, self.wk, self.wv = (torch.nn.Linear(dim, half) for _ in range(3))
        self.wo = torch.nn.Linear(half, dim, bias=False)
        with torch.no_grad():
            for i, linear in enumerate((self.wq, self.wk, self.wv)):
                rows = slice(i * dim + rank * half, i * dim + (rank + 1) * half)
                linear.weight.copy_(whole.c_attn.weight[rows])
                linear.bias.copy_(whole.c_attn.bias[rows])
            self.wo.weight.copy_(whole.c_proj.weight[:, rank * half: (rank + 1) * half])
            self.bias = torch.nn.Parameter(whole.c_proj.bias.detach().clone())

    def forward(self, x):
        import torch.distributed.nn.functional as along

        b, s, _ = x.shape
        q, k, v = (f(x).view(b, s, self.n_head, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, -1)
        return along.all_reduce(self.wo(y)) + self.bias


def tensor_parallel(rank, tmp_path):
    model = models.nanogpt()
    for block in model.h:
        block.attn = ColumnAttention(block.attn, rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # one step's measurements: gradients here need not be synchronised
    monitor = foreshock.watch(model, optimizer, run="ranks", address=f"file:{tmp_path}/rank{rank}.jsonl",
                              tensor_parallel=(rank, 2), **EVERY)
    loss = model(*halves(0))
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
    monitor.close()
    assert monitor.unwatched == {}, monitor.unwatched


def child(rank, what, tmp_path, errors):
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=rank, world_size=2)
        what(rank, tmp_path)
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        errors.put(f"rank {rank}: {traceback.format_exc()}")
        raise


def start_ranks(what, tmp_path):
    """Two processes of their own: a fork of one in which autograd has run on threads cannot run it."""
    context = multiprocessing.get_context("spawn")
    errors = context.Queue()
    ranks = [context.Process(target=child, args=(rank, what, tmp_path, errors)) for rank in range(2)]
    for process in ranks:
        process.start()
    return ranks, errors


def two_processes(what, tmp_path):
    ranks, errors = start_ranks(what, tmp_path)
    for process in ranks:
        process.join(600)
    failed = [p.exitcode for p in ranks]
    for process in ranks:
        if process.is_alive():
            process.kill()
    assert failed == [0, 0], "\n".join(errors.get() for _ in range(errors.qsize())) if not errors.empty() else failed


def steps_of(path):
    frames = [json.loads(line) for line in path.read_text().splitlines()]
    return {f["step"]: f for f in frames if "step" in f and "event" not in f}


WEIGHTS = ("wq_sigma1", "wq_stable_rank", "wk_sigma1", "qk_sigma1")
MEANS = ("saturated_row_fraction", "entropy_mean", "lse_mean", "sink_weight_mean")


def compare(tmp_path, steps, per_rank_heads=False):
    one = steps_of(tmp_path / "one.jsonl")
    ranks = [steps_of(tmp_path / f"rank{r}.jsonl") for r in range(2)]
    for step in steps:
        for layer in range(2):
            def of(frames, signal, head):
                values = frames[step][signal][layer]
                return None if values is None else values[head]
            for head in range(4):
                for signal in WEIGHTS + ("update_projection_1",):
                    parts = [v for v in (of(r, signal, head) for r in ranks) if v is not None]
                    assert len(parts) == 1, (step, signal, layer, head, parts)
                    assert parts[0] == pytest.approx(of(one, signal, head), rel=2e-3, abs=2e-4), (step, signal, layer, head)
                if per_rank_heads:
                    owner = ranks[head // 2]
                    assert of(owner, "logit_max", head) == pytest.approx(of(one, "logit_max", head), rel=1e-4)
                    continue
                assert max(of(r, "logit_max", head) for r in ranks) == pytest.approx(
                    of(one, "logit_max", head), rel=2e-3, abs=1e-3), (step, layer, head)
                for signal in MEANS:
                    mean = sum(of(r, signal, head) for r in ranks) / 2  # as many rows on each
                    assert mean == pytest.approx(of(one, signal, head), rel=2e-3, abs=2e-3), (step, signal, layer, head)


@pytest.mark.parametrize("what", [ddp, pytest.param(fsdp2, marks=with_fsdp2), pytest.param(fsdp2_compiled, marks=[with_fsdp2, with_taps])])
def test_data_parallel(tmp_path, what):
    model = models.nanogpt()
    loop(model, model, tmp_path, "one")
    two_processes(what, tmp_path)
    compare(tmp_path, range(STEPS))
    for rank in range(2):
        assert [steps_of(tmp_path / f"rank{rank}.jsonl")[step]["tokens"] for step in range(STEPS)] == [2 * 24] * STEPS


def test_a_rank_without_data_holds_up_nobody(tmp_path):
    two_processes(one_rank_has_no_data, tmp_path)
    assert sorted(steps_of(tmp_path / "rank0.jsonl")) == [0, 1, 2]
    assert not (tmp_path / "rank1.jsonl").exists(), "it never began"


@with_fsdp2
def test_fsdp2_has_every_layer_in_every_sample(tmp_path):
    two_processes(fsdp2_at_every_third, tmp_path)
    for name in ("False0", "False1", "True0", "True1")[: 2 + 2 * _patch.compiled_taps]:
        steps = steps_of(tmp_path / f"{name}.jsonl")
        assert sorted(steps) == list(range(8))
        sampled = [s for s, f in steps.items() if "logit_max" in f]
        assert sampled == [0, 3, 6]
        for step in sampled:
            assert all(v is not None for layer in steps[step]["logit_max"] for v in layer or [None]), (name, step)


def test_tensor_parallel_heads_are_global(tmp_path):
    model = models.nanogpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    monitor = foreshock.watch(model, optimizer, run="ranks", address=f"file:{tmp_path}/one.jsonl", **EVERY)
    loss = model(*halves(0))
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
    monitor.close()
    two_processes(tensor_parallel, tmp_path)
    compare(tmp_path, [0], per_rank_heads=True)


def guarded(rank, tmp_path):
    """Trains until a few steps behind the switch; writes which layers were normalised in each step's forward."""
    from harness import until

    torch.manual_seed(0)
    model = models.nanogpt(heads=2)  # heads of 16
    ddp_model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = foreshock.watch(ddp_model, optimizer, run="two", address=(tmp_path / "address").read_text(), **EVERY)
    guard = foreshock.guard(ddp_model, mode="qk_norm")
    assert not guard.automatic, "ranks could switch at different steps"
    for mode in ("qk_clip", "projection"):
        with pytest.raises(ValueError, match="needs one process"):
            foreshock.guard(ddp_model, mode=mode)
    with pytest.raises(RuntimeError, match="would clip differently"):
        guard._clip_action(None, [])
    active, step, steps = [], 0, 10**9
    while step < steps:
        optimizer.zero_grad()
        loss = ddp_model(*halves(step, rank))
        active.append(guard.active_layers())
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step == 10:
            (tmp_path / f"waits{rank}").touch()
        if (tmp_path / "effective").exists():  # ten seconds of steps ahead: both ranks read it before they are there
            steps = int((tmp_path / "effective").read_text()) + 5
        step += 1
    monitor.close()
    (tmp_path / f"active{rank}.json").write_text(json.dumps(active))


def test_the_guard_switches_at_one_step_on_all_ranks(tmp_path, servers):
    from harness import until

    server = servers.server()
    (tmp_path / "address").write_text(servers.agent(server.grpc).address)
    ranks, errors = start_ranks(guarded, tmp_path)
    running = lambda: all(p.exitcode in (None, 0) for p in ranks)
    until(lambda: not running() or all((tmp_path / f"waits{r}").exists() for r in range(2)), "both ranks at step 10")
    until(lambda: not running() or servers.run_of(server, "two"), "the run")
    assert running(), errors.get()
    proposal = servers.post(server, "/api/v1/runs/two/actions", {"kind": "enable_qk_norm", "layers": [1]})["action"]
    action_of = lambda: next(a for a in servers.get(server, "/api/v1/runs/two/actions")["actions"] if a["action"]["id"] == proposal["id"])
    until(lambda: not running() or action_of()["state"] == "committed", "both acknowledgements")
    assert running(), errors.get()
    record = action_of()
    effective = int(record["action"]["effective_step"])
    assert record["two_phase"] and record["action"]["committed"]
    assert effective >= 10 + 20, "ahead of both ranks"
    (tmp_path / "new").write_text(str(effective))
    (tmp_path / "new").rename(tmp_path / "effective")
    for process in ranks:
        process.join(600)
    assert [p.exitcode for p in ranks] == [0, 0], errors.get() if not errors.empty() else "a rank hangs"
    active = [json.loads((tmp_path / f"active{r}.json").read_text()) for r in range(2)]
    assert active[0] == active[1]
    switch = active[0].index([1])
    assert switch in (effective, effective + 1) and all(x == [1] for x in active[0][switch:]) and not any(active[0][:switch])
    until(lambda: action_of()["state"] in ("taken", "effective", "no_effect"), "their word")
    record = action_of()
    acknowledged = [e for e in record["history"] if e["action_state"] == "acknowledged"]
    assert len(acknowledged) >= 2 and "late" not in record.get("detail", "")


def apart(rank, tmp_path):
    """Ranks without collectives, so that one goes on where the other stands still."""
    model = models.nanogpt(heads=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = foreshock.watch(model, optimizer, run="two", address=(tmp_path / "address").read_text(), **EVERY)
    guard = foreshock.guard(model, mode="qk_norm")
    active, step = [], 0
    while not (tmp_path / "enough").exists():
        models.train(model, optimizer, 1, monitor)
        active.append(guard.active_layers())
        (tmp_path / f"at{rank}.new").write_text(str(step))
        (tmp_path / f"at{rank}.new").rename(tmp_path / f"at{rank}")
        step += 1
    monitor.close()
    (tmp_path / f"active{rank}.json").write_text(json.dumps(active))
    if rank == 0 and (tmp_path / "killed").exists():
        os._exit(0)  # nobody left to meet at the end


@pytest.mark.parametrize("how", ["killed", "suspended"])
def test_nobody_switches_where_one_rank_does_not_acknowledge(tmp_path, servers, how):
    from harness import until

    config = tmp_path / "server.yaml"
    config.write_text("acknowledge_seconds: 3\n")
    server = servers.server("server", None, "--config", config)
    (tmp_path / "address").write_text(servers.agent(server.grpc).address)
    ranks, errors = start_ranks(apart, tmp_path)
    at = lambda rank: int((tmp_path / f"at{rank}").read_text()) if (tmp_path / f"at{rank}").exists() else -1
    running = lambda: all(p.exitcode in (None, 0) for p in ranks)

    def known():
        try:
            return all(servers.get(server, "/api/v1/runs/two/series", signal="loss", rank=rank)["points"] for rank in range(2))
        except AssertionError:
            return False  # 404 so far

    until(lambda: not running() or known(), "both ranks")
    assert running(), errors.get()
    if how == "killed":
        (tmp_path / "killed").touch()
        ranks[1].kill()
        ranks[1].join(60)
    else:
        os.kill(ranks[1].pid, signal.SIGSTOP)
    proposal = servers.post(server, "/api/v1/runs/two/actions", {"kind": "enable_qk_norm"})["action"]
    action_of = lambda: next(a for a in servers.get(server, "/api/v1/runs/two/actions")["actions"] if a["action"]["id"] == proposal["id"])
    until(lambda: action_of()["detail"] == "waits for rank 1", "rank 0's acknowledgement")
    until(lambda: action_of()["state"] == "withdrawn", "the end of the patience")
    assert action_of()["detail"] == "rank 1 did not acknowledge"
    if how == "suspended":
        os.kill(ranks[1].pid, signal.SIGCONT)
    said = lambda: {e["action_state"] for e in action_of()["history"]}
    here = at(0), at(1)
    until(lambda: at(0) >= here[0] + 20 and (how == "killed" or at(1) >= here[1] + 20), "twenty more steps")
    (tmp_path / "enough").touch()
    for process in ranks[: 1 if how == "killed" else 2]:
        process.join(120)
        assert process.exitcode == 0, errors.get() if not errors.empty() else "a rank hangs"
    for rank in range(1 if how == "killed" else 2):
        active = json.loads((tmp_path / f"active{rank}.json").read_text())
        assert len(active) > 20 and not any(active)
    assert action_of()["state"] == "withdrawn" and said() <= {"acknowledged"}
