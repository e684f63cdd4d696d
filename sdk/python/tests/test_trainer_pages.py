"""The lines that docs/trainers/torchtitan.md and megatron.md have people add, run in trainers with the same members and names.

What is taken from the pages is run as it stands there; around it is the least that those projects have at these places.
"""

import inspect
import json
import pathlib
import re
import textwrap
import types

import pytest
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


TITAN = """
    # IMPORT
    class BaseLogger:
        def __init__(self):
            self.told, self.closed = [], False

        def log(self, metrics, step):
            self.told.append((step, metrics))

        def close(self):
            self.closed = True

    class MetricsProcessor:
        def __init__(self, log_freq):
            self.logger, self.log_freq = BaseLogger(), log_freq

        def should_log(self, step):
            return step == 1 or step % self.log_freq == 0

        def log(self, step, global_avg_loss, global_max_loss, grad_norm):
            self.logger.log({"loss_metrics/global_avg_loss": global_avg_loss, "loss_metrics/global_max_loss": global_max_loss,
                             "grad_norm": grad_norm}, step)

        def close(self):
            self.logger.close()

    class Checkpointer:
        def load(self, step):
            pass

    class Trainer:
        def __init__(self, log_freq=1, last_stage=None):
            self.model_parts = [models.nanogpt()]
            self.optimizers = [torch.optim.AdamW(self.model_parts[0].parameters(), lr=1e-3)]  # a container there
            self.parallel_dims, self.step = types.SimpleNamespace(pp_enabled=last_stage is not None), 0
            if last_stage is not None:  # else torchtitan has no such member
                self.pp_has_last_stage = last_stage
            self.metrics_processor, self.checkpointer = MetricsProcessor(log_freq), Checkpointer()

        def train(self, steps):
            self.checkpointer.load(step=-1)
            # WATCH
            while self.step < steps:
                self.step += 1
                self.train_step()

        def train_step(self):
            accumulated_losses = []
            self.optimizers[0].zero_grad()
            for micro in range(2):
                loss = self.model_parts[0](*models.batch(10 * self.step + micro)) / 2
                loss.backward()
                accumulated_losses.append(loss.detach())
            parameters = list(self.model_parts[0].parameters())
            grad_norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])  # theirs does not call clip_grad_norm_
            torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, grad_norm)
            self.optimizers[0].step()
            loss = torch.sum(torch.stack(accumulated_losses))
            if not self.metrics_processor.should_log(self.step):
                return
            self.metrics_processor.log(self.step, loss.item(), loss.item(), grad_norm.item())

        def close(self):
            self.metrics_processor.close()
"""


def torchtitan(tmp_path, monkeypatch):
    """The page's lines in a trainer with torchtitan's members: its class."""
    lines = added("torchtitan.md")
    assert len(lines) == 2 and lines[0].startswith("from foreshock.torchtitan import")
    monkeypatch.setenv("FORESHOCK_ADDR", f"file:{tmp_path}/run.jsonl")
    monkeypatch.setenv("FORESHOCK_RUN", "titan")
    names = {"torch": torch, "models": models, "types": types}
    exec(program(TITAN, IMPORT=lines[:1], WATCH=lines[1:]), names)
    return names["Trainer"]


@pytest.mark.skipif(not hasattr(torch.nn.utils, "get_total_norm"), reason="torchtitan needs a later PyTorch")
@pytest.mark.parametrize("log_freq", [1, 2])
def test_torchtitan(tmp_path, monkeypatch, log_freq):
    trainer = torchtitan(tmp_path, monkeypatch)(log_freq)
    inner = trainer.metrics_processor.logger
    trainer.train(STEPS + 1)
    trainer.close()
    told = frames(tmp_path / "run.jsonl")
    assert [f["step"] for f in told] == [1, 2, 3, 4]
    logged = [1, 2, 3, 4] if log_freq == 1 else [1, 2, 4]
    assert inner.closed and [step for step, _ in inner.told] == logged
    for step, metrics in inner.told:
        frame = told[step - 1]
        assert abs(frame["loss"] - metrics["loss_metrics/global_avg_loss"]) < 1e-6 and abs(frame["grad_norm"] - metrics["grad_norm"]) < 1e-5
    assert [f["step"] for f in told if f.get("loss") is not None] == logged
    first = next(f for f in told if "qk_sigma1" in f)
    for signal in ("wq_sigma1", "qk_sigma1", "logit_max"):
        assert [len(heads) for heads in first[signal]] == [4, 4], signal


@pytest.mark.skipif(not hasattr(torch.nn.utils, "get_total_norm"), reason="torchtitan needs a later PyTorch")
def test_torchtitan_that_breaks_in_a_pipeline(tmp_path, monkeypatch):
    """A rank without the last stage: its placeholder is not told. An exception is: torchtitan closes inside of `except`."""
    trainer = torchtitan(tmp_path, monkeypatch)(last_stage=False)
    trainer.train(1)
    try:
        trainer.optimizers = None
        trainer.train_step()
    except TypeError:
        trainer.close()
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert "loss" not in next(d for d in lines if d.get("step") == 1 and "event" not in d)
    assert (lines[-1]["event"], lines[-1]["status"]) == ("goodbye", "failed")


def test_torchtitan_loggers_have_no_more_to_do():
    """Its own logger's methods are ours."""
    metrics = pytest.importorskip("torchtitan.components.metrics", exc_type=ImportError)
    from foreshock.torchtitan import ForeshockLogger

    theirs = {name for name in vars(metrics.BaseLogger) if not name.startswith("_")}
    assert theirs <= set(vars(ForeshockLogger)), theirs
    for name in theirs:
        assert list(inspect.signature(getattr(metrics.BaseLogger, name)).parameters) == list(
            inspect.signature(getattr(ForeshockLogger, name)).parameters)


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
