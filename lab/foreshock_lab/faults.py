"""Faults of one copy, and the same for all copies as tensors."""

import dataclasses

import torch

BATCH = ("batch", "batch_shuffled", "batch_repeated")  # wrong data: of the whole copy, size is a share
KINDS = ("none", "output", "output_random", "delta", "delta_random", "mlp", "mlp_random", "residual", "residual_random", "bf16_pv",
         "bf16_stream", *BATCH)


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with a copy, and since when.

    kind  output, output_random   O moved by `size` bf16 ulp, away from zero, or to a random side: directed perturbations
          delta, delta_random     delta = rowsum(dO O) moved by `size` times its mean magnitude a head, up or to a random side
          mlp, residual           the MLP's output, or the residual stream, moved by `size` ulp away from zero
          mlp_random, residual_random  the same, each element to a random side
          bf16_pv                 P V with unnormalised P summed up key block by key block in bf16 (arXiv 2510.04212); no size
          batch                   a share `size` of the tokens replaced by random bytes, another share's in each step; the whole copy
          batch_shuffled          a share `size` of the sequences have their tokens in a random order, a new one in each step
          batch_repeated          a share `size` of the sequences are those of the onset's step again and again
          bf16_stream             streaming softmax whose running output is kept in bf16; no size
    layer, head: None is all of them. last: sizes rise by equal factors from `size` in the first head to `last` in the last one.
    """

    kind: str = "none"
    size: float = 0.0
    step: int = 0
    layer: int | None = None
    head: int | None = None
    last: float | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind: '{self.kind}', must be one of {', '.join(KINDS)}")
        if self.kind in BATCH and not 0 < self.size <= 1:
            raise ValueError(f"size: {self.size}, of a corrupted batch it is a share of tokens or sequences, above 0 and at most 1")
        if self.kind in BATCH and (self.layer is not None or self.last is not None):
            raise ValueError(f"{self.kind}: tokens are of the whole copy; it takes no layer and no second size")

    @staticmethod
    def parse(text):
        """KIND[:SIZE[~LAST]][@STEP][/LAYER[.HEAD]], e.g. output:8@800, delta:0.0005@800/2.1, output:0.01~2@0, bf16_pv@0."""
        text, _, place = text.partition("/")
        text, _, step = text.partition("@")
        kind, _, size = text.partition(":")
        layer, _, head = place.partition(".")
        size, _, last = size.partition("~")
        return Fault(kind, float(size or 0), int(step or 0), int(layer) if layer else None, int(head) if head else None,
                     float(last) if last else None)

    def size_of(self, index, count):
        """Size in head `index` of all `count` heads; 1 for kinds without one."""
        if self.kind.startswith("bf16"):
            return 1.0
        if self.last is None:
            return self.size
        return self.size * (self.last / self.size) ** (index / max(count - 1, 1))


@dataclasses.dataclass
class Strength:
    """One kind of fault in one layer. rows: the copies that have it, [n]; size: [n, heads]; whole: sizes are whole numbers."""

    rows: torch.Tensor
    size: torch.Tensor
    whole: bool


class Strengths:
    """The faults of all copies that are on at `step`, as tensors on the device, made once and kept."""

    def __init__(self, faults, layers, heads, step, device="cpu"):
        self._shape, self._device, self._made = (layers, heads), device, {}
        self._on = [(r, f) for r, f in enumerate(faults) if f.kind != "none" and step >= f.step]

    def of(self, kind, layer):
        """Strength, or None where no copy has this fault in this layer."""
        if (kind, layer) not in self._made:
            self._made[kind, layer] = self._make(kind, layer)
        return self._made[kind, layer]

    def _make(self, kind, layer):
        on = [(r, f) for r, f in self._on if f.kind == kind and f.layer in (None, layer)]
        if not on:
            return None
        layers, heads = self._shape
        size = torch.zeros(len(on), heads)
        for i, (_, fault) in enumerate(on):
            for head in range(heads) if fault.head is None else (fault.head,):
                size[i, head] = fault.size_of(layer * heads + head, layers * heads)
        rows = torch.tensor([r for r, _ in on], device=self._device)
        return Strength(rows, size.to(self._device), bool((size == size.round()).all()))


def ulp(x):
    """Distance of bf16 neighbours at |x|: 2^(floor(log2 |x|) - 7); 0 at 0."""
    _, exponent = torch.frexp(x.float())  # |x| = m 2^e with m in [0.5, 1)
    return torch.where(x == 0, torch.zeros_like(x, dtype=torch.float32), torch.ldexp(torch.ones_like(x, dtype=torch.float32),
                                                                                     exponent - 8))


def moved(x, size, random=False, whole=True):
    """x moved by `size` ulp away from zero, or each element to a random side, in x's dtype. Sizes that are not `whole` are rounded up
    or down by chance, so that their mean is right even where x has no finer steps."""
    side = torch.sign(x.float())
    if random:
        side = torch.where(torch.rand_like(side) < 0.5, -1.0, 1.0)
    if not whole:
        size = torch.floor(size + torch.rand_like(side))
    return (x.float() + side * size * ulp(x)).to(x.dtype)
