"""Attention called in other ways: autocast, soft-cap, masks, nn.MultiheadAttention; and calls that nobody sees."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import models
import reference
from conftest import VERSION, with_taps
from foreshock import _patch

newer = pytest.mark.skipif(torch.__version__.startswith("2.4."), reason="no grouped queries, no flex_attention")


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


@pytest.mark.parametrize("how", ["eager", pytest.param("compiled", marks=pytest.mark.skipif(
    VERSION < (2, 15), reason="dynamo of 2.11 does not look at a class's attribute again: the model itself goes on as it began"))])
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


# ---- other models' ways, written out as they write them

class Attention(nn.Module):
    """timm's: one `qkv`, Identity where it could normalise, no mask."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.num_heads, self.head_dim, self.scale = heads, dim // heads, (dim // heads) ** -0.5
        self.qkv, self.proj, self.q_norm, self.k_norm = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Identity(), nn.Identity()

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        x = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class MultiQuery(nn.Module):
    """One key head for all queries; W_Q is used without its module, as code with its own matrix products does."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.n_heads, self.head_dim = heads, dim // heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim // heads, bias=False)
        self.v_proj, self.o_proj = nn.Linear(dim, dim // heads, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q = nn.functional.linear(x, self.q_proj.weight).view(b, n, self.n_heads, -1).transpose(1, 2)
        k, v = (f(x)[:, None].expand(b, self.n_heads, n, self.head_dim) for f in (self.k_proj, self.v_proj))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, c))


class Qwen3NextAttention(nn.Module):
    """Each head's query is followed by its gate, in one projection."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.num_heads, self.head_dim = heads, dim // heads
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, gate = self.q_proj(x).view(b, n, self.num_heads, 2 * self.head_dim).chunk(2, -1)
        k, v = (f(x).view(b, n, self.num_heads, -1).transpose(1, 2) for f in (self.k_proj, self.v_proj))
        y = nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True).transpose(1, 2)
        return self.o_proj((y * gate.sigmoid()).reshape(b, n, c))


class Inner(nn.Module):
    """torchtitan's inner attention: [batch, seq, heads, dim] in and out."""

    def forward(self, q, k, v, *, scale=None, enable_gqa=False):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True, enable_gqa=enable_gqa).transpose(1, 2)


class QKVLinear(nn.Module):
    """Projections in a module of their own, which knows the size of a head alone."""

    def __init__(self, dim, heads, kv_heads, head_dim):
        super().__init__()
        self.head_dim = head_dim
        self.wq, self.wk, self.wv = (nn.Linear(dim, n * head_dim, bias=False) for n in (heads, kv_heads, kv_heads))

    def forward(self, x):
        return tuple(f(x).view(*x.shape[:2], -1, self.head_dim) for f in (self.wq, self.wk, self.wv))


class FusedQKVLinear(nn.Module):
    """The same in one matrix: of each key head its queries, its key, its value."""

    def __init__(self, dim, heads, kv_heads, head_dim):
        super().__init__()
        self.head_dim, self.heads_per_kv = head_dim, heads // kv_heads
        self.wqkv = nn.Linear(dim, (heads + 2 * kv_heads) * head_dim, bias=False)

    def forward(self, x):
        qkv = self.wqkv(x).view(*x.shape[:2], -1, self.heads_per_kv + 2, self.head_dim)
        return tuple(t.flatten(2, 3) for t in qkv.split([self.heads_per_kv, 1, 1], -2))


