"""A trainer on a GPU: the same signals as in host memory, and nobody ever waits for the device."""

import math

import pytest
import torch

import foreshock
import models
import reference
from foreshock import _tap

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

LAYERS, HEADS, DIM, CONTEXT = 2, 2, 128, 128  # heads of 64
ROUNDING = ("output_rounding_bias", "delta_output_bias", "delta_error")


def make(seed=0, scale=1.0, **options):
    model = models.nanogpt(seed, layers=LAYERS, heads=HEADS, dim=DIM, context=CONTEXT, **options).cuda()
    with torch.no_grad():
        for block in model.h:
            block.attn.c_attn.weight[: 2 * DIM].mul_(scale)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def batch(step):
    return [t.cuda() for t in models.batch(step, size=4, length=CONTEXT)]


BATCHES = {}


def train(model, optimizer, steps, monitor=None, first=0, wait=True):
    """bf16 autocast. Losses as tensors. wait: for the device, after each step: four sampled steps may be on their way at most."""
    losses = []
    for step in range(first, first + steps):
        tokens = BATCHES.get(step) or BATCHES.setdefault(step, batch(step))
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(*tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if monitor is not None:
            monitor.step(loss=loss)
        losses.append(loss.detach().clone())
        if wait:
            torch.cuda.synchronize()
    return losses


@pytest.fixture
def calls(monkeypatch):
    """What the taps were given, by (step, layer), in host memory."""
    seen, original = {}, _tap.Tap._measure

    def keep(self, dq, d_o, q, k, v, o, *rest):
        seen[self.monitor.next_step, self.index] = {
            n: t.detach().cpu().double() for n, t in zip(("dq", "d_o", "q", "k", "v", "o"), (dq, d_o, q, k, v, o))}
        return original(self, dq, d_o, q, k, v, o, *rest)

    monkeypatch.setattr(_tap.Tap, "_measure", keep)
    return seen


def expected_of(call):
    """float64 signals of the rounded tensors that attention was given."""
    q, k, v, o, d_o = (call[n] for n in ("q", "k", "v", "o", "d_o"))
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril().expand(*q.shape[:2], -1, -1)
    exact, s = reference.attention(q, k, v, keep, None, q.shape[-1] ** -0.5)
    out = reference.attention_signals({"s": s, "keep": keep})
    excess, exact, d_o = (t[:, :, 1:] for t in (o - exact, exact, d_o))  # the first row has one key
    ulp = torch.exp2(exact.abs().log2().floor() - 7)
    out["output_rounding_bias"] = ((exact.sign() * excess).sum((0, 2, 3)) / ulp.sum((0, 2, 3))).tolist()
    out["delta_output_bias"] = ((d_o * excess).sum((0, 2, 3)) / (d_o * exact).sum(-1).abs().sum((0, 2))).tolist()
    return out


def check(recording, step, layer, call):
    expected = expected_of(call)
    got = recording.layer(step, layer)
    rounding = {n: expected.pop(n) for n in ("output_rounding_bias", "delta_output_bias")}
    reference.compare(got, expected, f"step {step} layer {layer}")
    for name, values in rounding.items():
        assert got[name] == pytest.approx(values, rel=1e-2, abs=2e-4), (step, layer, name)
    assert all(abs(x) < 0.05 for x in got["delta_error"]), "bf16 rounds dQ; nothing is biased"


def check_weights(recording, step, layer, weight):
    wq, wk = (reference.heads_of(weight, DIM // HEADS, first, HEADS) for first in (0, DIM))
    reference.compare(recording.layer(step, layer), reference.weight_signals(wq, wk), f"step {step} layer {layer}")


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_signals_equal_a_float64_reference(record, calls, kind):
    torch._dynamo.reset()
    model, optimizer = make(scale=2.0)
    monitor, recording = record(model, optimizer)
    fast = torch.compile(model) if kind == "compiled" else model
    weights = []
    losses = []
    for step in range(3):
        weights.append([block.attn.c_attn.weight.detach().cpu().double() for block in model.h])
        losses += train(fast, optimizer, 1, monitor, first=step)
    monitor.close()
    assert monitor.unwatched == {}
    assert len(calls) == 3 * LAYERS
    for (step, layer), call in calls.items():
        check(recording, step, layer, call)
        check_weights(recording, step, layer, weights[step][layer])
    for step, loss in enumerate(losses):
        frame = recording.steps()[step]
        assert frame["loss"] == pytest.approx(loss.item(), rel=1e-6), "read late, and of the right step"
        assert math.isfinite(frame["grad_norm"]) and frame["tokens"] == 4 * CONTEXT


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_nobody_waits_for_the_device(record, kind):
    torch._dynamo.reset()
    model, optimizer = make()
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 2, "spectra_every_steps": 2, "row_every": 1,
                                                         "budget": 1.0})
    fast = torch.compile(model) if kind == "compiled" else model
    train(fast, optimizer, 3, monitor)
    tokens = [batch(step) for step in range(3, 8)]
    BATCHES.update(zip(range(3, 8), tokens))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses = train(fast, optimizer, 5, monitor, first=3, wait=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    monitor.close()
    assert monitor.unwatched == {}
    assert recording.steps()[7]["loss"] == pytest.approx(losses[-1].item(), rel=1e-6)
    assert recording.layer(6, 1)["logit_max"][1] is not None


def test_compiled_without_a_break_or_a_retrace(record):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    plain, optimizer = make()
    train(torch.compile(plain), optimizer, 3)
    without = counters["stats"]["unique_graphs"], dict(counters["graph_break"])
    torch._dynamo.reset()
    counters.clear()
    model, optimizer = make()
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 3, "spectra_every_steps": 3, "row_every": 1,
                                                         "budget": 1.0})
    train(torch.compile(model), optimizer, 7, monitor)
    assert (counters["stats"]["unique_graphs"], dict(counters["graph_break"])) == without
    monitor.close()
    steps = recording.steps()
    assert ["logit_max" in steps[s] for s in range(7)] == [True, False, False, True, False, False, True]


