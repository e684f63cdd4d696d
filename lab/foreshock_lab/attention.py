"""Causal attention of all copies at once, [copies, batch, heads, seq, dim], with faults and a place to measure."""

import math

import torch

from .faults import away_from_zero

BLOCK = 16  # keys added up at once by the bf16 accumulators


def _scores(q, k, scale):
    s = scale * (q.float() @ k.float().transpose(-1, -2))
    return s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(), -math.inf)


def _blocks(p, v, one_by_one):
    """Sum over blocks of keys of p @ v with the running sum rounded to bf16 each time."""
    o = torch.zeros(*p.shape[:-1], v.shape[-1], device=p.device)
    for first in range(0, p.shape[-1], BLOCK):
        part = p[..., first: first + BLOCK].bfloat16().float() @ v[..., first: first + BLOCK, :].float()
        o = (o + (part.bfloat16().float() if one_by_one else part)).bfloat16().float()
    return o


def _unnormalised_bf16(s, v):
    """exp(S - max) @ V summed in bf16, divided by the row sum at the end."""
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return _blocks(e, v, True) / e.sum(-1, keepdim=True)


def _streaming_bf16(s, v):
    """Online softmax over blocks of keys; the running output is kept in bf16."""
    m = torch.full((*s.shape[:-1], 1), -math.inf, device=s.device)
    total = torch.zeros_like(m)
    o = torch.zeros(*s.shape[:-1], v.shape[-1], device=s.device)
    for first in range(0, s.shape[-1], BLOCK):
        block = s[..., first: first + BLOCK]
        new = torch.maximum(m, block.amax(-1, keepdim=True))
        shrink, e = torch.exp(m - new), torch.exp(block - new)
        total = total * shrink + e.sum(-1, keepdim=True)
        o = (o * shrink + e @ v[..., first: first + BLOCK, :].float()).bfloat16().float()
        m = new
    return o / total


def _where(strength, faulty, o):
    return o if strength is None else torch.where(strength[:, None, :, None, None] > 0, faulty(), o)


class Attention(torch.autograd.Function):
    """O of q, k, v with the faults of `strengths` in `layer`; `measure(q, k, v, o, d_o, dq)` is called in backward, or None."""

    @staticmethod
    def forward(ctx, q, k, v, scale, strengths, layer, measure):
        s = _scores(q, k, scale)
        p = s.softmax(-1)
        o = p @ v.float()
        o = _where(strengths.of("bf16_pv", layer), lambda: _unnormalised_bf16(s, v), o)
        o = _where(strengths.of("bf16_stream", layer), lambda: _streaming_bf16(s, v), o)
        for kind in ("output", "output_random"):
            size = strengths.of(kind, layer)
            if size is not None:
                o = away_from_zero(o, size[:, None, :, None, None], kind.endswith("random"))
        o = o.to(v.dtype)
        ctx.save_for_backward(q, k, v, p, o)
        ctx.scale, ctx.strengths, ctx.layer, ctx.measure = scale, strengths, layer, measure
        return o

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, p, o = ctx.saved_tensors
        d_p = d_o.float() @ v.float().transpose(-1, -2)
        delta = (d_o.float() * o.float()).sum(-1, keepdim=True)
        delta = _faulty_delta(delta, ctx.strengths, ctx.layer)
        d_s = p * (d_p - delta)
        d_q = (ctx.scale * (d_s @ k.float())).to(q.dtype)
        d_k = (ctx.scale * (d_s.transpose(-1, -2) @ q.float())).to(k.dtype)
        d_v = (p.transpose(-1, -2) @ d_o.float()).to(v.dtype)
        if ctx.measure is not None:
            ctx.measure(ctx.layer, q, k, v, o, d_o, d_q)
        return d_q, d_k, d_v, None, None, None, None


def _faulty_delta(delta, strengths, layer):
    """delta [copies, batch, heads, rows, 1] moved by a share of the mean magnitude in its head."""
    for kind in ("delta", "delta_random"):
        size = strengths.of(kind, layer)
        if size is None:
            continue
        move = size[:, None, :, None, None] * delta.abs().mean((1, 3), keepdim=True)
        if kind == "delta_random":
            move = torch.where(torch.rand_like(delta) < 0.5, -move, move)
        delta = delta + move
    return delta


def qk_norm(x, on):
    """Parameter-free normalization where `on` [copies] says so."""
    y = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)
    return torch.where(on[:, None, None, None, None], y, x)
