"""The causal probe: a step's update of W_Q and W_K, taken off the leading singular directions of each head, wherever the weights lie.

Of a head's W [head_dim, model_dim] (as q = W x has it) with leading singular triples (sigma_i, u_i, v_i) and its update dW, the part
L = sum_i u_i (u_i' dW v_i) v_i' over i = 1..3 is taken off. Directions are found anew every EVERY steps, by torch, so in host memory and on a
GPU alike; there that makes the trainer wait for the device.
"""

import contextlib

import torch

from . import _device

DIRECTIONS = 3
EVERY = 10


def directions(w):
    """(u [heads, dim, 3], v [heads, model_dim, 3]) of w [heads, dim, model_dim]; the leading one last."""
    _, vectors = torch.linalg.eigh(w @ w.mT)
    u = vectors[..., -DIRECTIONS:]
    return u, torch.nn.functional.normalize(w.mT @ u, dim=-2)


def leading(update, u, v):
    """The part of `update` along the directions, [heads, dim, model_dim]."""
    c = (u * (update @ v)).sum(-2, keepdim=True)  # u_i' dW v_i
    return (u * c) @ v.mT


class _Matrix:
    """W_Q or W_K of one layer."""

    def __init__(self, projection, head_dim):
        self._projection = projection
        rows = torch.tensor(projection.starts)[:, None] + torch.arange(head_dim)
        self._rows, self._found, self._old = rows.flatten(), None, None
        self._shape = tuple(rows.shape)

    def _features_first(self):
        parameter = self._projection.parameter()
        if parameter is None:
            return None
        self._rows = self._rows.to(parameter.device)
        return parameter.detach().t() if self._projection.transposed else parameter.detach()

    def _heads(self, weight):
        """A copy, [heads, dim, model_dim], in fp32 at least."""
        return weight[self._rows].unflatten(0, self._shape).to(torch.promote_types(weight.dtype, torch.float32))

    def before(self, anew):
        weight = self._features_first()
        if weight is None:
            return
        self._old = self._heads(weight)
        if anew or self._found is None:
            with contextlib.suppress(torch.linalg.LinAlgError):  # weights that are not finite: the last directions, or none
                self._found = directions(self._old)

    def forget(self):
        self._old = None

    def after(self, measured):
        """Where there was an update: True, or if `measured` [norm^2 taken off, of the whole update, left along the directions by what the
        weights really took], on the device; else None."""
        old, self._old = self._old, None
        weight = self._features_first()
        if old is None or weight is None or self._found is None:
            return None
        new = self._heads(weight)
        update = new - old
        part = leading(update, *self._found)
        weight[self._rows] = (new - part).flatten(0, 1).to(weight.dtype)
        if not measured:
            return True
        left = leading(self._heads(weight) - old, *self._found)
        return torch.stack([x.square().sum() for x in (part, update, left)])


class UpdateProjection:
    """Of all layers. Call before() ahead of the optimizer's step and after() behind it, forget() where the optimizer left it out."""

    def __init__(self, layers):
        self._matrices = {layer.index: [_Matrix(p, layer.head_dim) for p in (layer.wq, layer.wk) if p is not None] for layer in layers}
        self._updates = 0  # taken off so far
        self.left_out = False  # an update went into a CUDA graph
        self._measured, self._arrived = None, None

    @torch.no_grad()
    def before(self):
        if _device.capturing():  # directions are found by a call that waits, and a recorded update would keep them for ever
            self.left_out = True
            return self.forget()
        for matrices in self._matrices.values():
            for matrix in matrices:
                matrix.before(self._updates % EVERY == 0)

    @torch.no_grad()
    def after(self):
        """Takes the update off. Where directions are new, what came of it is sent to the host."""
        measured = self._updates % EVERY == 0
        found = {index: [x for x in (m.after(measured) for m in matrices) if x is not None] for index, matrices in self._matrices.items()}
        found = {index: x for index, x in found.items() if x}
        if measured and found and self._measured is None:
            self._send({index: torch.stack(x).sum(0) for index, x in found.items()})
        self._updates += bool(found)

    def forget(self):
        for matrices in self._matrices.values():
            for matrix in matrices:
                matrix.forget()

    def _send(self, sums):
        device = next(iter(sums.values())).device
        every = torch.stack([x.to(device, non_blocking=True) for x in sums.values()])
        self._measured = list(sums), every
        if every.is_cuda:
            here = torch.empty(every.shape, dtype=every.dtype, pin_memory=True)
            here.copy_(every, non_blocking=True)
            self._measured, self._arrived = (list(sums), here), torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(every.device))  # which need not be the current device's

    def effects(self):
        """{layer: (norm taken off, of the whole update, left along the directions)} of the last step with new directions,
        once, when it is here; else {}."""
        if self._measured is None or (self._arrived is not None and not self._arrived.query()):
            return {}
        (layers, sums), self._measured, self._arrived = self._measured, None, None
        return dict(zip(layers, (tuple(row) for row in sums.sqrt().tolist())))
