"""Each action does what it says, and says what came of it."""

import math

import pytest
import torch

import foreshock
import models
import reference
from conftest import EVERY, with_taps
from foreshock import _projection
from foreshock.attention import UNIT_GAP, shift


def make(heads=2, scale=1.0, **options):
    """Heads of 16: QK-Guard is for models with scale * head_dim >= 4."""
    model = models.nanogpt(heads=heads, **options)
    with torch.no_grad():
        for block in model.h:
            block.attn.c_attn.weight[:64].mul_(scale)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def logits(recording, step, layer=0):
    return recording.layer(step, layer)["logit_max"]


def test_normalization_by_hand_bounds_the_logits(record):
    model, optimizer = make(scale=6.0)
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_norm", automatic=False)
    models.train(model, optimizer, 2, monitor)
    assert guard.active_layers() == []
    guard.activate(1)
    models.train(model, optimizer, 3, monitor, first=2)
    assert guard.active_layers() == [1]
    monitor.close()
    assert max(logits(recording, 1, 1)) > 4.5
    assert max(logits(recording, 3, 1)) < 4.0001, "scale * head_dim is 4"
    assert max(logits(recording, 3, 0)) > 4.5, "the other layer goes on as before"


def test_normalised_attention_and_its_gradient_are_measured_as_they_are(record):
    model, optimizer = make(scale=3.0)
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_norm", automatic=False)
    models.train(model, optimizer, 1, monitor)
    guard.activate()
    models.train(model, optimizer, 2, monitor, first=1)
    monitor.close()
    assert all(abs(v) < 1e-3 for v in recording.layer(2, 0)["delta_error"]), "dQ belongs to the normalised queries"


def test_guard_state_survives_a_restart(record):
    model, optimizer = make(scale=3.0)
    monitor, _ = record(model, optimizer, name="first")
    guard = foreshock.guard(model, mode="qk_norm", automatic=False)
    models.train(model, optimizer, 1, monitor)
    guard.activate(0)
    models.train(model, optimizer, 1, monitor, first=1)
    state = guard.state_dict()
    monitor.close()

    monitor, recording = record(model, optimizer, name="second")
    guard = foreshock.guard(model, mode="qk_norm", automatic=False)
    guard.load_state_dict(state)
    models.train(model, optimizer, 3, monitor, first=2)
    monitor.close()
    assert guard.active_layers() == [0]
    assert max(logits(recording, 4, 0)) < 4.0001


def test_resuming_without_the_state_is_said(record, capfd):
    model, optimizer = make()
    models.train(model, optimizer, 2)
    monitor, recording = record(model, optimizer)
    foreshock.guard(model, mode="qk_norm")
    models.train(model, optimizer, 1, monitor, first=2)
    monitor.close()
    assert any("without the guard's state" in e.get("detail", "") for e in recording.events())
    assert any(e["event"] == "guard" and e.get("detail", "").startswith("missing") for e in recording.events()), recording.events()
    assert "without the guard's state" in capfd.readouterr().err


def test_a_model_that_would_be_bounded_too_tightly_is_refused(record, capfd):
    model, optimizer = make(heads=8)
    monitor, _ = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_norm")
    models.train(model, optimizer, 1, monitor)
    assert guard.refused and "guard is off" in capfd.readouterr().err


def test_qk_clip_brings_one_head_down_and_says_so(record):
    model, optimizer = make()
    with torch.no_grad():
        model.h[1].attn.c_attn.weight[16:32].mul_(40)  # W_Q of head 1
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_clip", limit=20.0)
    models.train(model, optimizer, 3, monitor)
    monitor.close()
    first, after = logits(recording, 0, 1), logits(recording, 1, 1)
    assert first[1] > 30 and guard.clips >= 1
    assert after[1] == pytest.approx(20, rel=0.25), "another batch and a step of training later"
    assert after[0] == pytest.approx(first[0], rel=0.5)
    note = next(e["detail"] for e in recording.events() if "qk_clip" in e.get("detail", ""))
    assert "layer 1 head 1" in note and "effective" in note
    # The clip itself is no update of the training's.
    assert abs(recording.layer(1, 1)["update_projection_1"][1] or 0) < 0.1


