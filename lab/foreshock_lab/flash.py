"""Causal flash attention of torch, forward and backward apart, so that O may be changed in between."""

import torch

ops = torch.ops.aten


def forward(q, k, v, scale):
    """(O, log-sum-exp, what backward needs besides) of [n, heads, seq, dim]."""
    if q.is_cuda:
        o, lse, *rest = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False, scale=scale)
        return o, lse, rest[:6]
    o, lse = ops._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True, scale=scale)
    return o, lse, ()


def backward(d_o, q, k, v, o, lse, rest, scale):
    """dQ, dK, dV with delta = rowsum(dO O) of the O that is given."""
    if not q.is_cuda:
        return ops._scaled_dot_product_flash_attention_for_cpu_backward(d_o, q, k, v, o, lse, 0.0, True, scale=scale)
    cum_q, cum_k, max_q, max_k, seed, offset = rest
    return ops._scaled_dot_product_flash_attention_backward(d_o, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, True, seed,
                                                            offset, scale=scale)


PAD = 8  # heads' widths are multiples of 8


def backward_moved(d_o, move, q, k, v, o, lse, rest, scale):
    """The same with delta + move, move [n, heads, seq]: one more component, `move` in dO and 1 in O, is added to delta by the
    kernel's own fp32 sum and touches nothing else, because it is 0 in V."""
    dim = q.shape[-1]
    q, k, v, o, d_o = (torch.nn.functional.pad(x, (0, PAD)) for x in (q, k, v, o, d_o))
    o[..., dim] = 1
    d_o[..., dim] = move
    return [x[..., :dim] for x in backward(d_o, q, k, v, o, lse, rest, scale)]
