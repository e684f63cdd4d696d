"""FSDP2: the W_Q and W_K that this rank measures, copied when forward has them unsharded.

Outside of forward a rank holds a shard only, and an SDK may start no collective. So a pre-hook copies heads of the unsharded
weights once a step, and the step that they end is ended then: frames come one forward later, and hold what one process
would have measured. The hook sits on the attention module and on the module that FSDP unshards: where the latter is compiled (blocks by
torch.compile, then fully_shard) nothing inside of it calls hooks, and its own are called outside of the compiled code. Heads are shared out
between ranks by the library (replica r of n measures heads h with h mod n = r), so copied are only those, and the key heads of those queries.
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


def _own(first, count, replica, replicas):
    """Local indices of the heads that replica `replica` of `replicas` measures, as the library shares them out."""
    return [h for h in range(count) if (first + h) % replicas == replica]


def measured_heads(layer, replica, replicas):
    """(query heads, key heads), local indices: what the library reads of a layer. Key heads are its own, and those that its queries meet."""
    queries = _own(layer.first_query_head, layer.query_heads_here(), replica, replicas)
    keys = set(_own(layer.first_kv_head, layer.kv_heads_here(), replica, replicas))
    group = layer.query_heads // layer.kv_heads
    if layer.wq is not None:
        keys |= {(layer.first_query_head + h) // group - layer.first_kv_head for h in queries}
    return tuple(queries), tuple(sorted(keys))


class _Copy:
    """Some heads of one projection, [heads, head_dim, model_dim], one after the other."""

    def __init__(self, projection, head_dim, heads, parameter):
        self.projection, self.head_dim, self.heads = projection, head_dim, heads
        self.runs = []  # [place here, first feature there, features from head to head, heads]: one copy, one kernel, for each
        for place, start in enumerate(projection.starts[head] for head in heads):
            here, first, step, count = self.runs[-1] if self.runs else (0, 0, 0, 0)
            if count == 1:
                step = start - first
            if count and step > 0 and start == first + count * step:
                self.runs[-1] = (here, first, step, count + 1)
            else:
                self.runs.append((place, start, head_dim, 1))
        model_dim, _ = projection.sizes(parameter)
        # A rank may measure no head of the layer (more ranks than heads). The library wants an address all the same.
        self.tensor = torch.zeros(max(len(heads), 1) * head_dim, model_dim, dtype=parameter.dtype, device=parameter.device)

    def take(self, parameter):
        whole = parameter.detach()
        row, column, _ = self.projection.strides(whole)
        heads = self.tensor.view(-1, self.head_dim, self.tensor.shape[1])
        for here, first, step, count in self.runs:
            there = whole.as_strided((count, *heads.shape[1:]), (step * column, column, row), whole.storage_offset() + first * column)
            heads[here: here + count].copy_(there)

    def as_projection(self):
        """Where the heads lie in the copy. Heads that are not in it are never read; their place is any that exists."""
        starts = [0] * len(self.projection.starts)
        for place, head in enumerate(self.heads):
            starts[head] = place * self.head_dim
        return dataclasses.replace(self.projection, starts=tuple(starts), transposed=False)


class Staging:
    """Copies of sharded weights' heads. `fresh`: those copied since the optimizer ran."""

    def __init__(self, monitor, replica, replicas):
        self.monitor, self.copies, self.fresh = monitor, {}, set()
        self.replica, self.replicas = replica, replicas

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
        queries, keys = measured_heads(layer, self.replica, self.replicas)

        def copy():
            if torch.is_grad_enabled() and not self.monitor.closed:
                for projection, heads in ((layer.wq, queries), (layer.wk, keys)):
                    if projection is not None:
                        self._copy(projection, layer.head_dim, heads)
        return copy

    def _key(self, projection, heads):
        return id(projection.owner()), projection.name, projection.starts, heads

    def _copy(self, projection, head_dim, heads):
        key = self._key(projection, heads)
        parameter = projection.parameter()
        if key in self.fresh or parameter is None or fully_sharded(parameter):
            return
        if key not in self.copies:
            self.copies[key] = _Copy(projection, head_dim, heads, parameter)
        self.copies[key].take(parameter)
        self.fresh.add(key)

    def _found(self, layer, which):
        projection = getattr(layer, which)
        heads = measured_heads(layer, self.replica, self.replicas)[which == "wk"]
        return None if projection is None else self.copies.get(self._key(projection, heads))

    def parameter(self, layer, which):
        """The copy's tensor; None while there is none."""
        found = self._found(layer, which)
        return None if found is None else found.tensor

    def projection(self, layer, which):
        """Where the heads lie in that tensor."""
        return self._found(layer, which).as_projection()

    def optimizer_ran(self):
        self.fresh.clear()