class GQAttention(nn.Module):
    """torchtitan's of today: heads here, projections in one child, the call in another."""

    def __init__(self, projections=QKVLinear, dim=32, heads=4, kv_heads=2):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim, self.enable_gqa = heads, kv_heads, dim // heads, heads > kv_heads
        self.qkv_linear, self.inner_attention = projections(dim, heads, kv_heads, dim // heads), Inner()
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = self.qkv_linear(x)
        return self.wo(self.inner_attention(q, k, v, enable_gqa=self.enable_gqa).flatten(2))


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x.square().mean()


def measured(record, model, forward, home=None):
    """(monitor, Recording, float64 calls) of one step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    calls = reference.capture(model, forward, home)
    monitor, recording = record(model, optimizer)
    loss = forward(model)
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
    monitor.close()
    return monitor, recording, calls


@pytest.mark.parametrize("make, kv_heads", [(Attention, 4), (MultiQuery, 1), (Qwen3NextAttention, 4)])
def test_other_ways_to_write_attention(record, make, kv_heads):
    torch.manual_seed(0)
    model, x = Stack(make(), make()), torch.randn(2, 10, 32)
    layer = model.layers[1]
    if make is Attention:
        heads = reference.heads_of(layer.qkv.weight, 8, 0, 4), reference.heads_of(layer.qkv.weight, 8, 32, 4)
    elif make is MultiQuery:
        heads = reference.heads_of(layer.q_proj.weight, 8), reference.heads_of(layer.k_proj.weight, 8)
    else:
        w = layer.q_proj.weight.detach()
        heads = [w[16 * h: 16 * h + 8].T.clone() for h in range(4)], reference.heads_of(layer.k_proj.weight, 8)
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(next(m.parameters()).dtype)))
    assert not monitor.unwatched
    assert [(f.query_heads, f.kv_heads) for f in monitor.layers] == [(4, kv_heads)] * 2
    for index in range(2):
        reference.compare(recording.layer(0, index), reference.attention_signals(calls[index]), f"layer {index}")
    reference.compare(recording.layer(0, 1), reference.weight_signals(*heads))


def titan_heads(layer):
    """(W_Q, W_K) by heads of a GQAttention, torchtitan's or the one above."""
    projections = layer.qkv_linear
    if hasattr(projections, "wq"):
        return reference.heads_of(projections.wq.weight, 8), reference.heads_of(projections.wk.weight, 8)
    groups = projections.wqkv.weight.detach().view(2, 4, 8, 32)  # 2 key heads: 2 queries, key, value
    return [groups[h // 2, h % 2].T.clone() for h in range(4)], [groups[g, 2].T.clone() for g in range(2)]


def as_torchtitan_trains(record, model, forward):
    """Its trainer's order: each block compiled whole, sharding, the optimizer, and only then the monitor. The second sample is later."""
    for block in model.layers:
        block.compile(backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 2, "spectra_every_steps": 2, "row_every": 1, "budget": 1.0})
    for _ in range(3):
        optimizer.zero_grad()
        loss = forward(model)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
    monitor.close()
    return monitor, recording


@with_taps
@pytest.mark.parametrize("projections", [QKVLinear, FusedQKVLinear])
def test_torchtitan_written_out(record, projections):
    torch.manual_seed(0)
    model, x = Stack(GQAttention(projections), GQAttention(projections)), torch.randn(2, 10, 32)
    calls = reference.capture(model, lambda m: m(x.to(next(m.parameters()).dtype)))
    heads = titan_heads(model.layers[1])
    monitor, recording = as_torchtitan_trains(record, model, lambda m: m(x))
    assert not monitor.unwatched, monitor.unwatched
    assert [(f.name, f.query_heads, f.kv_heads) for f in monitor.layers] == [(f"layers.{i}", 4, 2) for i in range(2)]
    for index in range(2):
        reference.compare(recording.layer(0, index), reference.attention_signals(calls[index]), f"layer {index}")
        assert len(recording.layer(2, index)["logit_max"]) == 4, "sampled again by the same code"
        assert "logit_max" not in recording.layer(1, index)
    reference.compare(recording.layer(0, 1), reference.weight_signals(*heads))


@with_taps
@pytest.mark.parametrize("fused", [False, True])
def test_torchtitan_itself(record, fused):
    """Its own GQAttention with its SDPA. (Its language models take FlexAttention or varlen_attn, which need a GPU to train.)"""
    attention = pytest.importorskip("torchtitan.models.common.attention", exc_type=ImportError)
    from torchtitan.models.common.linear import Linear
    from torchtitan.models.common.rope import ComplexRoPE

    def matrix(features):
        return Linear.Config(in_features=32, out_features=features)

    qkv = (attention.FusedQKVLinear.Config(head_dim=8, n_heads=4, n_kv_heads=2, wqkv=matrix(64)) if fused else
           attention.QKVLinear.Config(head_dim=8, wq=matrix(32), wkv=matrix(16)))
    config = attention.GQAttention.Config(
        n_heads=4, n_kv_heads=2, dim=32, qkv_linear=qkv, wo=matrix(32), inner_attention=attention.ScaledDotProductAttention.Config(),
        rope=ComplexRoPE.Config(dim=8, max_seq_len=16))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = config.build()

        def forward(self, x):
            return self.attention(x, None)

    torch.manual_seed(0)
    model, x = Stack(Block(), Block()), torch.randn(2, 10, 32)
    heads = titan_heads(model.layers[1].attention)
    calls = []
    original = attention.F.scaled_dot_product_attention

    def spy(q, k, v, **options):
        calls.append((q.detach(), k.detach()))
        return original(q, k, v, **options)

    attention.F.scaled_dot_product_attention = spy
    try:
        model(x)
    finally:
        attention.F.scaled_dot_product_attention = original
    monitor, recording = as_torchtitan_trains(record, model, lambda m: m(x))
    assert not monitor.unwatched, monitor.unwatched
    assert [f.name for f in monitor.layers] == ["layers.0.attention", "layers.1.attention"]
    causal = torch.ones(10, 10, dtype=torch.bool).tril()
    for index, (q, k) in enumerate(calls):
        scores = (q.double() @ k.double().repeat_interleave(2, 1).transpose(-1, -2) / 8**0.5).masked_fill(~causal, -torch.inf)
        assert recording.layer(0, index)["logit_max"] == pytest.approx(scores.amax((0, 2, 3)).tolist(), rel=1e-5)
        entropy = torch.special.entr(scores.softmax(-1)).sum(-1)[:, :, 1:].mean((0, 2))  # rows of one key count nowhere
        assert recording.layer(0, index)["entropy_mean"] == pytest.approx(entropy.tolist(), rel=1e-4)
        assert len(recording.layer(2, index)["logit_max"]) == 4
    reference.compare(recording.layer(0, 1), reference.weight_signals(*heads))


@newer
def test_a_flex_attention_that_a_class_holds(record, monkeypatch):
    """torchtitan compiles it once and keeps it as an attribute of its inner attention's class."""
    from torch.nn.attention import flex_attention as home

    def flex(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False):
        return plain_sdpa(query, key, value, scale=scale, enable_gqa=enable_gqa)

    monkeypatch.setattr(home, "flex_attention", flex)

    class Held(Inner):
        attend = staticmethod(flex)

        def forward(self, q, k, v, *, scale=None, enable_gqa=False):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return type(self).attend(q, k, v, scale=scale, enable_gqa=enable_gqa).transpose(1, 2)

    torch.manual_seed(0)
    model, x = Stack(GQAttention()), torch.randn(2, 10, 32)
    model.layers[0].inner_attention = Held()
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(m.layers[0].wo.weight.dtype)))
    assert not monitor.unwatched, monitor.unwatched
    reference.compare(recording.layer(0, 0), reference.attention_signals(calls[0]))


