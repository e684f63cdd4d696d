"""Faults of one copy, and the same for all copies as tensors."""

import dataclasses

import torch

KINDS = ("none", "output", "output_random", "delta", "delta_random", "mlp", "residual", "bf16_pv", "bf16_stream")


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with a copy, and since when.

    kind  output, output_random   O moved by `size` bf16 ulp, away from zero, or to a random side: directed perturbations
          delta, delta_random     delta = rowsum(dO O) moved by `size` times its mean magnitude a head, up or to a random side
          mlp, residual           the MLP's output, or the residual stream, moved by `size` ulp away from zero
          bf16_pv                 P V with unnormalised P summed up key block by key block in bf16 (arXiv 2510.04212); no size
          bf16_stream             streaming softmax whose running output is kept in bf16; no size
    layer, head: None is all of them.
    """

    kind: str = "none"
    size: float = 0.0
    step: int = 0
    layer: int | None = None
    head: int | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind: '{self.kind}', must be one of {', '.join(KINDS)}")

    @staticmethod
    def parse(text):
        """KIND[:SIZE][@STEP][/LAYER[.HEAD]], e.g. output:8@800, delta:0.0005@800/2.1, bf16_pv@0."""
        text, _, place = text.partition("/")
        text, _, step = text.partition("@")
        kind, _, size = text.partition(":")
        layer, _, head = place.partition(".")
        return Fault(kind, float(size or 0), int(step or 0), int(layer) if layer else None, int(head) if head else None)


class Strengths:
    """Sizes of one step as tensors [copies, heads] a layer; None where no copy has the fault, which costs nothing then."""

    def __init__(self, faults, layers, heads, step, device="cpu"):
        self._faults, self._shape, self._step, self._device = faults, (layers, heads), step, device
        self._made = {}

    def of(self, kind, layer):
        """[copies, heads] of sizes (1 for kinds without one), or None."""
        if (kind, layer) not in self._made:
            self._made[kind, layer] = self._make(kind, layer)
        return self._made[kind, layer]

    def _make(self, kind, layer):
        size = torch.zeros(len(self._faults), self._shape[1])
        for r, fault in enumerate(self._faults):
            if fault.kind != kind or self._step < fault.step or fault.layer not in (None, layer):
                continue
            value = 1.0 if kind.startswith("bf16") else fault.size
            size[r, slice(None) if fault.head is None else fault.head] = value
        return size.to(self._device) if bool(size.any()) else None


def ulp(x):
    """Distance of bf16 neighbours at |x|: 2^(floor(log2 |x|) - 7); 0 at 0."""
    _, exponent = torch.frexp(x.float())  # |x| = m 2^e with m in [0.5, 1)
    return torch.where(x == 0, torch.zeros_like(x, dtype=torch.float32), torch.ldexp(torch.ones_like(x, dtype=torch.float32),
                                                                                     exponent - 8))


def away_from_zero(x, size, random=False):
    """x moved by `size` ulp away from zero, or each element to a side of its own."""
    sign = torch.sign(x)
    if random:
        sign = torch.where(torch.rand_like(x) < 0.5, -1.0, 1.0)
    return x + sign * size * ulp(x)
