"""What is measured in a trainer equals a float64 reference, for each kind of model and way to train."""

import pytest
import torch

import models
import reference


def nano_weights(block, dim, heads):
    w = block.attn.c_attn.weight
    return (reference.heads_of(w, dim // heads, 0, heads), reference.heads_of(w, dim // heads, dim, heads))


def plain(model):
    """Without checkpointing: each layer is called once, in order."""
    model.checkpointing = None
    return model


def check_step(recording, step, calls, weights):
    for layer, call in enumerate(calls):
        expected = {**reference.attention_signals(call), **reference.weight_signals(*weights[layer])}
        reference.compare(recording.layer(step, layer), expected, f"step {step} layer {layer}")


@pytest.mark.parametrize("checkpointing", [None, "reentrant", "not reentrant"])
def test_nanogpt(record, checkpointing):
    model = models.nanogpt(checkpointing=checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    monitor, recording = record(model, optimizer)
    before = {}

    def each(step):
        weights = [nano_weights(block, 32, 4) for block in model.h]
        before[step] = reference.capture(model, lambda m: plain(m)(*models.batch(100 * step))), weights

    losses = models.train(model, optimizer, 4, monitor, each=each)
    monitor.close()
    assert monitor.unwatched == {}
    assert sorted(recording.steps()) == [0, 1, 2, 3]
    for step, (calls, weights) in before.items():
        check_step(recording, step, calls, weights)
        assert recording.steps()[step]["loss"] == pytest.approx(losses[step], rel=1e-6)
        assert recording.steps()[step]["learning_rate"] == pytest.approx(1e-2)
        assert recording.steps()[step]["tokens"] == 3 * 24
        # Healthy arithmetic: no bias. The rounding signals are there, and small.
        for signal in ("output_rounding_bias", "delta_error", "delta_output_bias"):
            assert all(abs(v) < 1e-3 for v in recording.layer(step, 0)[signal]), signal


def test_projections_follow_single_steps(record):
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    monitor, recording = record(model, optimizer)
    weights = []
    models.train(model, optimizer, 4, monitor,
                 each=lambda step: weights.append([nano_weights(b, 32, 4)[0] for b in model.h]))
    weights.append([nano_weights(b, 32, 4)[0] for b in model.h])
    monitor.close()
    for step in (1, 2, 3):  # every step is a frame: its window is the one step, along the pair of the step before
        for layer in range(2):
            for head in range(4):
                pair = weights[step - 1][layer][head].double()
                u, _, vh = torch.linalg.svd(pair, full_matrices=False)
                now, then = weights[step][layer][head].double(), weights[step + 1][layer][head].double()
                r = u[:, 0] @ now @ vh[0]
                c = (u[:, 0] @ then @ vh[0] - r + 1e-2 * 0.1 * r).item()
                got = recording.layer(step, layer)["update_projection_1"][head]
                assert abs(got - c) < 1e-3 * abs(c) + 1e-5, (step, layer, head, got, c)


def test_gradient_accumulation_samples_the_first_micro_batch(record):
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer)
    seen = {}
    models.train(model, optimizer, 3, monitor, micro_batches=3, each=lambda step: seen.__setitem__(
        step, reference.capture(model, lambda m: m(*models.batch(100 * step)) / 3)))
    monitor.close()
    assert sorted(recording.steps()) == [0, 1, 2]
    for step, calls in seen.items():
        for layer, call in enumerate(calls):
            reference.compare(recording.layer(step, layer), reference.attention_signals(call), f"{step} {layer}")
        assert recording.steps()[step]["tokens"] == 3 * 3 * 24


def test_a_biased_output_is_seen_as_it_is(record, monkeypatch):
    """Attention that is 2^-8 too large: the bias is what the float64 reference says, and delta is biased by it."""
    from foreshock import _patch

    true = _patch._original_sdpa
    monkeypatch.setattr(_patch, "_original_sdpa", lambda *a, **k: true(*a, **k) * (1 + 2**-8))
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    captured = {}

    def each(step):
        captured[step] = [{n: t for n, t in tap_values(model, step)[layer].items()} for layer in range(2)]

    def tap_values(m, step):
        import copy

        import torch.nn.functional as F
        twin, calls = copy.deepcopy(m).double(), []
        outer = F.scaled_dot_product_attention

        def sdpa(q, k, v, is_causal=False):
            keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
            o, _ = reference.attention(q, k, v, keep, None, q.shape[-1] ** -0.5)
            stored = o * (1 + 2**-8)
            stored.retain_grad()
            calls.append((o, stored))
            return stored

        F.scaled_dot_product_attention = sdpa
        try:
            twin.zero_grad()
            twin(*models.batch(100 * step)).backward()
        finally:
            F.scaled_dot_product_attention = outer
        return [{"o": o.detach(), "stored": s.detach(), "d_o": s.grad} for o, s in calls]

    models.train(model, optimizer, 3, monitor, each=each)
    monitor.close()
    for step, layers in captured.items():
        for layer, call in enumerate(layers):
            o, d_o = call["o"][:, :, 1:], call["d_o"][:, :, 1:]  # the first row has one key and does not count
            excess = call["stored"][:, :, 1:] - o
            ulp = torch.exp2(o.abs().log2().floor() - 7)
            bias = ((o.sign() * excess).sum((0, 2, 3)) / ulp.sum((0, 2, 3))).tolist()
            delta = ((d_o * excess).sum((0, 2, 3)) / (d_o * o).sum(-1).abs().sum((0, 2))).tolist()
            got = recording.layer(step, layer)
            assert got["output_rounding_bias"] == pytest.approx(bias, rel=1e-3), (step, layer)
            assert got["delta_output_bias"] == pytest.approx(delta, rel=2e-3, abs=1e-5), (step, layer)