def test_layers_of_different_head_counts(record):
    torch.manual_seed(0)
    model, x = Stack(Attention(heads=2), Attention(heads=4), Attention(heads=8)), torch.randn(2, 10, 32)
    weights = [layer.qkv.weight.detach().clone() for layer in model.layers]
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(m.layers[0].qkv.weight.dtype)))
    assert not monitor.unwatched
    for index, heads in enumerate((2, 4, 8)):
        got, size = recording.layer(0, index), 32 // heads
        assert len(got["logit_max"]) == heads
        reference.compare(got, reference.attention_signals(calls[index]), f"layer {index}")
        w = weights[index]
        reference.compare(got, reference.weight_signals(reference.heads_of(w, size, 0, heads), reference.heads_of(w, size, 32, heads)))


def test_one_module_called_twice_a_step(record):
    """Shared layers (ALBERT): one sample a step, of the last call; the weights are one."""
    torch.manual_seed(0)
    shared, x = Attention(), torch.randn(2, 10, 32)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = shared

        def forward(self, x):
            return (self.attention(x + self.attention(x)) * 3).square().mean()

    model = Twice()
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(m.attention.qkv.weight.dtype)))
    assert not monitor.unwatched and len(monitor.layers) == 1 and len(calls) == 2
    reference.compare(recording.layer(0, 0), reference.attention_signals(calls[1]))


def test_sliding_window(record):
    torch.manual_seed(0)
    model = transformers.MistralForCausalLM(transformers.MistralConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=50,
        sliding_window=4, attn_implementation="sdpa"))
    ids = torch.randint(50, (2, 12))
    monitor, recording, calls = measured(record, model, lambda m: m(input_ids=ids, labels=ids).loss)
    assert not monitor.unwatched
    assert calls[0]["keep"][0, 0].sum(-1).max() == 4, "the window reached attention"
    for layer in range(2):
        reference.compare(recording.layer(0, layer), reference.attention_signals(calls[layer]), f"layer {layer}")


