"""Causal attention of all copies at once, [copies, batch, heads, seq, dim], with faults and a place to measure."""

import torch

from . import flash, natural
from .faults import moved


class Attention(torch.autograd.Function):
    """O of q, k, v with the faults of `strengths` in `layer`; `measure(layer, q, k, v, o, d_o, dq)` is called in backward, or None."""

    @staticmethod
    def forward(ctx, q, k, v, scale, strengths, layer, measure):
        flat = [x.flatten(0, 1) for x in (q, k, v)]
        o, lse, rest = flash.forward(*flat, scale)
        o = o.unflatten(0, q.shape[:2])
        _natural(o, q, k, v, scale, strengths, layer)
        for kind in ("output", "output_random"):
            fault = strengths.of(kind, layer)
            if fault is not None:
                o[fault.rows] = moved(o[fault.rows], fault.size[:, None, :, None, None], kind.endswith("random"), fault.whole)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.rest, ctx.scale, ctx.strengths, ctx.layer, ctx.measure = rest, scale, strengths, layer, measure
        return o

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, lse = ctx.saved_tensors
        if d_o.stride(-1) != 1:
            d_o = d_o.contiguous()
        flat = [x.flatten(0, 1) for x in (d_o, q, k, v, o)]
        grads = [g.unflatten(0, q.shape[:2]) for g in flash.backward(*flat, lse, ctx.rest, ctx.scale)]
        _faulty_delta(grads, d_o, q, k, v, o, lse, ctx)
        if ctx.measure is not None:
            ctx.measure(ctx.layer, q, k, v, o, d_o, grads[0])
        return *grads, None, None, None, None


def _natural(o, q, k, v, scale, strengths, layer):
    for kind, sum_up in natural.KINDS.items():
        fault = strengths.of(kind, layer)
        if fault is not None:
            rows, heads = fault.rows, fault.size[:, None, :, None, None] > 0
            faulty = sum_up(natural.scores(q[rows], k[rows], scale), v[rows])
            o[rows] = torch.where(heads, faulty.to(o.dtype), o[rows])


def _faulty_delta(grads, d_o, q, k, v, o, lse, ctx):
    """Replaces dQ, dK, dV of copies whose delta [copies, batch, heads, rows] is off by a share of its mean magnitude in the head."""
    for kind in ("delta", "delta_random"):
        fault = ctx.strengths.of(kind, ctx.layer)
        if fault is None:
            continue
        rows = fault.rows
        part = [x[rows] for x in (d_o, q, k, v, o)]
        delta = (part[0].float() * part[4].float()).sum(-1)
        move = (fault.size[:, None, :, None] * delta.abs().mean((1, 3), keepdim=True)).expand_as(delta)
        if kind == "delta_random":
            move = torch.where(torch.rand_like(delta) < 0.5, -move, move)
        flat = [x.flatten(0, 1) for x in part]
        lse_part = lse.unflatten(0, q.shape[:2])[rows].flatten(0, 1)
        new = flash.backward_moved(flat[0], move.flatten(0, 1), *flat[1:], lse_part, ctx.rest, ctx.scale)
        for grad, x in zip(grads, new):
            grad[rows] = x.unflatten(0, (-1, q.shape[1]))


class Normalise(torch.autograd.Function):
    """x / sqrt(mean(x^2) + 1e-6) over the last dimension in the copies `rows`; the others as they are. Parameter-free."""

    @staticmethod
    def forward(ctx, x, rows):
        part = x[rows].float()
        inverse = torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-6)
        y = x.clone()
        y[rows] = (part * inverse).to(x.dtype)
        ctx.save_for_backward(x[rows], inverse, rows)
        return y

    @staticmethod
    def backward(ctx, dy):
        part, inverse, rows = ctx.saved_tensors
        y, g = part.float() * inverse, dy[rows].float()
        dx = dy.clone()
        dx[rows] = (inverse * (g - y * (g * y).mean(-1, keepdim=True))).to(dy.dtype)
        return dx, None
