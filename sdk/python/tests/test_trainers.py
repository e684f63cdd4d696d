"""Whole trainers against a real server: what it stores, head by head, equals a float64 reference."""

import pytest
import torch

import foreshock
import models
import reference
from conftest import Recording

EVERY = {"attention_every_steps": 1, "spectra_every_steps": 1, "row_every": 1, "budget": 1.0}


def check(servers, server, run, step, calls, weights):
    for layer, call in enumerate(calls):
        expected = {**reference.attention_signals(call), **reference.weight_signals(*weights[layer])}
        reference.compare(servers.layer(server, run, step, layer), expected, f"{run} step {step} layer {layer}")


def test_a_plain_loop_through_agent_and_server(servers):
    server = servers.server()
    agent = servers.agent(server.grpc)
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    seen = {}

    def each(step):
        rows = [b.attn.c_attn.weight for b in model.h]
        seen[step] = (reference.capture(model, lambda m: m(*models.batch(100 * step))),
                      [(reference.heads_of(w, 8, 0, 4), reference.heads_of(w, 8, 32, 4)) for w in rows])

    with foreshock.watch(model, optimizer, run="plain", address=agent.address, **EVERY) as monitor:
        losses = models.train(model, optimizer, 5, monitor, each=each)
        monitor.checkpoint("ckpt/5")
    assert servers.await_end(server, "plain")["state"] == "finished"
    assert [round(x, 4) for _, x in servers.losses(server, "plain")] == [round(x, 4) for x in losses]
    for step, (calls, weights) in seen.items():
        check(servers, server, "plain", step, calls, weights)
    events = servers.get(server, "/api/v1/runs/plain/events")["events"]
    assert any(e.get("detail") == "ckpt/5" for e in events), events


transformers = pytest.importorskip("transformers")


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        row = torch.randint(50, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": row, "labels": row}


class Keep(transformers.TrainerCallback):
    """Keeps a copy of the model before each step, and the batch that it is trained on."""

    def __init__(self):
        self.models, self.batches = {}, {}

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        import copy

        hooks = model._forward_pre_hooks, model._forward_hooks
        self.models[state.global_step] = copy.deepcopy(model)
        assert hooks == (model._forward_pre_hooks, model._forward_hooks)


class Trainer(transformers.Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        keep = next(c for c in self.callback_handler.callbacks if isinstance(c, Keep))
        keep.batches.setdefault(self.state.global_step, {k: v.clone() for k, v in inputs.items()})
        return super().compute_loss(model, inputs, *args, **kwargs)


def gpt2(implementation, heads=4):
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=heads, vocab_size=50, n_positions=16, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
        bos_token_id=0, eos_token_id=1, attn_implementation=implementation))


def llama(implementation):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=50, max_position_embeddings=16, attn_implementation=implementation))


def gpt2_weights(model):
    fused = [b.attn.c_attn.weight.detach().T for b in model.transformer.h]
    return [(reference.heads_of(w, 8, 0, 4), reference.heads_of(w, 8, 32, 4)) for w in fused]


def llama_weights(model):
    return [(reference.heads_of(b.self_attn.q_proj.weight, 8), reference.heads_of(b.self_attn.k_proj.weight, 8))
            for b in model.model.layers]


@pytest.mark.parametrize("make, weights_of", [(gpt2, gpt2_weights), (llama, llama_weights)])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_transformers_trainer(servers, tmp_path, make, weights_of, implementation):
    from foreshock.transformers import ForeshockCallback

    server = servers.server()
    agent = servers.agent(server.grpc)
    model, keep = make(implementation), Keep()
    callback = ForeshockCallback(run="hf", address=agent.address, **EVERY)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        learning_rate=1e-3, logging_steps=1, save_steps=2, report_to=[], use_cpu=True, disable_tqdm=True, seed=1)
    trainer = Trainer(model, arguments, train_dataset=Tokens(), callbacks=[keep, callback])
    trainer.train()
    assert servers.await_end(server, "hf")["state"] == "finished"
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert [x for _, x in servers.losses(server, "hf")] == pytest.approx(logged, abs=2e-3)
    for step in range(3):
        twin = keep.models[step]
        if not hasattr(twin, "set_attn_implementation"):
            pytest.skip("an older Transformers")
        twin.set_attn_implementation("sdpa")  # the reference writes it out in any case
        calls = reference.capture(twin, lambda m: m(**keep.batches[step]).loss)
        check(servers, server, "hf", step, calls, weights_of(twin))
    events = servers.get(server, "/api/v1/runs/hf/events")["events"]
    assert any("checkpoint-2" in e.get("detail", "") for e in events), events