@pytest.mark.skipif(not hasattr(transformers, "Qwen3Config"), reason="an older Transformers")
def test_queries_and_keys_that_the_model_normalises(record):
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        vocab_size=50, attn_implementation="sdpa"))
    ids = torch.randint(50, (2, 12))
    monitor, recording, calls = measured(record, model, lambda m: m(input_ids=ids, labels=ids).loss)
    assert not monitor.unwatched and monitor.layers[0].qk_norm
    reference.compare(recording.layer(0, 0), reference.attention_signals(calls[0]))
    hello = recording.lines()[0]
    assert "qk_norm" in str(hello), "who judges is told that norms of these weights are no cause"


def gemma(version, implementation):
    """(model, its home) of two small layers, the first with a sliding window; logits that a cap of 2 would bend. Gemma 2 applies it, Gemma 3's
    modules know of it and leave it out."""
    name = f"Gemma{version}"
    config = getattr(transformers, "Gemma2Config" if version == 2 else "Gemma3TextConfig", None)
    if config is None:
        pytest.skip("an older Transformers")
    torch.manual_seed(0)
    model = getattr(transformers, name + "ForCausalLM")(config(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=50,
        query_pre_attn_scalar=12, sliding_window=5, layer_types=["sliding_attention", "full_attention"], attn_implementation=implementation,
        attn_logit_softcapping=2.0))
    with torch.no_grad():
        for layer in model.model.layers:
            if version == 2:
                layer.self_attn.q_proj.weight.mul_(300)
            else:
                layer.self_attn.q_norm.weight.fill_(1.5)
    return model, sys.modules[type(model).__module__]


@pytest.mark.parametrize("version, implementation", [(2, "eager"), (3, "eager"), (3, "sdpa")])
def test_gemma(record, version, implementation):
    """The whole reference."""
    model, home = gemma(version, implementation)
    ids = torch.randint(50, (2, 12))
    weights = [(reference.heads_of(b.self_attn.q_proj.weight, 8), reference.heads_of(b.self_attn.k_proj.weight, 8)) for b in model.model.layers]
    monitor, recording, calls = measured(record, model, lambda m: m(input_ids=ids, labels=ids).loss, home)
    assert not monitor.unwatched and len(calls) == 2
    assert [call["keep"][0, 0].sum(-1).max() for call in calls] == [5, 12], "the window reached attention"
    assert all(call["scale"] == pytest.approx(12**-0.5) for call in calls)
    for index, call in enumerate(calls):
        got = recording.layer(0, index)
        reference.compare(got, {**reference.attention_signals(call), **reference.weight_signals(*weights[index])}, f"layer {index}")
        assert all(abs(v) < 1e-2 for v in got["delta_error"]), got["delta_error"]
        largest = max(got["logit_max"])
        assert (1.5 < largest <= 2.0) if version == 2 else largest > 2.5, largest


def test_dropout_is_measured_but_for_rounding(record):
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_head=4, n_layer=1, vocab_size=50, n_positions=16, attn_pdrop=0.1, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_implementation="sdpa"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer)
    step_of(model, optimizer, monitor, input_ids=torch.randint(50, (2, 12)))
    monitor.close()
    assert list(monitor.unwatched) == ["transformer.h.0.attn (rounding)"], monitor.unwatched
    assert "attention dropout 0.1" in monitor.unwatched["transformer.h.0.attn (rounding)"]
    got = recording.layer(0, 0)
    assert len(got["logit_max"]) == 4 and "output_rounding_bias" not in got


# ---- other functions than torch's own. flash_attn is not installed and flex_attention has no backward on a CPU: a function of each one's
# signature stands in its place, so what is tested is where they are met and how their arguments are read.

def plain_sdpa(*args, **kwargs):
    """The reference's where it looks on; else torch's, past the watch: the real functions do not call it either."""
    return (F.scaled_dot_product_attention if _patch.context.key == "" else _patch._original_sdpa)(*args, **kwargs)


