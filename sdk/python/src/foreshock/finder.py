"""Finds attention layers in a model by the names and sizes of their parts.

A module is an attention layer when it holds query and key projections under a known name (separate or fused) and its number
of heads can be told. What looks like attention and cannot be matched is named with the reason, never left out silently.
"""

import itertools
import weakref

import torch

from ._dtensor import local, tensor_parallel_share
from .layout import AttentionLayer, Projection, Unmonitored, interleaved_starts, starts_of

SEPARATE = (("q_proj", "k_proj"), ("wq", "wk"), ("query", "key"), ("q_lin", "k_lin"), ("to_q", "to_k"), ("w_q", "w_k"),
            ("linear_q", "linear_k"), ("W_q", "W_k"), ("W_query", "W_key"), ("q_linear", "k_linear"), ("q", "k"),
            ("c_q", "c_k"))
CONCATENATED = ("c_attn", "qkv", "qkv_proj", "Wqkv", "W_qkv", "in_proj", "to_qkv", "attn_qkv", "wqkv", "att_proj")
INTERLEAVED = ("query_key_value", "linear_qkv")
HEADS = ("num_heads", "n_head", "num_attention_heads", "n_heads", "num_q_heads", "nhead", "heads", "n_q_heads", "h",
         "num_attention_heads_per_partition")
KV_HEADS = ("num_key_value_heads", "n_kv_heads", "n_kv_head", "num_kv_heads", "num_query_groups", "kv_heads",
            "num_query_groups_per_partition")
HEAD_DIM = ("head_dim", "attention_head_size", "d_head", "dim_head", "head_size", "key_value_proj_dim", "d_kv",
            "hidden_size_per_attention_head", "dim_per_head")
QK_NORM = (("q_norm", "k_norm"), ("query_norm", "key_norm"), ("q_layernorm", "k_layernorm"), ("norm_q", "norm_k"),
           ("query_layernorm", "key_layernorm"), ("norm_query", "norm_key"))
LATENT = ("kv_a_proj_with_mqa", "wkv_a", "kv_lora_rank", "q_a_proj", "linear_kv_down_proj")
LINEAR = ("mamba", "deltanet", "linearattention", "rwkv", "retention", "gatedlinear", "hyena", "ssm", "performer")

HOLDERS = ("qkv_linear", "qkv_proj", "qkv")  # children that hold the projections of a module that knows its heads (torchtitan 0.3)

REGISTER = "foreshock.register(module, ...) describes it by hand"
FSDP1 = "inside of FullyShardedDataParallel (FSDP1), whose flat parameters have no W_Q and W_K; fully_shard (FSDP2) is watched"


def _plain_int(value):
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(module, names, with_config=True):
    """The first of `names` that is a positive number on the module, or in its config."""
    for place in (module, getattr(module, "config", None) if with_config else None):
        for name in names:
            value = _plain_int(getattr(place, name, None)) if place is not None else None
            if value is not None:
                return value
    return None


def _weight(module, name):
    """(owner, parameter) of module.<name>.weight when it is a matrix."""
    part = getattr(module, name, None)
    part = getattr(part, "base_layer", part)  # LoRA: the frozen matrix below the adapters
    part = getattr(part, "linear", part) if part is not None and not hasattr(part, "weight") else part
    weight = getattr(part, "weight", None)
    weight = local(weight) if isinstance(weight, torch.Tensor) else None
    return (part, weight) if isinstance(weight, torch.Tensor) and weight.dim() == 2 else (None, None)


def _is_transposed(owner):
    """Transformers' Conv1D holds [in, out] and is no nn.Linear."""
    return type(owner).__name__ == "Conv1D" and hasattr(owner, "nf")


def _features(owner, weight):
    """(model_dim, features), whatever the layout."""
    return tuple(weight.shape) if _is_transposed(owner) else tuple(weight.shape)[::-1]


def _normalised(module):
    for pair in QK_NORM:
        parts = [getattr(module, name, None) for name in pair]
        if all(p is not None and not isinstance(p, torch.nn.Identity) for p in parts):
            return True
    return bool(getattr(module, "use_qk_norm", False) or getattr(module, "qk_layernorm", False))


def _heads(module, q_features):
    """(heads, head_dim) as far as they can be told."""
    heads, head_dim = _number(module, HEADS), _number(module, HEAD_DIM)
    if head_dim is None and heads is not None and q_features % heads == 0:
        head_dim = q_features // heads
    if heads is None and head_dim is not None:
        heads = q_features // head_dim
    return heads, head_dim


