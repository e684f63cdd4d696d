"""Where attention is called: torch's scaled_dot_product_attention and Transformers' eager functions, wrapped.

A wrapped function knows its layer from `context`, which a pair of hooks on the attention module sets around forward.
Outside of watched modules it calls the original at once. Everything here may be traced by torch.compile: constants and
strings only, no state that changes from step to step.
"""

import functools
import inspect
import sys

import torch
import torch.nn.functional as F

from . import _taps
from .attention import dynamic_max_attention


class _Context:
    """The watched layer whose forward runs now. One process, one forward at a time."""

    def __init__(self):
        self.key = ""
        self.normalise = False
        self.switch = None  # a flag on the device that says the same to code that is compiled once
        self.dynamic_max = None  # beta of the dynamic-maximum softmax, where it takes the place of attention


context = _Context()


class Inert:
    """What hooks of a copied or pickled module become: nothing."""

    def __call__(self, *unused):
        return None


class Hook:
    """Of a module: its copies and pickles have none."""

    def __deepcopy__(self, memo):
        return Inert()

    def __reduce__(self):
        return Inert, ()


class Enter(Hook):
    """Forward pre-hook of one watched layer. `normalise`: the guard is on for it."""

    def __init__(self, key, on_enter=None):
        self.key, self.normalise, self.on_enter, self.dynamic_max = key, False, on_enter, None
        self.switch = None

    def set_normalise(self, on):
        """Between steps. Waits for nothing."""
        if on != self.normalise and self.switch is not None:
            self.switch.fill_(on)
        self.normalise = on

    def __call__(self, module, args):
        context.key = self.key
        context.switch = self.switch
        context.normalise = self.normalise if self.switch is None else False
        context.dynamic_max = self.dynamic_max
        if self.on_enter is not None and not torch.compiler.is_compiling():
            self.on_enter()


class Leave(Hook):
    """Forward hook of a watched layer."""

    def __call__(self, module, args, output):
        context.key = ""
        context.normalise = False
        context.switch = None
        context.dynamic_max = None


def qk_norm(x):
    """x / sqrt(mean(x^2) + 1e-6) over the last dimension, in fp32, in x's dtype."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def switched_norm(switch, q, k):
    """(q, k), normalised where the flag says so when this runs."""
    return torch.where(switch, qk_norm(q), q), torch.where(switch, qk_norm(k), k)


def _observe(key, scale, causal, dropout, softcap):
    """Tells the layer how attention is called. While tracing it runs once, at compile time."""
    tap = _taps.live.get(key)
    if tap is not None:
        tap.observe(scale, causal, dropout, softcap)
    return None


_observe._dynamo_marked_constant = True  # as torch.compiler.assume_constant_result does, without importing dynamo


def _meet(key, scale, causal, dropout, softcap, q):
    """Outside of compiled code, with or without grad: the layer sees its call."""
    tap = _taps.live.get(key)
    if tap is not None:
        tap.called(scale, causal, dropout, softcap, q)


def _wanted(key):
    """Outside of compiled code: is this call to be measured?"""
    tap = _taps.live.get(key)
    return tap is not None and tap.forward()


def _as_scores_use_them(q, k, v):
    """What autocast makes of them inside of attention, made here, so that the tap sees it."""
    device = q.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        if q.dtype != torch.float64:
            q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    return q, k, v


def _tapped(call, q, k, v, mask, heads_first, scale, causal, dropout, softcap):
    """call(q, k, v) with the tap laid around it where it is wanted; q, k, v are [batch, heads, seq, dim]."""
    key = context.key
    if context.normalise:
        q, k = qk_norm(q), qk_norm(k)
    elif context.switch is not None:
        q, k = switched_norm(context.switch, q, k)
    if not torch.compiler.is_compiling():
        _meet(key, scale, causal, dropout, softcap, q)
    if context.dynamic_max is not None and dropout == 0 and not softcap:
        call = _dynamic(call, context.dynamic_max, mask, causal, scale, heads_first)
    if not torch.is_grad_enabled() or not q.requires_grad or q.dim() != 4:
        return call(q, k, v)
    if torch.compiler.is_compiling():
        _observe(key, scale, causal, dropout, softcap)
    elif not _wanted(key):
        return call(q, k, v)
    q, k, v = _as_scores_use_them(q, k, v)
    q, *channels = _taps.open_tap(q, k, v, mask, key, heads_first, causal)
    result = call(q, k, v)
    if isinstance(result, tuple):
        return (_taps.close_tap(result[0], channels), *result[1:])
    return _taps.close_tap(result, channels)


def _dynamic(call, beta, mask, causal, scale, heads_first):
    """The dynamic-maximum attention in the place of `call`."""

    def attend(q, k, v):
        o, _, _ = dynamic_max_attention(q, k, v, mask, causal, scale, beta)
        return o if heads_first else (o.transpose(1, 2), None)

    return attend


_original_sdpa = F.scaled_dot_product_attention


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """torch.nn.functional.scaled_dot_product_attention, watched."""
    options = {} if scale is None else {"scale": scale}
    if enable_gqa:
        options["enable_gqa"] = True
    causal = True if is_causal else False
    if context.key == "":
        return _original_sdpa(query, key, value, attn_mask, dropout_p, causal, **options)
    return _tapped(
        lambda q, k, v: _original_sdpa(q, k, v, attn_mask, dropout_p, causal, **options),
        query, key, value, attn_mask, True, scale, causal, dropout_p, 0.0)


def _eager(original):
    """A Transformers eager_attention_forward(module, query, key, value, attention_mask, ...), watched."""
    signature = inspect.signature(original)
    default_scaling = signature.parameters["scaling"].default if "scaling" in signature.parameters else None

    @functools.wraps(original)
    def eager_attention_forward(module, query, key, value, attention_mask, *args, **kwargs):
        if context.key == "" or args:
            return original(module, query, key, value, attention_mask, *args, **kwargs)
        scale = kwargs.get("scaling", default_scaling)
        if not isinstance(scale, (int, float)):
            scale = None
        dropout = kwargs.get("dropout", 0.0)
        softcap = kwargs.get("softcap", None)
        return _tapped(
            lambda q, k, v: original(module, q, k, v, attention_mask, **kwargs),
            query, key, value, attention_mask, False, scale, False, dropout, 0.0 if softcap is None else softcap)

    eager_attention_forward.foreshock_original = original
    return eager_attention_forward


def _patch_names(namespace):
    """Names bound earlier by `from torch.nn.functional import scaled_dot_product_attention`, and eager functions."""
    for name, value in list(namespace.items()):
        if value is _original_sdpa:
            namespace[name] = scaled_dot_product_attention
    eager = namespace.get("eager_attention_forward")
    if callable(eager) and not hasattr(eager, "foreshock_original"):
        parameters = list(inspect.signature(eager).parameters)
        if parameters[:5] == ["module", "query", "key", "value", "attention_mask"]:
            namespace["eager_attention_forward"] = _eager(eager)


def patch(modules):
    """Wraps what the given attention modules call. Idempotent; wrapped functions stay, and are inert without a watch."""
    F.scaled_dot_product_attention = scaled_dot_product_attention
    for cls in {c for m in modules for c in type(m).__mro__}:
        home = sys.modules.get(cls.__module__)
        if home is not None and not cls.__module__.startswith("torch."):
            _patch_names(vars(home))