class Calls(nn.Module):
    """attend(q, k, v) of [batch, seq, heads, dim] gives [batch, seq, heads, dim]."""

    def __init__(self, attend, heads=4, kv_heads=2, dim=32):
        super().__init__()
        self.n_heads, self.n_kv_heads, size, self.attend = heads, kv_heads, dim // heads, attend
        self.wq, self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, kv_heads * size), nn.Linear(dim, kv_heads * size)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (f(x).view(b, s, n, -1) for f, n in ((self.wq, self.n_heads), (self.wk, self.n_kv_heads), (self.wv, self.n_kv_heads)))
        return self.wo(self.attend(q, k, v).reshape(b, s, c))


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return plain_sdpa(q, k, v, dropout_p=dropout_p, is_causal=causal, scale=softmax_scale, enable_gqa=True).transpose(1, 2)


@pytest.fixture
def flash(monkeypatch):
    module = types.ModuleType("flash_attn")
    module.flash_attn_func = flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    return module


@newer
def test_flash_attn(record, flash):
    torch.manual_seed(0)
    model = Stack(Calls(lambda q, k, v: flash.flash_attn_func(q, k, v, softmax_scale=0.5, causal=True)),
                  Calls(lambda q, k, v: flash.flash_attn_func(q, k, v)),
                  Calls(lambda q, k, v: flash.flash_attn_func(q, k, v, causal=True, window_size=(4, 0))))
    x = torch.randn(2, 10, 32)
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(m.layers[0].wq.weight.dtype)))
    assert monitor.unwatched == {"layers.2 (attention)": "flash_attn with a window or ALiBi"}
    for layer in range(2):
        got = recording.layer(0, layer)
        reference.compare(got, reference.attention_signals(calls[layer]), f"layer {layer}")
        assert all(abs(v) < 1e-3 for v in got["delta_error"]), "O and dO lie as the function gives them"


@newer
def test_the_guard_normalises_calls_that_are_not_measured(record, flash):
    """The server's action reaches every layer, whoever can be read."""
    torch.manual_seed(0)
    seen = []

    def window(q, k, v, *options):
        seen.append((q, k))
        return flash_attn_func(q, k, v)

    flash.flash_attn_func = window
    model, x = Stack(Calls(lambda q, k, v: flash.flash_attn_func(q, k, v, causal=True, window_size=(4, 0)))), torch.randn(2, 10, 32)
    monitor, _ = record(model, torch.optim.AdamW(model.parameters()))
    model(x)
    monitor.taps[0].enter.set_normalise(True)
    model(x)
    monitor.close()
    for plain, normal in zip(*seen):
        assert torch.allclose(normal, _patch.qk_norm(plain)) and not torch.allclose(normal, plain)


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None):
    from torch.nn.attention.flex_attention import create_mask

    mask = None if block_mask is None else create_mask(block_mask.mask_mod, None, None, query.shape[2], key.shape[2], device="cpu")
    return plain_sdpa(query, key, value, mask, scale=scale, enable_gqa=enable_gqa)


@newer
def test_flex_attention(record, monkeypatch):
    from torch.nn.attention import flex_attention as home

    monkeypatch.setattr(home, "flex_attention", flex_attention)
    window = home.create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 4), None, None, 10, 10, device="cpu")

    def attend(**options):
        return lambda q, k, v: home.flex_attention(*(t.transpose(1, 2) for t in (q, k, v)), enable_gqa=True, **options).transpose(1, 2)

    torch.manual_seed(0)
    model = Stack(Calls(attend(block_mask=window)), Calls(attend(scale=0.5)), Calls(attend(score_mod=lambda s, b, h, q, k: s)))
    x = torch.randn(2, 10, 32)
    monitor, recording, calls = measured(record, model, lambda m: m(x.to(m.layers[0].wq.weight.dtype)))
    assert monitor.unwatched == {"layers.2 (attention)": "flex_attention with a score_mod"}
    assert calls[0]["keep"][0, 0].sum(-1).max() == 4
    for layer in range(2):
        reference.compare(recording.layer(0, layer), reference.attention_signals(calls[layer]), f"layer {layer}")


@newer
def test_flex_attention_as_it_is_where_nothing_is_watched(record):
    """The real one, wrapped: forward on a CPU, inside of a watched layer without gradients and outside of one."""
    from torch.nn.attention import flex_attention as home

    torch.manual_seed(0)
    model = Stack(Calls(lambda q, k, v: home.flex_attention(*(t.transpose(1, 2) for t in (q, k, v)), enable_gqa=True).transpose(1, 2)))
    x = torch.randn(2, 10, 32)
    with torch.no_grad():
        before = model(x)
        monitor, _ = record(model, torch.optim.AdamW(model.parameters()))
        assert torch.equal(model(x), before)
    monitor.close()