def test_cuda_graphs_are_measured_or_refused_with_a_reason(record):
    torch._dynamo.reset()
    plain, optimizer = make()
    expected = train(torch.compile(plain, mode="reduce-overhead"), optimizer, 12)
    torch._dynamo.reset()
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    losses = train(torch.compile(model, mode="reduce-overhead"), optimizer, 12, monitor)
    unwatched = dict(monitor.unwatched)
    monitor.close()
    for a, b in zip(losses, expected):
        assert a.item() == pytest.approx(b.item(), rel=1e-2)
    steps = recording.steps()
    for step in range(12):
        assert steps[step]["loss"] == pytest.approx(losses[step].item(), rel=1e-6)
    assert recording.layer(10, 0)["wq_sigma1"][0] is not None
    said = [*unwatched, *(d["detail"] for d in recording.events() if "detail" in d)]
    measured = [s for s in range(4, 12) if "logit_max" in steps[s]]
    print("steps with attention", measured, "unmonitored", said)
    assert len(measured) >= 7 or any("CUDA graph" in x or "attention" in x for x in said), said
    torch._dynamo.reset()


def test_memory_is_flat(record):
    model, optimizer = make()
    monitor, _ = record(model, optimizer)
    train(model, optimizer, 4, monitor)
    torch.cuda.synchronize()
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    for _ in range(40):
        train(model, optimizer, 1, monitor)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before
    assert torch.cuda.mem_get_info()[0] >= free - (4 << 20)
    monitor.close()


def test_training_and_state_are_the_same(record):
    """With the mathematical attention, which gives the same bits each time."""
    def losses(watch):
        model, optimizer = make()
        if watch:
            monitor, _ = record(model, optimizer)
        else:
            monitor = None
        keys = list(model.state_dict())
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            found = [x.item() for x in train(model, optimizer, 4, monitor)]
        assert list(model.state_dict()) == keys
        return found, [p.detach().clone() for p in model.parameters()]

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        (plain, a), (watched, b) = losses(False), losses(True)
    finally:
        torch.use_deterministic_algorithms(False)
    assert plain == watched
    assert all(torch.equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_the_guard_switches_on_the_device(record, kind):
    torch._dynamo.reset()
    model, optimizer = make(scale=12.0)
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_norm", automatic=False, retrace=kind == "eager")
    fast = torch.compile(model) if kind == "compiled" else model
    train(fast, optimizer, 3, monitor)
    guard.activate()
    train(fast, optimizer, 4, monitor, first=3)
    monitor.close()
    assert guard.active_layers() == [0, 1]
    # scale * head_dim is 8; bf16 rounds q and k after the normalization.
    assert max(recording.layer(2, 0)["logit_max"]) > 8.1 and max(recording.layer(6, 0)["logit_max"]) < 8.1


def test_projection_takes_updates_off_on_the_device(record):
    model, _ = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="projection")
    heads = lambda: torch.stack([b.attn.c_attn.weight.detach()[: 2 * DIM].cpu().double().unflatten(0, (2 * HEADS, -1)) for b in model.h])
    before = heads()
    train(model, optimizer, 1, monitor)
    u, _, v = torch.linalg.svd(before, full_matrices=False)
    moved = torch.einsum("lhdi,lhdm,lhim->lhi", u, heads() - before, v)[..., :3]
    assert float(moved.abs().max()) < 0.01 * float((heads() - before).flatten(2).norm(dim=-1).min())
    train(model, optimizer, 3, monitor, first=1)
    monitor.close()
    assert set(guard.removed) == set(range(LAYERS)) and all(norm > 0 for norm in guard.removed.values())
    notes = [e["detail"] for e in recording.events() if e.get("detail", "").startswith("projection layer")]
    assert len(notes) == LAYERS and all(n.endswith(", effective") for n in notes), notes


def test_masks_and_grouped_queries(record, calls):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, attn_implementation="sdpa")
    model = LlamaForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    tokens = torch.randint(64, (2, 48), device="cuda")
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    monitor.close()
    assert monitor.unwatched == {}
    for (step, layer), call in calls.items():
        times = call["q"].shape[1] // call["k"].shape[1]
        call["k"], call["v"] = (call[n].repeat_interleave(times, 1) for n in ("k", "v"))
        if call["o"].shape != call["q"].shape:
            call["o"], call["d_o"] = call["o"].transpose(1, 2), call["d_o"].transpose(1, 2)
        check(recording, step, layer, call)
