"""Batches of all copies, and what is wrong with some of them."""

import torch

from .faults import BATCH


def _generator(seed, step):
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


class Batches:
    """Tokens and targets [copies, batch, seq] of a step: copies of one seed see the same but for what their faults corrupt. They depend on
    seed and step alone."""

    def __init__(self, data, size, length, seeds, device, faults=()):
        self._corrupt = [(row, fault) for row, fault in enumerate(faults) if fault.kind in BATCH]
        self._seeds = seeds
        self._data, self._size, self._length = data.to(device), size, length
        self._unique = sorted(set(seeds))
        self._of = torch.tensor([self._unique.index(s) for s in seeds], device=device)
        self._reach = torch.arange(length + 1, device=device)

    def _starts(self, seed, step):
        return torch.randint(len(self._data) - self._length - 1, (self._size,), generator=_generator(seed, step))

    def at(self, step):
        starts = torch.stack([self._starts(seed, step) for seed in self._unique]).to(self._reach.device, non_blocking=True)
        rows = self._data[starts[:, :, None] + self._reach].long()[self._of]
        for row, fault in self._corrupt:
            if step >= fault.step:
                rows[row] = self._corrupted(rows[row], fault, self._seeds[row], step)
        return rows[..., :-1], rows[..., 1:]

    def _corrupted(self, tokens, fault, seed, step):
        """tokens [batch, seq + 1] of one copy with what its fault does to them."""
        g = _generator(seed, step)
        there = lambda x: x.to(tokens.device, non_blocking=True)  # nobody waits for the device
        if fault.kind == "batch":
            wrong, byte = torch.rand(tokens.shape, generator=g) < fault.size, torch.randint(256, tokens.shape, generator=g)
            return torch.where(there(wrong), there(byte), tokens)
        wrong = max(round(fault.size * self._size), 1)  # sequences
        if fault.kind == "batch_repeated":
            other = self._data[there(self._starts(seed, fault.step))[:, None] + self._reach].long()
        else:
            other = tokens.gather(1, there(torch.rand(tokens.shape, generator=g).argsort(1)))
        return torch.cat([other[:wrong], tokens[wrong:]])
