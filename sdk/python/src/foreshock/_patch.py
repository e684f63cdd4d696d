"""Where attention is called: torch's scaled_dot_product_attention, flex_attention, flash_attn's flash_attn_func and Transformers' eager
functions, wrapped.

A wrapped function knows its layer from `context`, which a pair of hooks on the attention module sets around forward.
Outside of watched modules it calls the original at once. Everything here may be traced by torch.compile: constants and
strings only, no state that changes from step to step.
"""

import functools
import inspect
import sys

import torch
import torch.nn.functional as F

from . import _codegen, _taps
from .attention import dynamic_max_attention


class _Context:
    """The watched layer whose forward runs now. One process, one forward at a time."""

    def __init__(self):
        self.key = ""
        self.normalise = False
        self.switch = None  # a flag on the device that says the same to code that is compiled once
        self.dynamic_max = None  # beta of the dynamic-maximum softmax, where it takes the place of attention
        self.tally = None  # its counts since the last sample: [(rows shifted, rows that needed it and were left alone)]


context = _Context()

# Up to 2.6 a compiled backward may not be given memory that an operator says it changes (the tap's dQ): a graph break in front of attention ended the
# training with an error; in 2.8 the graphs held more than the tap. Nothing between 2.8 and 2.11 was tried.
LEAST_COMPILED = (2, 11)
TOO_OLD = f"in code that PyTorch {torch.__version__} compiled: {'.'.join(map(str, LEAST_COMPILED))} or later is needed; uncompiled it is measured"
_version = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in torch.__version__.split(".")[:2])
compiled_taps = _version >= LEAST_COMPILED

# Before 2.15 dynamo compiles nothing of a model in which a checkpointed segment writes to anything outside of it; 2.15 looks whether it is put back,
# as Leave does.
_writes_refused = compiled_taps and _version < (2, 15)


def _write(key, normalise=False, switch=None, dynamic_max=None, tally=None):
    context.key, context.normalise, context.switch = key, normalise, switch
    context.dynamic_max, context.tally = dynamic_max, tally


def _set(*values):
    """What the layer's attention call reads. dynamo's check is left out for these writes alone: its setting would let the trainer's pass as well,
    which are then missing when backward repeats the forward."""
    if _writes_refused and torch.compiler.is_compiling():
        torch._dynamo.utils._disable_side_effect_safety_checks_for_current_subtracer(_write, *values)
    else:
        _write(*values)


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
    """Forward pre-hook of one watched layer. Compiled code checks whatever it read here in every step: of a layer on which nobody acts, the key alone."""

    def __init__(self, key, on_enter=None):
        self.key, self.normalise, self.on_enter, self.dynamic_max = key, False, on_enter, None
        self.switch = self.tally = None
        if on_enter is not None:
            self.act()

    def act(self):
        """From now on the layer's forward may be changed: code that was compiled before knows this hook's class and is compiled again."""
        self.__class__ = Act

    def set_normalise(self, on):
        """Between steps. Waits for nothing."""
        if on:
            self.act()
        if on != self.normalise and self.switch is not None:
            self.switch.fill_(on)
        self.normalise = on

    def __call__(self, module, args):
        _set(self.key)


class Act(Enter):
    """Of a layer that a guard may act on, or whose weights are copied. `normalise`: the guard is on for it."""

    def __call__(self, module, args):
        _set(self.key, self.normalise if self.switch is None else False, self.switch, self.dynamic_max, self.tally)
        if self.on_enter is not None and not torch.compiler.is_compiling():
            self.on_enter()


class Leave(Hook):
    """Forward hook of a watched layer."""

    def __call__(self, module, args, output):
        _set("")


class Pair:
    """Enter and Leave of one layer. Off the module they cost nothing: torch takes a slower path through a module that has any hook."""

    def __init__(self, module, enter):
        leave = Leave()
        self._handles = [(module.register_forward_pre_hook(enter), enter), (module.register_forward_hook(leave), leave)]

    def put(self, on):
        """On the module, or off it for a while. Never while its forward runs."""
        for handle, hook in self._handles:
            hooks = handle.hooks_dict_ref()
            if hooks is None:  # the module is gone
                continue
            if on:
                hooks[handle.id] = hook
            else:
                hooks.pop(handle.id, None)

    def remove(self):
        """For good."""
        for handle, _ in self._handles:
            handle.remove()
        self._handles = []


