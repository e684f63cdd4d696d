"""Natural faults: attention outputs whose sums over keys are held in bf16."""

import math

import torch

BLOCK = 16  # keys added up at once


def scores(q, k, scale):
    """Causal scores in fp32, masked entries -inf."""
    s = scale * (q.float() @ k.float().transpose(-1, -2))
    return s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(), -math.inf)


def unnormalised_bf16(s, v):
    """exp(S - max) @ V summed up in bf16, divided by the row sum at the end (arXiv 2510.04212)."""
    e = torch.exp(s - s.amax(-1, keepdim=True))
    o = torch.zeros(*e.shape[:-1], v.shape[-1], device=e.device)
    for first in range(0, e.shape[-1], BLOCK):
        part = e[..., first: first + BLOCK].bfloat16().float() @ v[..., first: first + BLOCK, :].float()
        o = (o + part.bfloat16().float()).bfloat16().float()
    return o / e.sum(-1, keepdim=True)


def streaming_bf16(s, v):
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


KINDS = {"bf16_pv": unnormalised_bf16, "bf16_stream": streaming_bf16}