def test_projection_takes_updates_off_the_leading_directions(record):
    def run(name, guarded):
        """(recording, c_i of every step, layer, matrix, head and direction by float64 SVD, the guard)."""
        model, _ = make()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)  # c gives decay back
        monitor, recording = record(model, optimizer, name=name)
        guard = foreshock.guard(model, mode="projection") if guarded else None
        weights = []
        heads = lambda: torch.stack([b.attn.c_attn.weight.detach()[:64].double().unflatten(0, (4, 16)) for b in model.h])  # W_Q, W_K: 2 heads each
        models.train(model, optimizer, 24, monitor, each=lambda step: weights.append(heads()))
        weights.append(heads())
        monitor.close()
        moved = []
        for before, after in zip(weights, weights[1:]):
            u, _, v = torch.linalg.svd(before, full_matrices=False)
            moved.append(torch.einsum("lhdi,lhdm,lhim->lhi", u, after - before, v)[..., :3])
        return recording, torch.stack(moved).abs(), guard

    (free, moved_free, _), (held, moved, guard) = run("free", False), run("held", True)
    assert float(moved[::_projection.EVERY].max()) < 1e-6 < 1e-4 < float(moved_free.mean())
    assert float(moved.mean()) < 0.2 * float(moved_free.mean()), "by directions of up to nine steps ago"
    assert set(guard.removed) == {0, 1} and all(norm > 0 for norm in guard.removed.values())
    for head in range(2):  # by the library's own directions, which come nearer from sample to sample
        assert abs(held.layer(23, 0)["update_projection_1"][head]) < 0.2 * abs(free.layer(23, 0)["update_projection_1"][head])
    notes = [e["detail"] for e in held.events() if e.get("detail", "").startswith("projection layer")]
    assert {n.split()[2] for n in notes} == {"0:", "1:"} and all(n.endswith(", effective") for n in notes), notes


def test_projection_leaves_everything_else_as_the_optimizer_left_it(record):
    """Values and everything that is not watched; Conv1D's order, and a dtype of more than fp32."""
    class Conv1D(torch.nn.Module):  # as GPT-2 has it: [in, out]
        def __init__(self, dim, out):
            super().__init__()
            self.weight, self.bias, self.nf = torch.nn.Parameter(torch.randn(dim, out) * 0.1), torch.nn.Parameter(torch.zeros(out)), out

        def forward(self, x):
            return x @ self.weight + self.bias

    def run(guarded):
        model = models.nanogpt(heads=2)
        torch.manual_seed(1)
        for block in model.h:
            block.attn.c_attn = Conv1D(32, 96)
        model.double()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        monitor, _ = record(model, optimizer, name=f"run{guarded}")
        guard = foreshock.guard(model, mode="projection") if guarded else None
        models.train(model, optimizer, 1, monitor)
        monitor.close()
        return model, guard

    (plain, _), (model, guard) = run(False), run(True)
    changed = [n for (n, a), b in zip(plain.named_parameters(), model.parameters()) if not torch.equal(a, b)]
    assert changed == [f"h.{i}.attn.c_attn.weight" for i in range(2)]
    for a, b in zip(plain.h, model.h):
        a, b = (x.attn.c_attn.weight.detach() for x in (a, b))
        assert torch.equal(a[:, 64:], b[:, 64:]), "W_V"
        taken = (a - b)[:, :64].T.unflatten(0, (4, 16))
        values = torch.linalg.svdvals(taken)
        assert (values[:, 3:] < 1e-12).all() and (values[:, 2] > 1e-6).all(), "three directions, in float64"
    assert guard.removed[0] == pytest.approx(float((plain.h[0].attn.c_attn.weight - model.h[0].attn.c_attn.weight).detach().norm()), rel=1e-6)


def test_projection_of_weights_that_are_not_finite_ends_nothing(record):
    model, _ = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    foreshock.guard(model, mode="projection")
    with torch.no_grad():
        model.h[0].attn.c_attn.weight[0, 0] = math.nan
    models.train(model, optimizer, 3, monitor)
    monitor.close()
    assert len(recording.steps()) == 3


