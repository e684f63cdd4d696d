"""A byte-level GPT whose every parameter has a leading dimension of copies."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Attention, Normalise
from .faults import moved
from .switches import Switches


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
    """Copies of one seed begin with the same weights. Linear weights are [copies, out, in]; no biases.

    seeds: one number for all copies, or one each. `qk_norm` and `v_norm` are switches [layers, copies].
    """

    def __init__(self, shape, seeds=0, device="cpu"):
        super().__init__()
        self.shape = shape
        seeds = [seeds] * shape.copies if isinstance(seeds, int) else list(seeds)
        generators = {seed: torch.Generator().manual_seed(seed) for seed in seeds}

        def make(*size, std=0.02):
            one = {seed: (torch.randn(*size, generator=g) * std).to(device) for seed, g in generators.items()}
            return nn.Parameter(torch.stack([one[seed] for seed in seeds]))

        d, deep = shape.dim, (2 * shape.layers) ** -0.5
        ones = lambda: nn.Parameter(torch.ones(shape.copies, d, device=device))
        self.tokens, self.places = make(shape.vocabulary, d), make(shape.context, d)
        self.norms = nn.ParameterList([ones() for _ in range(2 * shape.layers + 1)])
        self.q, self.k, self.v = (nn.ParameterList([make(d, d) for _ in range(shape.layers)]) for _ in range(3))
        self.out = nn.ParameterList([make(d, d, std=0.02 * deep) for _ in range(shape.layers)])
        self.up = nn.ParameterList([make(4 * d, d) for _ in range(shape.layers)])
        self.down = nn.ParameterList([make(d, 4 * d, std=0.02 * deep) for _ in range(shape.layers)])
        self.qk_norm, self.v_norm = (Switches(shape.layers, shape.copies, device) for _ in range(2))

    def _norm(self, x, index):
        return F.layer_norm(x, x.shape[-1:]) * self.norms[index][:, None, None].to(x.dtype)

    def _linear(self, x, weight):
        r, b, s, _ = x.shape
        return torch.bmm(x.reshape(r, b * s, -1), weight.to(x.dtype).transpose(1, 2)).view(r, b, s, -1)

    def _heads(self, x):
        r, b, s, _ = x.shape
        return x.view(r, b, s, self.shape.heads, self.shape.head_dim).transpose(2, 3)

    def _perturbed(self, x, strengths, place, layer):
        for kind in (place, f"{place}_random"):
            fault = strengths.of(kind, layer)
            if fault is not None:
                part = x.detach()[fault.rows]
                new = moved(part, fault.size[:, :1, None, None], kind.endswith("random"), fault.whole)
                x = x.index_add(0, fault.rows, new - part)
        return x

    def _embedded(self, tokens):
        """[copies, batch, seq, dim] of tokens [copies or 1, batch, seq]."""
        r, words = self.shape.copies, self.shape.vocabulary
        numbers = tokens.expand(r, *tokens.shape[1:]) + words * torch.arange(r, device=tokens.device)[:, None, None]
        return F.embedding(numbers, self.tokens.flatten(0, 1)) + self.places[:, None, : tokens.shape[-1]]

    def forward(self, tokens, targets, strengths, measure=None, dtype=torch.float32):
        """Mean loss of each copy, [copies]; tokens, targets: [batch, seq], the same for all copies, or [copies, batch, seq]."""
        r = self.shape.copies
        tokens, targets = (t if t.dim() == 3 else t[None] for t in (tokens, targets))
        x = self._embedded(tokens).to(dtype)
        for layer in range(self.shape.layers):
            y = self._norm(x, 2 * layer)
            q, k, v = (self._heads(self._linear(y, w[layer])) for w in (self.q, self.k, self.v))
            if (rows := self.qk_norm.rows(layer)) is not None:
                q, k = Normalise.apply(q, rows), Normalise.apply(k, rows)
            if (rows := self.v_norm.rows(layer)) is not None:
                v = Normalise.apply(v, rows)
            o = Attention.apply(q, k, v, self.shape.head_dim**-0.5, strengths, layer, measure)
            x = x + self._linear(o.transpose(2, 3).reshape(x.shape), self.out[layer])
            y = self._linear(F.gelu(self._linear(self._norm(x, 2 * layer + 1), self.up[layer])), self.down[layer])
            x = x + self._perturbed(y, strengths, "mlp", layer)
            x = self._perturbed(x, strengths, "residual", layer)
        logits = self._linear(self._norm(x, 2 * self.shape.layers), self.tokens).float()
        wanted = targets.expand(r, *targets.shape[1:])
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
        norm = sum(torch.linalg.vector_norm(p.grad.flatten(1), dim=1).square() for p in self.parameters).sqrt()
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
        corrected = (1 - b2**self.t) ** 0.5
        rates = self.rates * factor
        if rates.device != self.parameters[0].device:
            rates = rates.to(self.parameters[0].device, non_blocking=True)
        for p, (m, v) in zip(self.parameters, self.state):
            rate = rates.view(-1, *[1] * (p.dim() - 1))
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            if p.dim() > 2:
                p.mul_(1 - rate * self.weight_decay)
            divisor = v.sqrt().div_(corrected).add_(self.eps).div_(rate / (1 - b1**self.t))
            p.addcdiv_(m, divisor, value=-1)
            p.grad = None
