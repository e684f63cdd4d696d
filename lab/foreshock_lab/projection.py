"""The causal probe: updates of W_Q and W_K are taken off their three leading directions, or lose as much elsewhere."""

import torch

DIRECTIONS = 3


class Projection:
    """Of the copies `rows`, since step `since` [n] of each. elsewhere [n]: instead of the leading part L = sum u_i (u_i' dW v_i) v_i' the
    rest of the update is shortened by |L|, so that the same energy is removed and the leading part stays.

    Call before() ahead of the optimizer's step and after() behind it. Directions are found anew every `every` steps.
    """

    def __init__(self, model, rows, since, elsewhere, every=10):
        device = model.q[0].device
        self._weights = [w for pair in zip(model.q, model.k) for w in pair]
        self._rows, self._elsewhere = torch.tensor(rows, device=device), torch.tensor(elsewhere, device=device)
        self._since, self._every, self._heads = since, every, model.shape.heads
        self._u = self._v = self._active = None

    def _stacked(self):
        """[weights, n, heads, dim, model_dim]: each head's matrix, transposed."""
        w = torch.stack([w.detach()[self._rows] for w in self._weights])
        return w.unflatten(2, (self._heads, -1))

    @torch.no_grad()
    def before(self, step):
        if step < min(self._since):
            return
        self._old = self._stacked()
        if self._u is None or step % self._every == 0:
            _, vectors = torch.linalg.eigh(self._old @ self._old.transpose(-1, -2))
            self._u = vectors[..., -DIRECTIONS:]  # [..., dim, 3]
            self._v = torch.nn.functional.normalize(self._old.transpose(-1, -2) @ self._u, dim=-2)  # [..., model_dim, 3]

    @torch.no_grad()
    def after(self, step):
        if step < min(self._since):
            return
        change = self._stacked() - self._old
        c = (self._u * (change @ self._v)).sum(-2, keepdim=True)  # u_i' dW v_i
        leading = (self._u * c) @ self._v.transpose(-1, -2)
        rest = change - leading
        norm = lambda x: torch.linalg.matrix_norm(x, keepdim=True)
        shorter = 1 - (norm(leading) / norm(rest).clamp_min(1e-30)).clamp_max(1)
        kept = torch.where(self._elsewhere.view(-1, 1, 1, 1), leading + rest * shorter, rest)
        if self._active is None or step in self._since:  # a tensor made from the host's numbers waits for the device
            self._active = torch.tensor([step >= s for s in self._since], device=change.device).view(-1, 1, 1, 1)
        new = (self._old + torch.where(self._active, kept, change)).flatten(2, 3)
        for w, x in zip(self._weights, new):
            w.data[self._rows] = x