def _common(module, name, **known):
    softcap = getattr(module, "attn_logit_softcapping", None)
    return AttentionLayer(name=name, module=weakref.ref(module), qk_norm=_normalised(module),
                          softcap=float(softcap) if isinstance(softcap, (int, float)) and softcap else 0.0, **known)


def _separate(name, module, tensor_parallel, holder=None):
    """`holder`: the module that has the projections, where it is not the one that has the heads."""
    for q_name, k_name in SEPARATE:
        (q_owner, wq), (k_owner, wk) = (_weight(holder or module, part) for part in (q_name, k_name))
        if wq is None or wk is None:
            continue
        model_dim, q_features = _features(q_owner, wq)
        k_dim, k_features = _features(k_owner, wk)
        share = tensor_parallel_share(q_owner.weight)
        tensor_parallel = share if share[1] > 1 else tensor_parallel
        heads, head_dim = _heads(module, q_features)
        if heads is None:
            return Unmonitored(name, f"the number of heads is not told by any of {', '.join(HEADS[:4])}...; {REGISTER}")
        gate = 1
        if q_features == 2 * heads * head_dim and "next" in type(module).__name__.lower() + type(module).__module__.lower():
            gate = 2  # Qwen3-Next: each head's query is followed by its gate
        return _sized(name, module, model_dim, heads, head_dim, q_features, k_features, k_dim, gate,
                      (q_owner, k_owner), "separate", tensor_parallel)
    return None


def _sized(name, module, model_dim, heads, head_dim, q_features, k_features, k_dim, gate, owners, layout, tensor_parallel):
    if head_dim is None or q_features % (head_dim * gate) or k_features % head_dim:
        return Unmonitored(name, f"{q_features} query and {k_features} key features do not fit {heads} heads of "
                                 f"{head_dim}; {REGISTER}")
    here, kv_here = q_features // (head_dim * gate), k_features // head_dim
    rank, size = tensor_parallel
    if heads not in (here, here * size):  # attributes count the layer's heads, or this rank's (Megatron)
        return Unmonitored(name, f"{here} query heads in the weights, {heads} in the module or its config; give tensor_parallel, "
                                 f"or {REGISTER}")
    told = _number(module, KV_HEADS) if heads != here else None  # of the whole layer; ranks may share key heads
    heads, kv_heads = here * size, told or kv_here * size
    if kv_here == 0 or here % kv_here:
        return Unmonitored(name, f"{here} query heads are no multiple of {kv_here} key heads; {REGISTER}")
    q_owner, k_owner = owners
    layer = _common(
        module, name, model_dim=model_dim, query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, layout=layout,
        wq=Projection(weakref.ref(q_owner), "weight", starts_of(here, head_dim * gate), _is_transposed(q_owner)),
        wk=Projection(weakref.ref(k_owner), "weight", starts_of(kv_here, head_dim), _is_transposed(k_owner)))
    if k_dim != model_dim:
        layer.wk, layer.weights_reason = None, f"keys come from inputs of size {k_dim}, queries of size {model_dim}"
    if here < heads:
        layer.first_query_head, layer.local_query_heads = rank * here, here
        layer.first_kv_head = rank * here * kv_heads // heads
        layer.local_kv_heads = kv_here
    return layer