def test_a_training_that_breaks_is_told_as_failed(record, tmp_path):
    """The script catches the exception and goes on: the run has failed all the same, and hooks are off the model."""
    from foreshock.transformers import ForeshockCallback

    class Breaks(transformers.Trainer):
        def compute_loss(self, *args, **kwargs):
            if self.state.global_step == 2:
                raise RuntimeError("out of luck")
            return super().compute_loss(*args, **kwargs)

    model = gpt2("sdpa")
    callback = ForeshockCallback(run="breaks", address=f"file:{tmp_path}/breaks.jsonl", **EVERY)
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), max_steps=5, per_device_train_batch_size=2, report_to=[],
                                               use_cpu=True, disable_tqdm=True, save_strategy="no")
    with pytest.raises(RuntimeError, match="out of luck"):
        Breaks(model, arguments, train_dataset=Tokens(), callbacks=[callback]).train()
    assert callback.monitor is None and not model._forward_hooks
    recording = Recording(tmp_path / "breaks.jsonl")
    assert sorted(recording.steps())[:2] == [0, 1]
    end = recording.events()[-1]
    assert (end["event"], end["status"]) == ("goodbye", "failed"), end


def test_the_transformers_trainer_resumes_with_its_guard(servers, tmp_path):
    from foreshock.transformers import GUARD_FILE, ForeshockCallback

    def train(name, resume=None):
        callback = ForeshockCallback(run=name, address=f"file:{tmp_path}/{name}.jsonl", guard="qk_norm",
                                     guard_options={"automatic": False}, **EVERY)
        switched = []

        class Switch(transformers.TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs):
                if state.global_step == 1 and resume is None:
                    callback.guard.activate(0)
                switched.append(callback.guard.active_layers())

        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), max_steps=6, per_device_train_batch_size=2, save_steps=3, report_to=[],
            use_cpu=True, disable_tqdm=True, seed=1)
        transformers.Trainer(gpt2("sdpa", heads=2), arguments, train_dataset=Tokens(), callbacks=[callback, Switch()]).train(
            resume_from_checkpoint=resume)
        return switched, (tmp_path / f"{name}.jsonl").read_text()

    checkpoint = tmp_path / "out" / "checkpoint-3"
    train("first")
    assert (checkpoint / GUARD_FILE).stat().st_size > 0
    switched, text = train("second", str(checkpoint))
    assert len(switched) == 3 and switched[-1] == [0], switched
    assert "without the guard's state" not in text
    (checkpoint / GUARD_FILE).unlink()
    switched, text = train("third", str(checkpoint))
    assert switched[-1] == [] and "without the guard's state" in text


def test_lightning_says_what_is_wrong_with_the_guard(tmp_path):
    lightning = pytest.importorskip("lightning")
    from foreshock.lightning import ForeshockCallback

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = models.nanogpt()

        def training_step(self, batch, index):
            return self.net(*batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    trainer = lightning.Trainer(
        max_steps=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=str(tmp_path),
        callbacks=[ForeshockCallback(run="pl", address=f"file:{tmp_path}/pl.jsonl", guard="no such mode")])
    data = torch.utils.data.TensorDataset(*models.batch(0, size=4))
    with pytest.raises(ValueError, match="no such mode"):
        trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=2))


def test_lightning(servers, tmp_path):
    lightning = pytest.importorskip("lightning")
    from foreshock.lightning import ForeshockCallback

    server = servers.server()
    agent = servers.agent(server.grpc)
    seen = {}

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = models.nanogpt()

        def training_step(self, batch, index):
            if self.global_step not in seen:
                with torch.enable_grad():
                    calls = reference.capture(self.net, lambda m: m(*batch))
                rows = [b.attn.c_attn.weight for b in self.net.h]
                seen[self.global_step] = (
                    calls, [(reference.heads_of(w, 8, 0, 4), reference.heads_of(w, 8, 32, 4)) for w in rows])
            return self.net(*batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    data = torch.utils.data.TensorDataset(*models.batch(0, size=12))
    trainer = lightning.Trainer(
        max_steps=3, accumulate_grad_batches=2, gradient_clip_val=1.0, accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(tmp_path), max_epochs=-1,
        callbacks=[ForeshockCallback(run="pl", address=agent.address, **EVERY),
                   lightning.pytorch.callbacks.ModelCheckpoint(dirpath=str(tmp_path / "kept"), every_n_train_steps=2)])
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=2))
    assert servers.await_end(server, "pl")["state"] == "finished"
    assert [s for s, _ in servers.losses(server, "pl")] == [0, 1, 2]
    for step, (calls, weights) in seen.items():
        check(servers, server, "pl", step, calls, weights)
    events = servers.get(server, "/api/v1/runs/pl/events")["events"]
    paths = [e["detail"] for e in events if e.get("detail", "").endswith(".ckpt")]
    assert paths and all(path.startswith(str(tmp_path / "kept")) for path in paths), events
    assert "save_checkpoint" not in vars(trainer), "the trainer is as it was"