def qk_norm(x):
    """x / sqrt(mean(x^2) + 1e-6) over the last dimension, in fp32, in x's dtype."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def switched_norm(switch, q, k):
    """(q, k), normalised where the flag says so when this runs."""
    return torch.where(switch, qk_norm(q), q), torch.where(switch, qk_norm(k), k)


def _guarded(q, k):
    """(q, k) as the guard wants them in this layer; heads' dimension last."""
    if context.normalise:
        return qk_norm(q), qk_norm(k)
    return (q, k) if context.switch is None else switched_norm(context.switch, q, k)


def _observe(key, scale, causal, dropout, softcap):
    """Tells the layer how attention is called. While tracing it runs once, at compile time."""
    _codegen.register()
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
    q, k = _guarded(q, k)
    if not torch.compiler.is_compiling():
        _meet(key, scale, causal, dropout, softcap, q)
    if context.dynamic_max is not None and dropout == 0 and not softcap:
        call = _dynamic(call, context.dynamic_max, mask, causal, scale, heads_first)
    if not torch.is_grad_enabled() or not q.requires_grad or q.dim() != 4:
        return call(q, k, v)
    if torch.compiler.is_compiling():
        if not compiled_taps:
            _refuse(key, TOO_OLD)
            return call(q, k, v)
        _observe(key, scale, causal, dropout, softcap)
    elif not _wanted(key):
        return call(q, k, v)
    if callable(mask):  # of calls that take no mask: made where it is measured
        mask = mask()
    q, k, v = _as_scores_use_them(q, k, v)
    q, *channels = _taps.open_tap(q, k, v, mask, key, heads_first, causal)
    result = call(q, k, v)
    if isinstance(result, tuple):
        return (_taps.close_tap(result[0], channels), *result[1:])
    return _taps.close_tap(result, channels)


def _dynamic(call, beta, mask, causal, scale, heads_first):
    """The dynamic-maximum attention in the place of `call`."""
    mask = mask() if callable(mask) else mask
    tally = context.tally

    def attend(q, k, v):
        o, shifted, left = dynamic_max_attention(q, k, v, mask, causal, scale, beta)
        if tally is not None and not torch.compiler.is_compiling() and torch.is_grad_enabled():
            tally.append((shifted.detach(), left.detach()))
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
    if context.key == "":
        return _original_sdpa(query, key, value, attn_mask, dropout_p, is_causal, **options)
    causal = True if is_causal else False
    return _tapped(
        lambda q, k, v: _original_sdpa(q, k, v, attn_mask, dropout_p, causal, **options),
        query, key, value, attn_mask, True, scale, causal, dropout_p, 0.0)


def _eager(original):
    """A Transformers eager_attention_forward(module, query, key, value, attention_mask, ...), watched."""
    signature = inspect.signature(original)
    default_scaling = signature.parameters["scaling"].default if "scaling" in signature.parameters else None
    knows_cap = "softcap" in signature.parameters

    @functools.wraps(original)
    def eager_attention_forward(module, query, key, value, attention_mask, *args, **kwargs):
        if context.key == "" or args:
            return original(module, query, key, value, attention_mask, *args, **kwargs)
        scale = kwargs.get("scaling", default_scaling)
        if not isinstance(scale, (int, float)):
            scale = None
        dropout = kwargs.get("dropout", 0.0)
        softcap = kwargs.get("softcap", None)
        if softcap is None and knows_cap:
            softcap = 0.0
        return _tapped(
            lambda q, k, v: original(module, q, k, v, attention_mask, **kwargs),
            query, key, value, attention_mask, False, scale, False, dropout, softcap)

    eager_attention_forward.foreshock_original = original
    return eager_attention_forward


def _refuse(key, reason):
    """Names a layer whose call cannot be measured. While tracing it runs once, at compile time."""
    tap = _taps.live.get(key)
    if tap is not None and not tap.off:
        tap.give_up(reason)


