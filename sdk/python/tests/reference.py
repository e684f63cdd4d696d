"""An independent float64 reference for what the SDK measures, in plain torch. Shares no code with Foreshock.

`capture` runs a float64 copy of the model on the same batch with attention written out, and keeps every layer's q, k, v,
O, dO and dQ; `attention_signals` and `weight_signals` compute docs/signals.md from them.
"""

import contextlib
import copy
import math

import torch
import torch.nn.functional as F


def _allowed(mask, causal, q, k):
    """(boolean [.., queries, keys], additive or None)."""
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if causal:
        keep = keep.tril()
    keep = keep.expand(q.shape[0], q.shape[1], *keep.shape)
    if mask is None:
        return keep, None
    if mask.dtype is torch.bool:
        return keep & mask, None
    return keep & (mask > -1e4), mask.double()


def attention(q, k, v, keep, bias, scale, softcap=None):
    """(O, scores) in float64; k and v with as many heads as q."""
    s = scale * q @ k.transpose(-1, -2)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias.clamp_min(-1e4)
    s = s.masked_fill(~keep, -math.inf)
    return s.softmax(-1) @ v, s


@contextlib.contextmanager
def _written_out(calls, home):
    original, eager = F.scaled_dot_product_attention, getattr(home, "eager_attention_forward", None)

    def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, softcap=None):
        assert dropout_p == 0.0
        q = query * 1.0
        q.retain_grad()
        times = q.shape[1] // key.shape[1]
        k, v = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        keep, bias = _allowed(attn_mask, is_causal, q, k)
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        o, s = attention(q, k, v, keep, bias, scale, softcap)
        o.retain_grad()
        calls.append({"q": q, "k": k, "v": v, "o": o, "s": s, "keep": keep, "bias": bias, "scale": scale})
        return o

    def eager_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, softcap=None, **unused):
        return sdpa(query, key, value, attention_mask, dropout, False, scaling, softcap=softcap).transpose(1, 2).contiguous(), None

    F.scaled_dot_product_attention = sdpa
    if home is not None:
        home.eager_attention_forward = eager_attention_forward
    try:
        yield
    finally:
        F.scaled_dot_product_attention = original
        if home is not None:
            home.eager_attention_forward = eager


def capture(model, forward, home=None):
    """Attention calls, in order, of forward(float64 copy of model).backward(). home: the module of Transformers whose eager function is
    written out as well."""
    twin = copy.deepcopy(model).double()
    twin.zero_grad()
    calls = []
    with _written_out(calls, home):
        forward(twin).backward()
    return [{n: (t.grad if g else t).detach() if isinstance(t, torch.Tensor) else t
             for n, t, g in [*((n, t, False) for n, t in c.items()), ("d_o", c["o"], True), ("dq", c["q"], True)]}
            for c in calls]


def attention_signals(call):
    """{signal: [per head]} over all rows with at least 2 valid keys."""
    s, keep = call["s"], call["keep"]
    counted = keep.sum(-1) >= 2  # [b, h, q]
    p = s.softmax(-1)
    top = s.topk(2, -1).values
    gap = top[..., 0] - top[..., 1]
    bf16 = (top[..., 0].bfloat16().double() - top[..., 1].bfloat16().double())
    entropy = -(p * p.clamp_min(1e-300).log()).sum(-1)

    def mean(x):
        return [(x[:, h][counted[:, h]].double().mean()).item() for h in range(s.shape[1])]

    def extreme(x, f, fill):
        x = x.masked_fill(~(keep & counted[..., None]), fill)
        return [f(x[:, h]).item() for h in range(s.shape[1])]

    return {
        "logit_max": extreme(s, torch.max, -math.inf), "logit_min": extreme(s, torch.min, math.inf),
        "tied_row_fraction": mean(gap <= 1e-3), "tied_row_fraction_bf16": mean(bf16 <= 1e-3),
        "unit_p_row_fraction": mean(gap <= -math.log(1 - 2**-9)), "saturated_row_fraction": mean(p.amax(-1) >= 0.99),
        "entropy_mean": mean(entropy), "lse_mean": mean(s.logsumexp(-1)), "sink_weight_mean": mean(p[..., 0]),
    }


def weight_signals(wq, wk):
    """{signal: [per head]}; wq, wk: lists of [model_dim, head_dim], wk one a KV head."""
    out = {}
    for name, heads in (("wq", wq), ("wk", wk)):
        sigma = [torch.linalg.svdvals(w.double()) for w in heads]
        for i in range(3):
            out[f"{name}_sigma{i + 1}"] = [x[i].item() for x in sigma]
        out[f"{name}_stable_rank"] = [(x.square().sum() / x[0] ** 2).item() for x in sigma]
    times = len(wq) // len(wk)
    out["qk_sigma1"] = [torch.linalg.svdvals(w.double() @ wk[h // times].double().T)[0].item() for h, w in enumerate(wq)]
    return out


def heads_of(linear_weight, head_dim, first=0, count=None):
    """[model_dim, head_dim] of each head of a torch Linear's weight."""
    count = count or linear_weight.shape[0] // head_dim
    w = linear_weight.detach()
    return [w[first + h * head_dim: first + (h + 1) * head_dim].T.clone() for h in range(count)]


TOLERANCE = {"logit_max": 1e-4, "logit_min": 1e-4, "entropy_mean": 1e-4, "lse_mean": 1e-4, "sink_weight_mean": 1e-4}


def compare(measured, expected, where=""):
    """Asserts that {signal: [per head]} agree; measured may hold more signals."""
    for signal, values in expected.items():
        assert signal in measured, f"{where}: {signal} is missing"
        assert len(measured[signal]) == len(values), (where, signal, measured[signal], values)
        for head, (got, want) in enumerate(zip(measured[signal], values)):
            assert got is not None, f"{where} {signal} head {head} is missing, expected {want}"
            tolerance = TOLERANCE.get(signal, 2e-5) * max(1.0, abs(want))
            assert not (abs(got - want) > tolerance) and got == got, f"{where} {signal} head {head}: {got}, expected {want}"
