"""Attention with a dynamic maximum in its softmax (arXiv 2510.04212), as an operation of our own.

The usual softmax subtracts the row's largest score r, so that the largest exp(S - r) is exactly 1. Where a second one rounds to
1 as well, products with V accumulated in bf16 round to one side. In such rows, and only there, r + a is
subtracted, a > 0: no factor is 1 any more, and the result is the same in exact arithmetic.

    a = (beta - 1) r for r > 0, -r otherwise; a > 20 becomes 0.01 + a mod 20: large logits would underflow, and a constant in
    its place would round to one side again. Rows with a < 0.01 are left alone, and counted.
"""

import math

import torch

UNIT_GAP = -math.log(1 - 2.0**-9)  # a second exp(S - max) rounds to 1 in bf16
SMALLEST, LARGEST = 0.01, 20.0


def shift(scores, beta):
    """(what to subtract from each row, rows shifted, rows that needed it and were left alone).

    scores: [..., keys], masked entries -inf; the result is [..., 1]. beta > 1.
    """
    if scores.shape[-1] < 2:
        r = scores.amax(-1, keepdim=True)
        return r, torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
    top = scores.topk(2, dim=-1).values
    r, gap = top[..., :1], top[..., :1] - top[..., 1:]
    tied = torch.isfinite(r) & (gap <= UNIT_GAP)
    a = torch.where(r > 0, (beta - 1) * r, -r)
    a = torch.where(a > LARGEST, SMALLEST + torch.remainder(a, LARGEST), a)
    use = tied & (a >= SMALLEST)
    safe = torch.where(torch.isfinite(r), r, torch.zeros_like(r))  # a row without keys
    return torch.where(use, safe + a, safe), use.sum(), (tied & ~use).sum()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, allowed, bias, scale, beta, zero_row_sum):
        scores = scale * (q.float() @ k.float().transpose(-1, -2))
        if bias is not None:
            scores = scores + bias.float()
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        subtract, shifted, left = shift(scores, beta)
        p = torch.exp(scores - subtract)
        total = p.sum(-1, keepdim=True)
        o = ((p.to(v.dtype) @ v).float() / total.clamp_min(torch.finfo(torch.float32).tiny)).to(v.dtype)
        p = p / total.clamp_min(torch.finfo(torch.float32).tiny)
        ctx.save_for_backward(q, k, v, p, o)
        ctx.scale, ctx.zero_row_sum = scale, zero_row_sum
        ctx.mark_non_differentiable(shifted, left)
        return o, shifted, left

    @staticmethod
    def backward(ctx, d_o, *unused):
        q, k, v, p, o = ctx.saved_tensors
        d_v = (p.transpose(-1, -2) @ d_o.float()).to(v.dtype)
        d_p = d_o.float() @ v.float().transpose(-1, -2)
        delta = (d_o.float() * o.float()).sum(-1, keepdim=True)
        d_s = p * (d_p - delta)
        if ctx.zero_row_sum:  # 2609.34272: what exact arithmetic has, restored
            d_s = d_s - p * d_s.sum(-1, keepdim=True)
        d_q = (ctx.scale * (d_s @ k.float())).to(q.dtype)
        d_k = (ctx.scale * (d_s.transpose(-1, -2) @ q.float())).to(k.dtype)
        return d_q, d_k, d_v, None, None, None, None, None


def dynamic_max_attention(q, k, v, attn_mask=None, is_causal=False, scale=None, beta=2.0, zero_row_sum=False):
    """Attention of [batch, heads, seq, dim] tensors with a dynamic maximum. Returns (O, rows shifted, rows left alone).

    k and v may have fewer heads (grouped queries). attn_mask: boolean (False masks) or added to the scores; no gradient goes
    into it. beta: above 1. zero_row_sum: the backward restores the zero row sum of dS.
    Takes memory for all scores: meant for the layers that need it, not for speed.
    """
    if not beta > 1:
        raise ValueError(f"beta: {beta}, must be above 1")
    times = q.shape[1] // k.shape[1]
    if times > 1:
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    allowed = bias = None
    if is_causal:
        allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        allowed = attn_mask if allowed is None else allowed & attn_mask
    elif attn_mask is not None:
        bias = attn_mask.detach()
    return _Attention.apply(q, k, v, allowed, bias, q.shape[-1] ** -0.5 if scale is None else scale, beta, zero_row_sum)
