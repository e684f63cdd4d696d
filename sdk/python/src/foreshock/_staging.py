"""FSDP2: full W_Q and W_K of the step, copied when forward has them unsharded.

Outside of forward a rank holds a shard only, and an SDK may start no collective. So a pre-hook copies the unsharded
weights once a step, and the step that they end is ended then: frames come one forward later, and hold what one process
would have measured. The hook sits on the attention module and on the module that FSDP unshards: where the latter is compiled (blocks by
torch.compile, then fully_shard) nothing inside of it calls hooks, and its own are called outside of the compiled code. Heads are shared out between ranks by the library (replica r of n measures heads h with h mod n = r).
"""

import dataclasses

import torch

from . import _patch
from ._dtensor import fully_sharded


def sharded(layer):
    """The layer's W_Q is split between ranks outside of forward (FSDP2)."""
    parameter = layer.wq.parameter() if layer.wq else None
    return parameter is not None and fully_sharded(parameter)


def _unsharded_by_fsdp(module):
    """FSDP2 has this module's parameters whole while its forward runs: fully_shard put FSDPModule among its classes."""
    return any(cls.__name__ == "FSDPModule" for cls in type(module).__mro__)


class _Unsharded(_patch.Hook):
    """Forward pre-hook of a module that FSDP unshards, behind FSDP's own."""

    def __init__(self, copies):
        self.copies = copies

    def __call__(self, module, args):
        if not torch.compiler.is_compiling():
            for copy in self.copies:
                copy()


class Staging:
    """Copies of sharded weights. `fresh`: parameters copied since the optimizer ran."""

    def __init__(self, monitor):
        self.monitor, self.copies, self.fresh = monitor, {}, set()

    def why_not(self, layer):
        if layer.wq is not None and self.parameter(layer, "wq") is None:
            return ("its forward never held unsharded weights (compiled: compile each block, then fully_shard it; "
                    "or not called by itself)")
        return layer.weights_reason

    def attach(self, model, layers):
        """Puts a hook on the innermost module around each layer that FSDP unshards; what takes the hooks off again."""
        inside = {}
        for module in model.modules():  # outer ones first
            if _unsharded_by_fsdp(module):
                for part in module.modules():
                    inside[id(part)] = module
        wanted = {}
        for layer in layers:
            owner = inside.get(id(layer.module()))
            if owner is not None:
                wanted.setdefault(owner, []).append(self.hook(layer))
        return [owner.register_forward_pre_hook(_Unsharded(copies)).remove for owner, copies in wanted.items()]

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