_refuse._dynamo_marked_constant = True


def _flex(original):
    """torch.nn.attention.flex_attention, or what torch.compile made of it, watched. A block mask is written out in steps that are sampled;
    inside of compiled code it would be in every step."""

    @functools.wraps(original)
    def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, *args, **kwargs):
        layer, compiling = context.key, torch.compiler.is_compiling()
        call = lambda q, k, v: original(q, k, v, score_mod, block_mask, scale, *args, **kwargs)
        if layer == "":
            return call(query, key, value)
        if score_mod is not None or (block_mask is not None and compiling):
            _refuse(layer, "flex_attention with a score_mod" if score_mod is not None else "flex_attention with a block mask, compiled")
            return call(*_guarded(query, key), value)

        def keep():
            from torch.nn.attention.flex_attention import create_mask

            return create_mask(block_mask.mask_mod, None, None, query.shape[2], key.shape[2], device=query.device)

        return _tapped(call, query, key, value, None if block_mask is None else keep, True, scale, False, 0.0, 0.0)

    flex_attention.foreshock_original = original
    return flex_attention


def _flash(original):
    """flash_attn.flash_attn_func of [batch, seq, heads, dim], watched."""

    @functools.wraps(original)
    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                        *args, **kwargs):
        layer = context.key
        call = lambda q, k, v: original(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, *args, **kwargs)
        if layer == "":
            return call(q, k, v)
        reason = ""
        if tuple(window_size) != (-1, -1) or alibi_slopes is not None:
            reason = "flash_attn with a window or ALiBi"
        elif q.shape[1] != k.shape[1]:
            reason = "flash_attn of fewer queries than keys"
        if reason:
            _refuse(layer, reason)
            return call(*_guarded(q, k), v)
        swap = lambda t: t.transpose(1, 2)  # heads and tokens
        return _tapped(lambda q, k, v: call(swap(q), swap(k), swap(v)), swap(q), swap(k), swap(v), None, False, softmax_scale,
                       bool(causal), dropout_p, softcap)

    flash_attn_func.foreshock_original = original
    return flash_attn_func


# Module, function, and what wraps it. Wrapped where the module is loaded, as a name of it, and as a name that the home of an attention module or
# of a part of it has, or their classes.
_OTHERS = (("torch.nn.attention.flex_attention", "flex_attention", _flex), ("flash_attn", "flash_attn_func", _flash))
_wrapped = {}  # id of an original: what wraps it


def _original_of(value):
    """The function that torch.compile(function) calls."""
    return getattr(value, "_torchdynamo_orig_callable", value)


def _patch_others(namespaces, classes):
    for module, name, wrap in _OTHERS:
        home = sys.modules.get(module)
        function = getattr(home, name, None)
        if function is None:
            continue
        original = getattr(function, "foreshock_original", function)
        for namespace in (vars(home), *namespaces):
            for bound, value in list(namespace.items()):
                if callable(value) and not hasattr(value, "foreshock_original") and _original_of(value) is original:
                    if id(value) not in _wrapped:
                        _wrapped[id(value)] = wrap(value)
                    namespace[bound] = _wrapped[id(value)]
        for cls in classes:  # kept as an attribute of the class (torchtitan's FlexAttention)
            for bound, held in list(vars(cls).items()):
                static = isinstance(held, staticmethod)
                value = held.__func__ if static else held
                if callable(value) and not hasattr(value, "foreshock_original") and _original_of(value) is original:
                    if id(value) not in _wrapped:
                        _wrapped[id(value)] = wrap(value)
                    setattr(cls, bound, staticmethod(_wrapped[id(value)]) if static else _wrapped[id(value)])


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
    classes = {cls for m in modules for part in m.modules() for cls in type(part).__mro__ if not cls.__module__.startswith("torch.")}
    homes = {cls.__module__ for cls in classes}
    namespaces = [vars(sys.modules[name]) for name in sorted(homes) if name in sys.modules]
    for namespace in namespaces:
        _patch_names(namespace)
    _patch_others(namespaces, classes)
