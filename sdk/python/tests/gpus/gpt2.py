"""GPT-2 124M (or smaller), whole or split over ranks: the same weights for the same seed, however it is split."""

import torch
import torch.nn.functional as F
from torch import nn

SMALL = {"layers": 12, "dim": 768, "heads": 12, "vocabulary": 50304, "context": 1024}


class Attention(nn.Module):
    """Separate projections, so that tensor parallelism can split them by heads."""

    def __init__(self, dim, heads):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.head_dim, self.n_head = dim // heads, heads

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (f(x).view(b, s, -1, self.head_dim).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, s, -1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, dim, heads, vocabulary, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy((self.ln_f(x) @ self.wte.weight.T.to(x.dtype)).flatten(0, 1).float(), targets.flatten())


def make(shape, device, seed=0):
    """Weights that depend on the seed alone; W_Q and W_K three times as large as usual, so that rows attend to something."""
    torch.manual_seed(seed)
    model = GPT2(**shape)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
    with torch.no_grad():
        for block in model.h:
            block.attn.wq.weight.mul_(3)
            block.attn.wk.weight.mul_(3)
    return model.to(device)


def batch(shape, step, size, device):
    g = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(shape["vocabulary"], (size, shape["context"] + 1), generator=g).to(device)
    return tokens[:, :-1], tokens[:, 1:]


def split(model, how, device, compiled=True):
    """The model as rank's trainer calls it: how is one, ddp, fsdp2 or tp."""
    compile_ = torch.compile if compiled else (lambda m: m)
    if how == "one":
        return compile_(model)
    if how == "ddp":
        ids = [device.index] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(compile_(model), device_ids=ids)
    from torch.distributed.device_mesh import init_device_mesh

    size = torch.distributed.get_world_size()
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device.type, (size,), mesh_dim_names=("dp",))
        for i, block in enumerate(model.h):  # each block compiled, then sharded, as torchtitan does it
            model.h[i] = compile_(block)
            fully_shard(model.h[i], mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(device.type, (size,), mesh_dim_names=("tp",))
    for block in model.h:
        parallelize_module(block, mesh, {"attn.wq": ColwiseParallel(), "attn.wk": ColwiseParallel(), "attn.wv": ColwiseParallel(),
                                         "attn.wo": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
    for i, block in enumerate(model.h):
        model.h[i] = compile_(block)
    return model
