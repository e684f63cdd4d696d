"""DTensors: which share of a parameter this rank holds, and why."""

import torch


def axes(parameter):
    """[(mesh dimension's name, size, this rank's place)] of the dimensions along which a DTensor is split; [] otherwise."""
    if not torch.distributed.is_available():
        return []
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:  # PyTorch 2.4
        from torch.distributed._tensor import DTensor

    if not isinstance(parameter, DTensor):
        return []
    mesh = parameter.device_mesh
    names, here = mesh.mesh_dim_names or ("",) * mesh.ndim, mesh.get_coordinate()
    return [(names[d], mesh.size(d), here[d]) for d, p in enumerate(parameter.placements) if p.is_shard()]


def is_tensor_parallel(name):
    """By the names that mesh dimensions have in torchtitan, Transformers and Megatron."""
    return any(mark in name.lower() for mark in ("tp", "tensor", "model"))


def tensor_parallel_share(parameter):
    """(rank, size) of tensor parallelism; (0, 1) without it."""
    for name, size, place in axes(parameter):
        if is_tensor_parallel(name):
            return place, size
    return 0, 1


def fully_sharded(parameter):
    """Split by FSDP2: whole during forward only."""
    return any(not is_tensor_parallel(name) for name, _, _ in axes(parameter))


def local(parameter):
    """A tensor-parallel DTensor's own part; anything else as it is."""
    split = axes(parameter)
    return parameter.to_local() if hasattr(parameter, "to_local") and not fully_sharded(parameter) and split else parameter
