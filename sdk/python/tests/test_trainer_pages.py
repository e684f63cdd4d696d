"""The lines that docs/trainers/torchtitan.md and megatron.md have people add, run in trainers with the same members and names.

What is taken from the pages is run as it stands there; around it is the least that those projects have at these places.
"""

import json
import pathlib
import re
import textwrap
import types

import torch
from torch import nn

import models

PAGES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "trainers"
STEPS = 3


def added(page):
    """The added lines, dedented one by one."""
    text = "".join(re.findall(r"```diff\n(.*?)```", (PAGES / page).read_text(), re.DOTALL))
    return [line[1:].strip() for line in text.splitlines() if line.startswith("+")]


def program(template, **lines):
    """The template with `# NAME` replaced by added lines, at the mark's own indentation."""
    def put(match):
        return textwrap.indent("\n".join(lines.pop(match.group(2))), match.group(1))
    text = re.sub(r"^( *)# ([A-Z]+)$", put, textwrap.dedent(template), flags=re.MULTILINE)
    assert not lines, f"no place for {lines}"
    return text


def frames(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [d for d in lines if "step" in d and "event" not in d]


def test_torchtitan(tmp_path, monkeypatch):
    lines = added("torchtitan.md")
    assert len(lines) == 5 and lines[0] == "import foreshock"
    monkeypatch.setenv("FORESHOCK_ADDR", f"file:{tmp_path}/run.jsonl")
    monkeypatch.setenv("FORESHOCK_RUN", "titan")
    names = {"torch": torch, "models": models, "types": types}
    exec(program("""
        # IMPORT
        class Trainer:
            def __init__(self):
                self.model_parts = [models.nanogpt()]
                self.optimizers = [torch.optim.AdamW(self.model_parts[0].parameters(), lr=1e-3)]  # a container there
                self.parallel_dims, self.step = types.SimpleNamespace(pp_enabled=False), 0

            def train(self, steps):
                # WATCH
                while self.step < steps:
                    self.step += 1
                    self.train_step()

            def train_step(self):
                parallel_dims, accumulated_losses = self.parallel_dims, []
                self.optimizers[0].zero_grad()
                for micro in range(2):
                    loss = self.model_parts[0](*models.batch(10 * self.step + micro)) / 2
                    loss.backward()
                    accumulated_losses.append(loss.detach())
                grad_norm = torch.nn.utils.clip_grad_norm_(self.model_parts[0].parameters(), 1.0)
                self.optimizers[0].step()
                loss = torch.sum(torch.stack(accumulated_losses))
                self.told = loss.item(), grad_norm.item()
                # STEP

            def close(self):
                # CLOSE
        """, IMPORT=lines[:1], WATCH=lines[1:2], STEP=lines[2:4], CLOSE=lines[4:5]), names)
    trainer = names["Trainer"]()
    trainer.train(STEPS)
    trainer.close()
    told = frames(tmp_path / "run.jsonl")
    assert [f["step"] for f in told] == [1, 2, 3]
    assert abs(told[-1]["loss"] - trainer.told[0]) < 1e-6 and abs(told[-1]["grad_norm"] - trainer.told[1]) < 1e-5
    first = next(f for f in told if "qk_sigma1" in f)
    for signal in ("wq_sigma1", "qk_sigma1", "logit_max"):
        assert [len(heads) for heads in first[signal]] == [4, 4], signal


class Attention(nn.Module):
    """As Megatron's: one projection, interleaved per group; what comes after it is not seen from outside."""

    def __init__(self, dim=32, heads=4, groups=2):
        super().__init__()
        self.num_attention_heads_per_partition, self.num_query_groups_per_partition = heads, groups
        self.hidden_size_per_attention_head = dim // heads
        self.linear_qkv = nn.Linear(dim, (heads + 2 * groups) * (dim // heads), bias=False)

    def forward(self, x):
        return x + self.linear_qkv(x)[..., : x.shape[-1]]


def test_megatron(tmp_path, monkeypatch):
    lines = added("megatron.md")
    assert len(lines) == 5 and lines[0] == "import foreshock"
    monkeypatch.setenv("FORESHOCK_ADDR", f"file:{tmp_path}/run.jsonl")
    monkeypatch.setenv("FORESHOCK_RUN", "megatron")
    torch.manual_seed(0)
    model = [nn.Sequential(Attention(), Attention())]
    optimizer = torch.optim.AdamW(model[0].parameters(), lr=1e-3)
    mpu = types.SimpleNamespace(get_tensor_model_parallel_rank=lambda: 0, get_tensor_model_parallel_world_size=lambda: 1)

    def train_step(model, optimizer):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 8, 32)).square().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        return {"lm loss": loss.detach()}, norm

    names = {"mpu": mpu, "unwrap_model": lambda m: m, "train_step": train_step}
    exec(program("""
        # IMPORT
        def train(model, optimizer, iterations):
            iteration = 0
            # WATCH
            while iteration < iterations:
                loss_dict, grad_norm = train_step(model[0], optimizer)
                iteration += 1
                # STEP
            # CLOSE
        """, IMPORT=lines[:1], WATCH=lines[1:3], STEP=lines[3:4], CLOSE=lines[4:]), names)
    names["train"](model, optimizer, STEPS)
    told = frames(tmp_path / "run.jsonl")
    assert [f["step"] for f in told] == [0, 1, 2] and all("loss" in f and "grad_norm" in f for f in told)
    first = next(f for f in told if "qk_sigma1" in f)
    assert [len(heads) for heads in first["wq_sigma1"]] == [4, 4] and [len(heads) for heads in first["wk_sigma1"]] == [2, 2]
    weight = model[0][0].linear_qkv.weight  # after the run; its largest singular values have hardly moved
    head = weight.view(2, 4, 8, 32)[0, 0].detach().double()
    assert abs(first["wq_sigma1"][0][0] - torch.linalg.svdvals(head)[0].item()) < 0.05
