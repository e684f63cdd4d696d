"""Small models in the styles of well-known trainers, for tests."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    """As nanoGPT writes it: one Linear for q, k, v."""

    def __init__(self, dim, heads):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.n_head, c // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, s, c))


class Block(nn.Module):
    def __init__(self, dim, heads, attention=CausalSelfAttention):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), attention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    """Byte-level GPT with tied embeddings. checkpointing: None, "reentrant" or "not reentrant"."""

    def __init__(self, layers=2, dim=32, heads=4, vocabulary=64, context=24, checkpointing=None,
                 attention=CausalSelfAttention):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(Block(dim, heads, attention) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self.checkpointing = checkpointing

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            if self.checkpointing:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.checkpointing == "reentrant")
            else:
                x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def batch(seed, size=3, length=24, vocabulary=64):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (size, length + 1), generator=g)
    return tokens[:, :-1], tokens[:, 1:]


def nanogpt(seed=0, **options):
    torch.manual_seed(seed)
    return NanoGPT(**options)


def train(model, optimizer, steps, monitor=None, first=0, micro_batches=1, each=None):
    """The plainest training loop; each(step) runs before a step."""
    losses = []
    for step in range(first, first + steps):
        if each is not None:
            each(step)
        optimizer.zero_grad()
        total = 0.0
        for micro in range(micro_batches):
            loss = model(*batch(100 * step + micro)) / micro_batches
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
        if monitor is not None:
            monitor.step(loss=total)
    return losses
