"""What Foreshock should have measured, in float64, of the tensors that attention was given on this rank and of the whole weights.

Parts that add up over ranks stay apart: fractions and means as sums over rows, ratios as numerator and denominator.
"""

import math

import torch

import reference
from foreshock import _tap


class Calls:
    """Keeps what the taps are given at the steps asked for: {(step, layer): {name: tensor}}."""

    def __init__(self, steps):
        self.seen, original = {}, _tap.Tap._measure

        def keep(tap, dq, d_o, q, k, v, o, *rest):
            if tap.monitor.next_step in steps:
                self.seen[tap.monitor.next_step, tap.index] = {n: t.detach().clone() for n, t in zip(
                    ("d_o", "q", "k", "v", "o"), (d_o, q, k, v, o))}
            return original(tap, dq, d_o, q, k, v, o, *rest)

        _tap.Tap._measure = keep


def attention(call):
    """{signal: [per head]} of one rank's tensors; ratios as [numerator, denominator]."""
    q, k, v, o, d_o = (call[n].double() for n in ("q", "k", "v", "o", "d_o"))
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril().expand(*q.shape[:2], -1, -1)
    exact, s = reference.attention(q, k, v, keep, None, q.shape[-1] ** -0.5)
    rows = q.shape[0] * (q.shape[2] - 1)  # the first row has one key
    out = {n: v if n in ("logit_max", "logit_min") else [[x * rows, rows] for x in v]
           for n, v in reference.attention_signals({"s": s, "keep": keep}).items()}
    excess, exact, d_o = (t[:, :, 1:] for t in (o - exact, exact, d_o))
    ulp = torch.exp2(exact.abs().log2().floor() - 7)
    out["output_rounding_bias"] = torch.stack([(exact.sign() * excess).sum((0, 2, 3)), ulp.sum((0, 2, 3))], 1).tolist()
    out["delta_output_bias"] = torch.stack([(d_o * excess).sum((0, 2, 3)), (d_o * exact).sum(-1).abs().sum((0, 2))], 1).tolist()
    return out


def _grams(weight, head_dim):
    """[heads, head_dim, head_dim] of a Linear's weight in float64, and the heads [heads, model_dim, head_dim]."""
    w = weight.double().view(-1, head_dim, weight.shape[1]).transpose(1, 2)
    return w.transpose(1, 2) @ w, w


def weights(wq, wk, head_dim):
    """{signal: [per head]} of the whole W_Q and W_K."""
    out, grams = {}, {}
    for name, weight in (("wq", wq), ("wk", wk)):
        gram, _ = _grams(weight, head_dim)
        grams[name] = gram
        top = torch.linalg.eigvalsh(gram).flip(-1).sqrt()
        for i in range(3):
            out[f"{name}_sigma{i + 1}"] = top[:, i].tolist()
        out[f"{name}_stable_rank"] = (gram.diagonal(dim1=1, dim2=2).sum(-1) / top[:, 0] ** 2).tolist()
    lower = torch.linalg.cholesky(grams["wq"])
    out["qk_sigma1"] = torch.linalg.eigvalsh(lower.transpose(1, 2) @ grams["wk"] @ lower)[:, -1].sqrt().tolist()
    return out


def projection(directions, before, after, head_dim, pull):
    """c_1 a head: growth of `after` over `before` along the leading pair of `directions`, the decay's pull taken out."""
    gram, w = _grams(directions, head_dim)
    values, vectors = torch.linalg.eigh(gram)
    v = vectors[:, :, -1]
    u = (w @ v[..., None])[..., 0] / values[:, -1:].sqrt()
    (_, a), (_, b) = _grams(before, head_dim), _grams(after, head_dim)
    r = lambda m: torch.einsum("hm,hmd,hd->h", u, m, v)
    return (r(b) - r(a) + pull * r(a)).tolist()


def merged(parts, how):
    """One process's values of what the ranks computed: {signal: [per head]}."""
    out = {}
    for signal in parts[0]:
        columns = [p[signal] for p in parts]
        if how == "tp":
            heads = [x for c in columns for x in c]
        elif signal == "logit_max":
            heads = [max(x) for x in zip(*columns)]
        elif signal == "logit_min":
            heads = [min(x) for x in zip(*columns)]
        else:
            heads = [[sum(n for n, _ in x), sum(d for _, d in x)] for x in zip(*columns)]
        out[signal] = [x[0] / x[1] if isinstance(x, list) else x for x in heads]
    return out


# (relative to max(1, |value|)) where the catalogue says so; sigma and projections are relative to sigma1.
TOLERANCE = {"logit_max": 1e-4, "logit_min": 1e-4, "entropy_mean": 1e-4, "lse_mean": 1e-4, "sink_weight_mean": 1e-4}


def error_of(signal, got, want, sigma1, rows):
    """The error in units of what is allowed; above 1 is wrong, NaN too."""
    if got is None or not math.isfinite(got):
        return math.inf
    if signal.startswith(("wq_sigma", "wk_sigma")):
        allowed = (1e-5 if want >= 0.01 * sigma1[signal[:2]] else 1e-3) * sigma1[signal[:2]]
    elif signal == "qk_sigma1":
        product = sigma1["wq"] * sigma1["wk"]
        allowed = (1e-5 if want >= 0.01 * product else 1e-3) * product
    elif signal == "update_projection_1":
        allowed = 2e-7 * sigma1["wq"] + 2e-3 * abs(want)  # u, v are the float64 ones here, not those given
    elif signal.endswith("_fraction") or signal == "tied_row_fraction_bf16":
        allowed = 3.5 / rows  # counts are exact but for rows that near a threshold
    elif signal in ("output_rounding_bias", "delta_output_bias"):
        allowed = 1e-2 * abs(want) + 2e-4
    else:
        allowed = TOLERANCE.get(signal, 2e-5) * max(1.0, abs(want))
    return abs(got - want) / allowed
