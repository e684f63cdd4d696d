"""foreshock.watch and foreshock.register: from a model to a monitor."""

import os
import weakref

import torch

from . import _hooks, finder
from .layout import AttentionLayer, Projection, Unmonitored, interleaved_starts, starts_of
from .monitor import Monitor

_registered = weakref.WeakKeyDictionary()  # module -> AttentionLayer
_watched = weakref.WeakKeyDictionary()  # model -> weak Monitor


def inner_model(model):
    """The user's module inside of DistributedDataParallel and torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, torch.nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


def _owner(module, path):
    """(module that holds the parameter, its name) of "q_proj.weight" or "in_proj_weight"."""
    *parts, name = path.split(".")
    for part in parts:
        module = getattr(module, part)
    if not isinstance(getattr(module, name), torch.Tensor):
        raise ValueError(f"{path}: not a parameter")
    return module, name


def register(module, *, query_heads, head_dim, kv_heads=None, wq=None, wk=None, qkv=None, layout="concatenated",
             transposed=False, scale=None, softcap=0.0, causal=None, qk_norm=False, weight_decay=None, first_query_head=0,
             local_query_heads=0):
    """Describes an attention module by hand, where foreshock.doctor lists it as unmonitored. Call before watch().

    wq, wk: parameters by name, e.g. "q_proj.weight"; or qkv: one fused parameter, laid out "concatenated" (q, k, v) or
    "interleaved" (per key head: its queries, k, v). transposed: stored [model_dim, features]. None of them: attention
    signals alone. scale, causal: None takes them from the attention call; weight_decay (decoupled): from the optimizer. Under tensor parallelism query_heads and kv_heads count
    the whole layer, first_query_head and local_query_heads this rank's.
    ValueError when sizes do not fit.
    """
    kv_heads = kv_heads or query_heads
    if query_heads % kv_heads:
        raise ValueError(f"kv_heads: {kv_heads}, must divide query_heads {query_heads}")
    here = local_query_heads or query_heads
    kv_here = max(here * kv_heads // query_heads, 1)
    if qkv is not None:
        owner, name = _owner(module, qkv)
        if layout not in ("concatenated", "interleaved"):
            raise ValueError(f"layout: '{layout}', must be concatenated or interleaved")
        q_starts, k_starts = (interleaved_starts(here, kv_here, head_dim) if layout == "interleaved" else
                              (starts_of(here, head_dim), starts_of(kv_here, head_dim, here * head_dim)))
        q = Projection(weakref.ref(owner), name, q_starts, transposed)
        k = Projection(weakref.ref(owner), name, k_starts, transposed)
        said = f"fused, {layout}, by hand"
    else:
        def make(path, heads):
            if path is None:
                return None
            owner, name = _owner(module, path)
            return Projection(weakref.ref(owner), name, starts_of(heads, head_dim), transposed)
        q, k, said = make(wq, here), make(wk, kv_here), "separate, by hand"
    model_dim = head_dim * query_heads
    for projection in (q, k):
        if projection is not None:
            model_dim, features = projection.sizes(projection.parameter())
            need = max(projection.starts) + head_dim
            if features < need:
                raise ValueError(f"{projection.name}: {features} features, the heads need {need}")
    layer = AttentionLayer(
        name="", module=weakref.ref(module), model_dim=model_dim, query_heads=query_heads, kv_heads=kv_heads,
        head_dim=head_dim, wq=q, wk=k, layout=said, qk_norm=qk_norm, scale=scale, softcap=softcap, softcap_said=softcap != 0, causal=causal,
        weight_decay=weight_decay,
        first_query_head=first_query_head, local_query_heads=here if here < query_heads else 0,
        first_kv_head=first_query_head * kv_heads // query_heads, local_kv_heads=kv_here if here < query_heads else 0,
        weights_reason="" if q is not None else "registered without weights")
    _registered[module] = layer
    return layer


def plan(model, tensor_parallel=(0, 1)):
    """([AttentionLayer], [Unmonitored]): what watch() would watch, and what not."""
    layers, unwatched = finder.find(inner_model(model), tensor_parallel, list(_registered.values()))
    return layers, unwatched


def ranks_of_process():
    """rank, world_size, replica, replicas as torch.distributed has them; {} without it."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {}
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return {"rank": rank, "world_size": size, "replica": rank, "replicas": size}


def watch(model, optimizer=None, *, step=None, tensor_parallel=(0, 1), **options):
    """Watches the attention heads of `model`. Returns a Monitor; training goes on whatever happens to it.

    optimizer: one, a list, or None (then call monitor.step() after each optimizer step). step: number of the first step;
    None: the optimizer's own count. tensor_parallel: (rank, size) where the model's weights are this rank's share of the
    heads. Options: run, address, attempt, attention_every_steps, spectra_every_steps, projections_every_steps, row_every,
    budget (share of step time; 1: no limit), labels (a dict of texts; alerts carry them), allowed_actions, token, rank, world_size, replica, replicas...; the environment
    (FORESHOCK_ADDR, FORESHOCK_RUN, FORESHOCK_ATTEMPT, RANK, WORLD_SIZE) says what is left out.
    """
    inner = inner_model(model)
    earlier = _watched.pop(inner, lambda: None)()
    if earlier is not None:
        earlier.close()  # watched again, as notebooks do
    layers, unwatched = plan(model, tensor_parallel)
    if not layers:
        unwatched.append(Unmonitored("model", f"no attention layer was found; {finder.REGISTER}"))
    optimizers = [] if optimizer is None else list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    optimizers = [_hooks.unwrap(o) for o in optimizers]
    # DTensors tell their share themselves. Ranks that hold different heads are no replicas of each other.
    size = max([tensor_parallel[1], *(layer.query_heads // layer.local_query_heads for layer in layers if layer.local_query_heads)])
    ranks = ranks_of_process()
    if size > 1 and ranks:
        ranks["replica"], ranks["replicas"] = ranks["rank"] // size, ranks["world_size"] // size
    given = {"framework": f"torch {torch.__version__}", "model_name": type(inner).__name__, **ranks, **options}
    if "run" not in options and not os.environ.get("FORESHOCK_RUN"):
        given["run"] = type(inner).__name__.lower()
    monitor = Monitor(inner, optimizers, layers, unwatched, step, given)
    _watched[inner] = weakref.ref(monitor)
    return monitor


def monitor_of(watched):
    """The Monitor of a watched model, or the Monitor itself. ValueError when the model is not watched."""
    if isinstance(watched, Monitor):
        return watched
    found = _watched.get(inner_model(watched))
    monitor = found() if found is not None else None
    if monitor is None:
        raise ValueError("this model is not watched: call foreshock.watch(model, optimizer) first and keep what it returns")
    return monitor
