"""A byte-level GPT whose every parameter has a leading dimension of copies."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Attention, qk_norm
from .faults import away_from_zero


@dataclasses.dataclass
class Shape:
    copies: int = 2
    layers: int = 4
    heads: int = 4
    head_dim: int = 64
    context: int = 256
    vocabulary: int = 256

    @property
    def dim(self):
        return self.heads * self.head_dim


class StackedGPT(nn.Module):
    """All copies begin with the same weights. Linear weights are [copies, out, in]; no biases."""

    def __init__(self, shape, seed=0, device="cpu"):
        super().__init__()
        self.shape = shape
        generator = torch.Generator().manual_seed(seed)

        def make(*size, std=0.02):
            one = torch.randn(*size, generator=generator) * std
            return nn.Parameter(one.expand(shape.copies, *size).clone().to(device))

        d, deep = shape.dim, (2 * shape.layers) ** -0.5
        ones = lambda: nn.Parameter(torch.ones(shape.copies, d, device=device))
        self.tokens, self.places = make(shape.vocabulary, d), make(shape.context, d)
        self.norms = nn.ParameterList([ones() for _ in range(2 * shape.layers + 1)])
        self.q, self.k, self.v = (nn.ParameterList([make(d, d) for _ in range(shape.layers)]) for _ in range(3))
        self.out = nn.ParameterList([make(d, d, std=0.02 * deep) for _ in range(shape.layers)])
        self.up = nn.ParameterList([make(4 * d, d) for _ in range(shape.layers)])
        self.down = nn.ParameterList([make(d, 4 * d, std=0.02 * deep) for _ in range(shape.layers)])
        self.normalise = torch.zeros(shape.layers, shape.copies, dtype=torch.bool, device=device)  # the guard's switches

    def _norm(self, x, index):
        return F.layer_norm(x, x.shape[-1:]) * self.norms[index][:, None, None]

    def _linear(self, x, weight):
        r, b, s, _ = x.shape
        return torch.bmm(x.reshape(r, b * s, -1), weight.to(x.dtype).transpose(1, 2)).view(r, b, s, -1)

    def _heads(self, x):
        r, b, s, _ = x.shape
        return x.view(r, b, s, self.shape.heads, self.shape.head_dim).transpose(2, 3)

    def _perturbed(self, x, strengths, kind, layer):
        size = strengths.of(kind, layer)
        return x if size is None else x + (away_from_zero(x.detach(), size[:, :1, None, None]) - x.detach())

    def forward(self, tokens, targets, strengths, measure=None, dtype=torch.float32):
        """Mean loss of each copy, [copies]; tokens, targets: [batch, seq], the same for all copies."""
        r = self.shape.copies
        x = (self.tokens[:, tokens] + self.places[:, None, : tokens.shape[1]]).to(dtype)
        for layer in range(self.shape.layers):
            y = self._norm(x, 2 * layer).to(dtype)
            q, k, v = (self._heads(self._linear(y, w[layer])) for w in (self.q, self.k, self.v))
            on = self.normalise[layer]
            if bool(on.any()):
                q, k = qk_norm(q, on), qk_norm(k, on)
            o = Attention.apply(q, k, v, self.shape.head_dim**-0.5, strengths, layer, measure)
            x = x + self._linear(o.transpose(2, 3).reshape(x.shape), self.out[layer])
            y = self._linear(F.gelu(self._linear(self._norm(x, 2 * layer + 1).to(dtype), self.up[layer])), self.down[layer])
            x = x + self._perturbed(y, strengths, "mlp", layer)
            x = self._perturbed(x, strengths, "residual", layer)
        logits = self._linear(self._norm(x, 2 * self.shape.layers).to(dtype), self.tokens).float()
        wanted = targets.expand(r, *targets.shape)
        loss = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none")
        return loss.view(r, -1).mean(1)


class StackedAdamW:
    """AdamW whose learning rate and clipping are each copy's own."""

    def __init__(self, parameters, rates, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
        self.parameters, self.rates = list(parameters), torch.as_tensor(rates, dtype=torch.float32)
        self.betas, self.eps, self.weight_decay, self.t = betas, eps, weight_decay, 0
        self.state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters]

    @torch.no_grad()
    def clip(self, limit):
        """Gradient norm of each copy before clipping, [copies]; limit: number or [copies], 0 is none."""
        norm = sum(p.grad.float().flatten(1).square().sum(1) for p in self.parameters).sqrt()
        limit = torch.as_tensor(limit, dtype=torch.float32, device=norm.device).expand_as(norm)
        factor = torch.where((limit > 0) & (norm > limit), limit / (norm + 1e-6), torch.ones_like(norm))
        for p in self.parameters:
            p.grad.mul_(factor.view(-1, *[1] * (p.dim() - 1)))
        return norm

    @torch.no_grad()
    def step(self, factor=1.0):
        """factor: of the schedule, on every copy's own rate."""
        self.t += 1
        b1, b2 = self.betas
        for p, (m, v) in zip(self.parameters, self.state):
            rate = (self.rates.to(p.device) * factor).view(-1, *[1] * (p.dim() - 1))
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            if p.dim() > 2:
                p.mul_(1 - rate * self.weight_decay)
            p.sub_(rate * (m / (1 - b1**self.t)) / ((v / (1 - b2**self.t)).sqrt() + self.eps))
            p.grad = None