def _fused(name, module, holder=None):
    holder = holder or module
    for fused_name in CONCATENATED + INTERLEAVED:
        owner, weight = _weight(holder, fused_name)
        if weight is None:
            continue
        model_dim, features = _features(owner, weight)
        heads = _number(module, HEADS)
        if heads is None:
            return Unmonitored(name, f"{fused_name} is fused and the number of heads is not told; {REGISTER}")
        head_dim = _number(module, HEAD_DIM, with_config=False) or (model_dim // heads if model_dim % heads == 0 else None)
        kv_heads = _number(module, KV_HEADS) or heads
        if getattr(module, "multi_query", False) and not getattr(module, "new_decoder_architecture", False):
            kv_heads = 1
        if not head_dim or features != (heads + 2 * kv_heads) * head_dim:
            total = features // head_dim if head_dim and features % head_dim == 0 else None
            if total is None or total <= heads or (total - heads) % 2:
                return Unmonitored(name, f"{fused_name} has {features} features, not ({heads} + 2 x {kv_heads}) x "
                                         f"{head_dim}; {REGISTER}")
            kv_heads = (total - heads) // 2
        per_group = fused_name in INTERLEAVED or hasattr(holder, "heads_per_kv")
        interleaved = per_group and not (kv_heads == 1 and getattr(module, "multi_query", False))
        return fused_layer(name, module, owner, "weight", model_dim, heads, kv_heads, head_dim, interleaved)
    return None


def fused_layer(name, module, owner, parameter, model_dim, heads, kv_heads, head_dim, interleaved):
    if heads % kv_heads:
        return Unmonitored(name, f"{heads} query heads are no multiple of {kv_heads} key heads; {REGISTER}")
    if interleaved:
        q, k = interleaved_starts(heads, kv_heads, head_dim)
    else:
        q, k = starts_of(heads, head_dim), starts_of(kv_heads, head_dim, heads * head_dim)
    transposed = _is_transposed(owner)
    layout = ("Conv1D, " if transposed else "") + "fused, " + ("interleaved per group" if interleaved else "concatenated")
    return _common(module, name, model_dim=model_dim, query_heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                   layout=layout, wq=Projection(weakref.ref(owner), parameter, q, transposed),
                   wk=Projection(weakref.ref(owner), parameter, k, transposed))


def _multihead(name, module):
    """torch.nn.MultiheadAttention: in_proj_weight, or three weights of their own."""
    heads, dim = module.num_heads, module.embed_dim
    head_dim = dim // heads
    if module.in_proj_weight is not None:
        return fused_layer(name, module, module, "in_proj_weight", dim, heads, heads, head_dim, False)
    me = weakref.ref(module)
    layer = _common(module, name, model_dim=dim, query_heads=heads, kv_heads=heads, head_dim=head_dim, layout="separate",
                    wq=Projection(me, "q_proj_weight", starts_of(heads, head_dim)),
                    wk=Projection(me, "k_proj_weight", starts_of(heads, head_dim)))
    if module.kdim != dim:
        layer.wk, layer.weights_reason = None, f"keys come from inputs of size {module.kdim}, queries of size {dim}"
    return layer


def _held(name, module, tensor_parallel):
    """Projections in a child, heads and the attention call in `module`."""
    if _number(module, HEADS, with_config=False) is None:
        return None
    for child in HOLDERS:
        holder = getattr(module, child, None)
        if isinstance(holder, torch.nn.Module) and not hasattr(holder, "weight"):
            found = _separate(name, module, tensor_parallel, holder) or _fused(name, module, holder)
            if found is not None:
                return found
    return None


def match(name, module, tensor_parallel=(0, 1)):
    """AttentionLayer, Unmonitored, or None where the module is nothing of the kind."""
    kind = type(module).__name__.lower()
    if isinstance(module, torch.nn.MultiheadAttention):
        return _multihead(name, module)
    if any(hasattr(module, mark) for mark in LATENT) and not isinstance(module, torch.nn.ModuleList):
        if "attention" in kind or "attn" in kind or "mla" in kind:
            return Unmonitored(name, f"multi-head latent attention has no W_Q and W_K of heads; {REGISTER}")
    if any(mark in kind for mark in LINEAR):
        return Unmonitored(name, "linear attention or a state space layer: no softmax, no logits") if any(
            True for _ in module.parameters()) else None
    return _separate(name, module, tensor_parallel) or _fused(name, module) or _held(name, module, tensor_parallel)


def _looks_like_attention(module):
    kind = type(module).__name__.lower()
    # FSDP1 may leave a module without parameters of its own.
    return ("attention" in kind or "attn" in kind) and any(True for _ in itertools.chain(module.parameters(), module.children()))


def find(model, tensor_parallel=(0, 1), registered=()):
    """([AttentionLayer in the model's order], [Unmonitored]). `registered`: layers described by hand, taken as they are."""
    by_hand = {id(layer.module()): layer for layer in registered}
    layers, unmonitored, suspects, matched = [], [], [], []
    flat = [name for name, module in model.named_modules() if type(module).__name__ == "FullyShardedDataParallel"]
    for name, module in model.named_modules():
        if any(name == m or name.startswith(m + ".") for m in matched if m):
            continue
        found = by_hand.get(id(module)) or match(name, module, tensor_parallel)
        if any(name == f or name.startswith(f + ".") or not f for f in flat) and (found or _looks_like_attention(module)):
            found = Unmonitored(name, FSDP1)
        if isinstance(found, AttentionLayer):
            layers.append(found)
            matched.append(name)
            if not found.name:
                found.name = name
        elif isinstance(found, Unmonitored):
            unmonitored.append(found)
            matched.append(name)
        elif _looks_like_attention(module):
            suspects.append(name)
    covered = [m.name for m in layers + unmonitored]
    for name in suspects:  # a wrapper around a matched module is no finding of its own
        if not any(c == name or c.startswith(name + ".") for c in covered):
            unmonitored.append(Unmonitored(name, f"no query and key projections of a known name; {REGISTER}"))
            covered.append(name)
    for index, layer in enumerate(layers):
        if layer.index < 0:
            layer.index = index
    return layers, unmonitored