def test_dynamic_maximum_is_attention_in_exact_arithmetic():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 12, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    o, shifted, left = foreshock.dynamic_max_attention(q.float(), k.float(), v.float(), is_causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(o.double(), expected, atol=1e-5, rtol=1e-5)
    d = torch.randn_like(expected)
    for a, b in zip(torch.autograd.grad((o.double() * d).sum(), (q, k, v)), torch.autograd.grad(expected, (q, k, v), d)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_dynamic_maximum_shifts_tied_rows_alone():
    s = torch.tensor([[3.0, 3.0, 1.0], [3.0, 2.0, 1.0], [-3.0, -3.0, -9.0], [0.001, 0.001, -9.0], [300.0, 300.0, 0.0]])
    subtract, shifted, left = shift(s, beta=2.0)
    a = (subtract - s.amax(-1, keepdim=True)).squeeze(-1)
    assert a[0] == pytest.approx(3.0) and a[1] == 0 and a[2] == pytest.approx(3.0)
    assert a[3] == 0, "a row whose shift is below 0.01 is left alone"
    assert a[4] == pytest.approx(0.01 + math.fmod(300, 20), abs=1e-4), "wrapped, not clipped"
    assert (shifted.item(), left.item()) == (3, 1)
    p = torch.exp(s - subtract)[[0, 2, 4]]
    assert (p.bfloat16() != 1).all() and UNIT_GAP == pytest.approx(0.001955, rel=1e-3)


def test_zero_row_sum_is_restored():
    """An O that is off breaks the row sums of dS; with the option they are 0, and dK gets no rank-one error along q."""
    torch.manual_seed(0)
    q, v = torch.randn(1, 1, 6, 8), torch.randn(1, 1, 6, 8).bfloat16()
    k = torch.ones(1, 1, 6, 8, requires_grad=True)  # equal keys: dq = scale * rowsum(dS) * k
    grads = {}
    for option in (False, True):
        x = q.clone().requires_grad_()
        o, _, _ = foreshock.dynamic_max_attention(x, k, v, zero_row_sum=option)
        grads[option] = torch.autograd.grad(o.float().square().sum(), x)[0].abs().max().item()
    assert grads[True] < 1e-6 < grads[False]


def test_dynamic_max_mode_trains_and_is_measured(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    foreshock.guard(model, mode="dynamic_max", beta=2.0)
    seen = {}
    models.train(model, optimizer, 2, monitor, each=lambda step: seen.__setitem__(
        step, reference.capture(model, lambda m: m(*models.batch(100 * step)))))
    monitor.close()
    for step, calls in seen.items():
        reference.compare(recording.layer(step, 1), reference.attention_signals(calls[1]), f"{step}")


def test_dynamic_max_says_what_it_shifted(record):
    model, optimizer = make()
    with torch.no_grad():
        for at, block in enumerate(model.h):
            block.attn.c_attn.weight[:64] = 0  # W_Q and W_K
            block.attn.c_attn.bias[:64] = at  # every row of the second layer is tied, at logits above 0; of the first one at 0
    monitor, recording = record(model, optimizer, every={**EVERY, "attention_every_steps": 2})
    foreshock.guard(model, mode="dynamic_max", beta=2.0)
    models.train(model, optimizer, 1, monitor)
    monitor.close()
    notes = sorted(e["detail"] for e in recording.events() if e.get("detail", "").startswith("dynamic_max"))
    rows = 3 * 2 * 23  # sequences, heads, rows of two keys at least
    assert notes == [f"dynamic_max layer 0: 0 tied rows shifted, {rows} left alone, no effect",
                     f"dynamic_max layer 1: {rows} tied rows shifted, 0 left alone, effective"], notes


def test_arguments():
    model, optimizer = make()
    with pytest.raises(ValueError, match="not watched"):
        foreshock.guard(model)
    monitor = foreshock.watch(model, optimizer)
    with pytest.raises(ValueError, match="mode: 'norm', must be one of"):
        foreshock.guard(model, mode="norm")
    with pytest.raises(ValueError, match="must be above 1"):
        foreshock.dynamic_max_attention(*[torch.randn(1, 1, 2, 4)] * 3, beta=1.0)
    monitor.close()


def test_actions_from_the_server(servers):
    """enable_qk_norm lowers the logits and its effect is recorded; checkpoint and stop reach the trainer's own code."""
    server = servers.server()
    agent = servers.agent(server.grpc)
    model, optimizer = make(scale=6.0)
    monitor = foreshock.watch(model, optimizer, run="acted", address=agent.address, attention_every_steps=1,
                              spectra_every_steps=1, row_every=1, budget=1.0)
    saved = []
    foreshock.guard(model, mode="actions", on_checkpoint=lambda: saved.append("ckpt/now") or saved[-1])
    step = 0

    def train_until(condition, what):
        nonlocal step

        def one_more():
            nonlocal step
            models.train(model, optimizer, 1, monitor, first=step)
            step += 1
            return condition()
        servers_until(one_more, what)

    from harness import until as servers_until
    train_until(lambda: servers.run_of(server, "acted"), "the run")
    for kind in ("enable_qk_norm", "checkpoint", "stop"):
        servers.post(server, "/api/v1/runs/acted/actions", {"kind": kind, "reason": "a test"})
    state = lambda: {a["action"]["kind"]: a["state"] for a in servers.get(server, "/api/v1/runs/acted/actions")["actions"]}
    train_until(lambda: state().get("enable_qk_norm") == "effective" and state().get("stop") == "taken", "the actions' states")
    assert saved == ["ckpt/now"] and monitor.should_stop
    monitor.close()


@pytest.mark.parametrize("checkpointing", [None, "not reentrant"])
@with_taps
def test_a_flag_switches_compiled_code_without_a_retrace(record, checkpointing):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model, optimizer = make(scale=6.0)
    model.checkpointing = checkpointing
    monitor, recording = record(model, optimizer)
    guard = foreshock.guard(model, mode="qk_norm", automatic=False, retrace=False)
    fast = torch.compile(model, backend="aot_eager")
    models.train(fast, optimizer, 3, monitor)
    graphs = counters["stats"]["unique_graphs"]
    guard.activate()
    models.train(fast, optimizer, 3, monitor, first=3)
    assert counters["stats"]["unique_graphs"] == graphs
    monitor.close()
    assert guard.active_layers() == [0, 1]
    assert max(logits(recording, 2)) > 4.5 and max(logits(recording, 5)) < 4.0001
    torch._dynamo.reset()
    counters.clear()


def test_a_flag_that_is_off_changes_nothing(record):
    plain, optimizer = make(scale=3.0)
    expected = models.train(plain, optimizer, 3)
    model, optimizer = make(scale=3.0)
    monitor, _ = record(model, optimizer)
    foreshock.guard(model, mode="qk_norm", automatic=False, retrace=False)
    assert models.train(model, optimizer, 3, monitor) == expected
