"""FSDP2: full W_Q and W_K of the step, copied when forward has them unsharded.

Outside of forward a rank holds a shard only, and an SDK may start no collective. So a pre-hook copies the unsharded
weights once a step, and the step that they end is ended then: frames come one forward later, and hold what one process
would have measured. Heads are shared out between ranks by the library (replica r of n measures heads h with h mod n = r).
"""

import dataclasses

import torch

from ._dtensor import fully_sharded


def sharded(layer):
    """The layer's W_Q is split between ranks outside of forward (FSDP2)."""
    parameter = layer.wq.parameter() if layer.wq else None
    return parameter is not None and fully_sharded(parameter)


class Staging:
    """Copies of sharded weights. `fresh`: parameters copied since the optimizer ran."""

    def __init__(self, monitor):
        self.monitor, self.copies, self.fresh = monitor, {}, set()

    def why_not(self, layer):
        if layer.wq is not None and self.parameter(layer, "wq") is None:
            return "its forward never held unsharded weights (compiled, or not called by itself)"
        return layer.weights_reason

    def hook(self, layer):
        def copy():
            if torch.is_grad_enabled() and not self.monitor.closed:
                for projection in (layer.wq, layer.wk):
                    if projection is not None:
                        self._copy(projection, layer.head_dim)
        return copy

    def _key(self, projection):
        return id(projection.owner()), projection.name

    def _copy(self, projection, head_dim):
        key = self._key(projection)
        parameter = projection.parameter()
        if key in self.fresh or parameter is None or fully_sharded(parameter):
            return
        if key not in self.copies:
            self.copies[key] = torch.empty_like(parameter, memory_format=torch.contiguous_format, requires_grad=False)
        self.copies[key].copy_(parameter.detach())
        self.fresh.add(key)

    def parameter(self, layer, which):
        projection = getattr(layer, which)
        return None if projection is None else self.copies.get(self._key(projection))

    def projection(self, layer, which):
        return dataclasses.replace(getattr(layer, which))

    def optimizer_ran(self):
        self.fresh.clear()
