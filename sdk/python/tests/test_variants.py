"""Attention called in other ways: autocast, soft-cap, masks, nn.MultiheadAttention; and calls that nobody sees."""

import pytest
import torch
from torch import nn

import models
import reference


def test_autocast_to_bf16(record):
    """Scores are made of q and k rounded to bf16: that is what is measured, and O is bf16."""
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    calls = reference.capture(model, lambda m: m(*models.batch(0)))
    monitor, recording = record(model, optimizer)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*models.batch(0))
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
    monitor.close()
    got = recording.layer(0, 0)
    assert got["logit_max"] == pytest.approx(reference.attention_signals(calls[0])["logit_max"], rel=0.03)
    assert all(0 < abs(v) < 0.05 for v in got["output_rounding_bias"]), "bf16's own rounding, without a bias"


class Plain(nn.Module):
    """One layer of nn.MultiheadAttention."""

    def __init__(self, need_weights):
        super().__init__()
        self.attention, self.need_weights = nn.MultiheadAttention(16, 2, batch_first=True), need_weights

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.attention(x, x, x, attn_mask=mask, need_weights=self.need_weights)[0]


@pytest.mark.parametrize("need_weights", [False, True])
def test_multihead_attention(record, need_weights):
    torch.manual_seed(0)
    model, x = Plain(need_weights), torch.randn(3, 6, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    calls = [] if need_weights else reference.capture(model, lambda m: m(x.double()).square().sum())
    weight = model.attention.in_proj_weight
    heads = reference.heads_of(weight, 8, 0, 2), reference.heads_of(weight, 8, 16, 2)
    monitor, recording = record(model, optimizer)
    loss = model(x).square().sum()
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
    monitor.close()
    reference.compare(recording.layer(0, 0), reference.weight_signals(*heads))
    if need_weights:
        assert list(monitor.unwatched) == ["attention (attention)"]
        assert "no attention call was seen" in monitor.unwatched["attention (attention)"]
    else:
        assert not monitor.unwatched
        reference.compare(recording.layer(0, 0), reference.attention_signals(calls[0]))


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_calls_that_are_causal_and_others_that_are_not(record, how):
    """Of one layer: what the call says counts, and needs no mask."""
    class Attention(models.CausalSelfAttention):
        causal = True

        def forward(self, x):
            b, s, c = x.shape
            q, k, v = (t.view(b, s, self.n_head, c // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(c, 2))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=Attention.causal)
            return self.c_proj(y.transpose(1, 2).contiguous().view(b, s, c))

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = models.NanoGPT(attention=Attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    run = torch.compile(model, backend="aot_eager") if how == "compiled" else model
    expected = []
    for step, causal in enumerate((True, False, True)):
        Attention.causal = causal
        twin = models.NanoGPT(attention=Attention)
        twin.load_state_dict(model.state_dict())
        expected.append(reference.capture(twin, lambda m: m(*models.batch(100 * step))))
        models.train(run, optimizer, 1, monitor, first=step)
    monitor.close()
    assert not monitor.unwatched
    for step, calls in enumerate(expected):
        for layer in range(2):
            reference.compare(recording.layer(step, layer), reference.attention_signals(calls[layer]), f"step {step}")


transformers = pytest.importorskip("transformers")


def step_of(model, optimizer, monitor, **inputs):
    loss = model(**inputs, labels=inputs["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    monitor.step(loss=loss)


def test_padded_batches_and_full_ones_in_one_run(record):
    """Transformers passes a mask for the one and is_causal for the other."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=50,
        attn_implementation="sdpa"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    ids = torch.randint(50, (2, 12))
    full, padded = torch.ones_like(ids), torch.ones_like(ids)
    padded[1, 8:] = 0
    expected = []
    for mask in (full, padded, full):
        expected.append(reference.capture(model, lambda m: m(input_ids=ids, attention_mask=mask, labels=ids).loss)[0])
        step_of(model, optimizer, monitor, input_ids=ids, attention_mask=mask)
    monitor.close()
    assert not monitor.unwatched
    for step, call in enumerate(expected):
        reference.compare(recording.layer(step, 0), reference.attention_signals(call), f"step {step}")


def test_soft_cap(record):
    torch.manual_seed(0)
    model = transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        vocab_size=50, attn_logit_softcapping=2.0, attn_implementation="eager"))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(5000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    monitor, recording = record(model, optimizer)
    step_of(model, optimizer, monitor, input_ids=torch.randint(50, (2, 12)))
    monitor.close()
    assert not monitor.unwatched
    for layer in range(2):
        got = recording.layer(0, layer)
        assert all(1.5 < x <= 2.0 for x in got["logit_max"]), got["logit_max"]
        assert all(abs(v) < 1e-2 for v in got["delta_error"]), "the derivative of the cap is known"
