"""The tap around an attention call: two identity functions of autograd and one operator that measures.

    q, channel = Open(q)  ->  o = attention(q, k, v)  ->  o = Close(o, channel)

Nothing is computed or copied in forward. In backward, Close hands dO and O over the gradients of two empty channels
to Open, which so has q, k, v, O, dO and dQ at once and gives them to one operator, `foreshock::measure`. It says that it changes
dQ, which it never does: so no compiler may leave it out, and nothing is computed to keep it.

Consequences: a forward under no_grad, a forward that is thrown away and the first forward of a checkpointed segment leave no trace and
keep nothing alive; what is measured is what backward used.

torch.compile traces the two functions and keeps the operator in the graph for good. Whether it measures is decided
in the operator, at run time, so that the graph never changes. Outside of compiled code the tap is only laid in steps
that are sampled.
"""

import torch

from . import _device

# Taps by key. A compiled graph holds the key, not the tap: a tap that is gone measures nothing. The operator's keys say how it was
# called as well, because each argument of an operator costs its share of a microsecond in every step.
live = {}
# `_CODE`: of the code that Inductor writes for the operator (_codegen). Inductor keeps code on disk by its graph, and the graph holds the
# keys, so another version of Foreshock finds none of this one's, which calls what it may not have.
_CODE = "2"
_WAYS = {(first, causal): "|" + _CODE + ("h" if first else "s") + ("c" if causal else "-") for first in (True, False)
         for causal in (True, False)}

_library = torch.library.Library("foreshock", "DEF")
_library.define(
    "measure(Tensor(a!) dq, Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor? mask, str key) -> ()"
)


def _awake(key):
    """The tap of this key if a call has anything to do now."""
    tap = live.get(key)
    return tap if tap is not None and (tap.gate.open or tap.counts_in_backward or _device.capturing()) else None


def _wants(key):
    """Compiled code asks before it makes the call's arguments (_codegen)."""
    return _awake(key) is not None


torch.ops.foreshock.wants = _wants


@torch.library.impl(_library, "measure", "CompositeExplicitAutograd")
def _measure(dq, d_o, q, k, v, o, mask, key):
    tap = _awake(key)
    if tap is not None:
        tap.backward(dq, d_o, q, k, v, o, mask, key[-2] == "h", key[-1] == "c")


@torch.library.register_fake("foreshock::measure", lib=_library)
def _measure_fake(dq, d_o, q, k, v, o, mask, key):
    return None


def add(key, tap):
    """From now on calls of this key are the tap's."""
    live[key] = tap
    for way in _WAYS.values():
        live[key + way] = tap


def remove(key):
    live.pop(key, None)
    for way in _WAYS.values():
        live.pop(key + way, None)


class _Open(torch.autograd.Function):
    """(q, k, v, mask) -> q and two channels of O's shape, whose gradients bring dO and O."""

    @staticmethod
    def forward(ctx, q, k, v, mask, key, heads_first, causal):
        ctx.save_for_backward(q, k, v, mask)
        ctx.key = key + _WAYS[bool(heads_first), bool(causal)]
        shape = (*q.shape[:-1], v.shape[-1])
        if not heads_first:
            shape = (shape[0], shape[2], shape[1], shape[3])
        d_o = q.new_zeros(()).expand(shape)
        o = q.new_zeros(()).expand(shape)
        return q.view_as(q), d_o, o

    @staticmethod
    def backward(ctx, dq, d_o, o):
        q, k, v, mask = ctx.saved_tensors
        if dq is None or d_o is None or o is None:
            return dq, None, None, None, None, None, None
        torch.ops.foreshock.measure(dq, d_o, q, k, v, o, mask, ctx.key)
        return dq, None, None, None, None, None, None


class _Close(torch.autograd.Function):
    """(O, channels) -> O; in backward dO and O go out as the channels' gradients."""

    @staticmethod
    def forward(ctx, o, d_o_channel, o_channel):
        ctx.save_for_backward(o)
        return o.view_as(o)

    @staticmethod
    def backward(ctx, d_o):
        (o,) = ctx.saved_tensors
        return d_o, d_o, o


def open_tap(q, k, v, mask, key, heads_first, causal):
    return _Open.apply(q, k.detach(), v.detach(), mask, key, heads_first, causal)


def close_tap(o, channels):
    return _Close.apply(o, *channels)
