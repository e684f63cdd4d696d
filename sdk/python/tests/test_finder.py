"""Which layers are found, in which layout, and what is named as unmonitored with a reason."""

import pytest
import torch
from torch import nn

import foreshock
import models


def shape(layer):
    return layer.query_heads, layer.kv_heads, layer.head_dim, layer.layout


def weights_of(layer, which):
    """[per head] the matrix that Foreshock would read, as torch slices."""
    projection = getattr(layer, which)
    w = projection.parameter().detach()
    w = w.T if projection.transposed else w
    return [w[s: s + layer.head_dim] for s in projection.starts]


def same_heads(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert torch.equal(a, b)


def test_nanogpt():
    layers, unwatched = foreshock.plan(models.nanogpt())
    assert [x.name for x in layers] == ["h.0.attn", "h.1.attn"] and not unwatched
    assert shape(layers[0]) == (4, 4, 8, "fused, concatenated")


@pytest.mark.parametrize("interleaved", [False, True])
def test_grouped_fused_weights_give_the_heads_that_the_model_uses(interleaved):
    """16 query and 8 key heads: the reference is what q = x W computes, head by head."""
    heads, kv, d, dim = 16, 8, 4, 24

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.num_kv_heads, self.head_dim = heads, kv, d
            setattr(self, "linear_qkv" if interleaved else "qkv_proj", nn.Linear(dim, (heads + 2 * kv) * d, bias=False))

    module = Attention()
    w = (module.linear_qkv if interleaved else module.qkv_proj).weight.detach()
    x = torch.eye(dim)
    y = x @ w.T
    if interleaved:
        y = y.view(dim, kv, heads // kv + 2, d)
        q, k = y[:, :, :-2].reshape(dim, heads, d), y[:, :, -2]
    else:
        q, k = y[:, : heads * d].view(dim, heads, d), y[:, heads * d: (heads + kv) * d].view(dim, kv, d)
    (layer,), unwatched = foreshock.plan(nn.Sequential(module))
    assert not unwatched and shape(layer)[:3] == (heads, kv, d)
    assert layer.layout == ("fused, interleaved per group" if interleaved else "fused, concatenated")
    same_heads(weights_of(layer, "wq"), [q[:, h].T for h in range(heads)])
    same_heads(weights_of(layer, "wk"), [k[:, h].T for h in range(kv)])


def test_multihead_attention():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
    layers, unwatched = foreshock.plan(encoder)
    assert [shape(x) for x in layers] == [(4, 4, 4, "fused, concatenated")] * 2 and not unwatched
    apart = nn.MultiheadAttention(16, 4, kdim=8, vdim=8)
    (layer,), _ = foreshock.plan(nn.ModuleList([apart]))
    assert layer.wk is None and "size 8" in layer.weights_reason


def test_layers_with_different_head_counts():
    model = nn.ModuleList([models.CausalSelfAttention(32, h) for h in (2, 4, 8)])
    layers, _ = foreshock.plan(model)
    assert [x.query_heads for x in layers] == [2, 4, 8]


class Latent(nn.Module):
    def __init__(self):
        super().__init__()
        self.kv_a_proj_with_mqa, self.q_proj = nn.Linear(8, 8), nn.Linear(8, 8)


class MyLatentAttention(Latent):
    pass


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(8, 24)


class StrangeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(8, 24)


class Headless(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk = nn.Linear(8, 8), nn.Linear(8, 8)


@pytest.mark.parametrize("kind, reason", [
    (MyLatentAttention, "latent"), (LinearAttention, "no softmax"), (StrangeAttention, "no query and key projections"),
    (Headless, "number of heads")])
def test_what_cannot_be_matched_is_named(kind, reason):
    layers, unwatched = foreshock.plan(nn.ModuleDict({"a": kind()}))
    assert not layers
    assert [u.name for u in unwatched] == ["a"] and reason in unwatched[0].reason


def test_register_by_hand():
    model = nn.ModuleDict({"a": StrangeAttention()})
    foreshock.register(model["a"], query_heads=2, head_dim=4, qkv="projection.weight")
    (layer,), unwatched = foreshock.plan(model)
    assert not unwatched and shape(layer) == (2, 2, 4, "fused, concatenated, by hand")
    w = model["a"].projection.weight.detach()
    same_heads(weights_of(layer, "wk"), [w[8:12], w[12:16]])
    with pytest.raises(ValueError, match="24 features, the heads need"):
        foreshock.register(model["a"], query_heads=8, head_dim=4, qkv="projection.weight")
    with pytest.raises(ValueError, match="must divide"):
        foreshock.register(model["a"], query_heads=4, kv_heads=3, head_dim=4)


def test_tensor_parallel_share():
    class Column(nn.Module):  # Megatron counts this rank's heads
        def __init__(self, here):
            super().__init__()
            self.num_heads, self.wq, self.wk = here, nn.Linear(16, here * 4), nn.Linear(16, here * 2)
            self.n_kv_heads, self.head_dim = here // 2, 4

    (layer,), unwatched = foreshock.plan(nn.ModuleList([Column(4)]), tensor_parallel=(1, 2))
    assert not unwatched
    assert (layer.query_heads, layer.local_query_heads, layer.first_query_head) == (8, 4, 4)
    assert (layer.kv_heads, layer.local_kv_heads, layer.first_kv_head) == (4, 2, 2)


transformers = pytest.importorskip("transformers")


def config(kind, **more):
    common = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=50)
    common.update(more)
    if not hasattr(transformers, kind):
        pytest.skip(f"this Transformers ({transformers.__version__}) has no {kind}")
    return getattr(transformers, kind)(**common)


@pytest.mark.parametrize("kind, more, expected", [
    ("Llama", dict(num_key_value_heads=2), (4, 2, 8, "separate")),
    ("Qwen3", dict(num_key_value_heads=2, head_dim=16), (4, 2, 16, "separate")),
    ("Gemma2", dict(num_key_value_heads=2, head_dim=16), (4, 2, 16, "separate")),
    ("Mistral", dict(num_key_value_heads=1), (4, 1, 8, "separate")),
    ("Phi3", dict(num_key_value_heads=2, pad_token_id=0), (4, 2, 8, "fused, concatenated")),
    ("GPTNeoX", dict(), (4, 4, 8, "fused, interleaved per group")),
    ("Bert", dict(), (4, 4, 8, "separate")),
])
def test_transformers(kind, more, expected):
    model = transformers.AutoModel.from_config(config(kind + "Config", **more))
    layers, unwatched = foreshock.plan(model)
    assert [shape(x) for x in layers] == [expected] * 2, unwatched
    assert not unwatched
    assert layers[0].qk_norm == (kind == "Qwen3")
    assert layers[0].softcap == (50.0 if kind == "Gemma2" else 0.0)


def test_gpt2_holds_its_weights_the_other_way_round():
    model = transformers.GPT2Model(transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=50))
    (layer,), unwatched = foreshock.plan(model)
    assert not unwatched and shape(layer) == (4, 4, 8, "Conv1D, fused, concatenated")
    x = torch.randn(5, 32)
    q, k, _ = (model.h[0].attn.c_attn(x) - model.h[0].attn.c_attn.bias).split(32, 1)
    for head in range(4):
        torch.testing.assert_close(x @ weights_of(layer, "wq")[head].T, q[:, head * 8: head * 8 + 8])
        torch.testing.assert_close(x @ weights_of(layer, "wk")[head].T, k[:, head * 8: head * 8 + 8])


def test_deepseek_is_named_as_latent():
    model = transformers.AutoModel.from_config(config(
        "DeepseekV3Config", num_key_value_heads=4, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4,
        v_head_dim=8, n_routed_experts=2, num_experts_per_tok=1, n_group=1, topk_group=1, first_k_dense_replace=2))
    layers, unwatched = foreshock.plan(model)
    assert not layers and len(unwatched) == 2 and "latent" in unwatched[0].reason


def test_fsdp1_is_named_as_what_it_is():
    class FullyShardedDataParallel(nn.Module):  # its parameters are flat: what the attention module holds are no matrices
        def __init__(self, module):
            super().__init__()
            self._fsdp_wrapped_module = module

    whole, unwatched = foreshock.plan(FullyShardedDataParallel(models.nanogpt()))
    assert whole == [] and {u.name for u in unwatched} == {f"_fsdp_wrapped_module.h.{i}.attn" for i in range(2)}
    assert all("FSDP1" in u.reason and "fully_shard" in u.reason for u in unwatched)
    model = models.nanogpt()
    model.h[1] = FullyShardedDataParallel(model.h[1])
    layers, unwatched = foreshock.plan(model)
    assert [x.name for x in layers] == ["h.0.attn"]
    assert [u.name for u in unwatched] == ["h.1._fsdp_wrapped_module.attn"]
