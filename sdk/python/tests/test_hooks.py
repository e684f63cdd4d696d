"""Foreshock beside everything else that a trainer does with a model: nothing changes, nothing leaks, nothing is missed."""

import copy
import gc
import multiprocessing
import os
import pathlib
import pickle
import resource
import subprocess
import sys

import pytest
import torch

import foreshock
import models
from conftest import EVERY, Recording
from foreshock import _patch, _taps

HERE = pathlib.Path(__file__).resolve().parent


def make(**options):
    model = models.nanogpt(**options)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def test_training_is_bit_for_bit_the_same(record):
    plain, optimizer = make()
    expected = models.train(plain, optimizer, 4)
    watched, optimizer = make()
    monitor, _ = record(watched, optimizer)
    assert models.train(watched, optimizer, 4, monitor) == expected
    for a, b in zip(plain.parameters(), watched.parameters()):
        assert torch.equal(a, b)


def test_state_dict_is_unchanged(record):
    model, optimizer = make()
    before, names = list(model.state_dict()), [n for n, _ in model.named_modules()]
    monitor, _ = record(model, optimizer)
    models.train(model, optimizer, 2, monitor)
    assert list(model.state_dict()) == before and [n for n, _ in model.named_modules()] == names
    monitor.close()
    assert list(model.state_dict()) == before
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    assert not _taps.live and not optimizer._optimizer_step_pre_hooks


def test_copies_and_pickles_are_inert(record, tmp_path):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 1, monitor)
    twin, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    torch.save(model, tmp_path / "whole.pt")
    for other in (twin, loaded, torch.load(tmp_path / "whole.pt", weights_only=False)):
        models.train(other, torch.optim.SGD(other.parameters(), lr=0.1), 2)
    copy.deepcopy(optimizer)
    pickle.dumps(optimizer.state_dict())
    models.train(model, optimizer, 1, monitor, first=1)
    monitor.close()
    assert sorted(recording.steps()) == [0, 1]


def test_an_ema_copy_and_swapped_weights(record):
    """Averages are copies; swapping them in for an evaluation moves the memory of the weights."""
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    ema = copy.deepcopy(model)
    for step in range(3):
        models.train(model, optimizer, 1, monitor, first=step)
        kept = [p.data for p in model.parameters()]
        for p, q in zip(model.parameters(), ema.parameters()):
            q.data.lerp_(p.data, 0.1)
            p.data = q.data.clone()
        with torch.no_grad():
            model(*models.batch(7))
        for p, data in zip(model.parameters(), kept):
            p.data = data
    weights = [b.attn.c_attn.weight.detach()[:8].T.double() for b in model.h]
    models.train(model, optimizer, 1, monitor, first=3)
    monitor.close()
    for layer, w in enumerate(weights):
        got = recording.layer(3, layer)["wq_sigma1"][0]
        assert got == pytest.approx(torch.linalg.svdvals(w)[0].item(), rel=1e-4)


def test_ten_thousand_forwards_without_grad_keep_memory_flat(record):
    model, optimizer = make(layers=1, dim=16, heads=2)
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 1, monitor)
    x = torch.randn(1, 4, 16)
    with torch.no_grad():
        for _ in range(500):
            model.h[0].attn(x)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(10_000):
            model.h[0].attn(x)
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # kilobytes
    monitor.close()
    assert sorted(recording.steps()) == [0]  # an evaluation is no step


def test_forwards_that_are_thrown_away_leave_nothing(record):
    model, optimizer = make()
    monitor, _ = record(model, optimizer)
    models.train(model, optimizer, 1, monitor)
    alive = len([o for o in gc.get_objects() if isinstance(o, torch.Tensor)])
    for _ in range(5):
        model(*models.batch(1))
    gc.collect()
    assert len([o for o in gc.get_objects() if isinstance(o, torch.Tensor)]) <= alive


def test_evaluation_between_steps_is_never_the_sample(record):
    plain, optimizer = make()
    monitor, recording = record(plain, optimizer, name="plain")
    models.train(plain, optimizer, 3, monitor)
    monitor.close()
    other, optimizer = make()
    monitor, evaluated = record(other, optimizer, name="evaluated")

    def evaluate(step):
        other.eval()
        with torch.no_grad():
            other(*models.batch(999 + step))
        other.train()

    models.train(other, optimizer, 3, monitor, each=evaluate)
    monitor.close()
    for step in range(3):
        for layer in range(2):
            assert recording.layer(step, layer)["logit_max"] == evaluated.layer(step, layer)["logit_max"]


def test_frozen_weights(record):
    """Frozen embeddings, and a layer whose W_Q is frozen: the rest is watched."""
    model, optimizer = make()
    model.wte.weight.requires_grad_(False)
    for p in model.h[0].attn.parameters():
        p.requires_grad_(False)
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 3, monitor)
    monitor.close()
    assert recording.layer(1, 1)["logit_max"][0] is not None
    assert recording.layer(1, 0)["wq_sigma1"][0] is not None


def test_a_skipped_step_of_loss_scaling(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(4):
        optimizer.zero_grad()
        loss = model(*models.batch(step))
        scaler.scale(loss).backward()
        if step == 2:
            model.h[0].mlp[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        monitor.step(loss=loss)
    monitor.close()
    steps = recording.steps()
    assert [bool(steps[s].get("skipped")) for s in range(4)] == [False, False, True, False]
    assert [steps[s]["loss_scale"] for s in range(4)] == [8, 8, 8, 4]
    # The window of step 3 holds step 3 alone: n of the skipped step is 0.
    assert steps[2].get("update_projection_1_weight", [[None]])[0][0] in (None, 0)


def test_gradient_norm_is_that_of_clipping(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(*models.batch(step))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
        optimizer.step()
        monitor.step(loss=loss)
    monitor.close()
    assert [recording.steps()[s]["grad_norm"] for s in range(3)] == pytest.approx(norms)


def test_without_a_call_to_step_the_optimizer_counts(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 3)
    monitor.close()
    assert sorted(recording.steps()) == [0, 1, 2]
    assert "wq_sigma1" in recording.steps()[2]


def test_a_resumed_optimizer_goes_on_counting(record):
    model, optimizer = make()
    models.train(model, optimizer, 5)
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 2, monitor, first=5)
    monitor.close()
    assert sorted(recording.steps()) == [5, 6]


def test_two_optimizers_make_one_step(record):
    model, _ = make()
    attention = [p for b in model.h for p in b.attn.parameters()]
    known = {id(p) for p in attention}
    first = torch.optim.AdamW(attention, lr=1e-3)
    second = torch.optim.SGD([p for p in model.parameters() if id(p) not in known], lr=1e-2)
    monitor, recording = record(model, [first, second])
    for step in range(3):
        loss = model(*models.batch(step))
        loss.backward()
        first.step()
        second.step()
        monitor.step(loss=loss)
        first.zero_grad()
        second.zero_grad()
    monitor.close()
    assert sorted(recording.steps()) == [0, 1, 2]
    assert recording.steps()[1]["learning_rate"] == pytest.approx(1e-3)


def test_loading_a_checkpoint_starts_windows_anew(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    kept = copy.deepcopy(model.state_dict())
    models.train(model, optimizer, 2, monitor)
    model.load_state_dict(kept)
    models.train(model, optimizer, 2, monitor, first=2)
    monitor.close()
    weight = kept["h.0.attn.c_attn.weight"][:8].T.double()
    got = recording.layer(2, 0)
    assert got["wq_sigma1"][0] == pytest.approx(torch.linalg.svdvals(weight)[0].item(), rel=1e-5)
    assert abs(got["update_projection_1"][0] or 0) < 0.2  # one step of training, not the jump back


def forks_in_mid_run(path):
    """In a process of its own: where autograd has run on threads, a forked child cannot run it."""
    model, optimizer = make()
    monitor = foreshock.watch(model, optimizer, address=f"file:{path}", run="run", **EVERY)
    models.train(model, optimizer, 1, monitor)

    def child():
        models.train(model, optimizer, 2, monitor)
        monitor.close()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(120)
    assert process.exitcode == 0
    models.train(model, optimizer, 1, monitor, first=1)
    monitor.close()


def test_a_forked_child_sends_nothing_and_does_not_hang(tmp_path):
    recording = Recording(tmp_path / "run.jsonl")
    process = multiprocessing.get_context("spawn").Process(target=forks_in_mid_run, args=(recording.path,))
    process.start()
    process.join(240)
    assert process.exitcode == 0
    assert sorted(recording.steps()) == [0, 1] and len(recording.lines()) == 1 + 2 + 1


def test_data_loader_workers(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    data = torch.utils.data.TensorDataset(*models.batch(0, size=6))
    for x, y in torch.utils.data.DataLoader(data, batch_size=3, num_workers=2):
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
    monitor.close()
    assert sorted(recording.steps()) == [0, 1]


def test_another_protobuf_in_the_process(record):
    """The library brings its own framing and shows no symbol of it."""
    symbols = os.popen(f"nm -D --defined-only {os.environ['FORESHOCK_LIBRARY']}").read()
    assert symbols and "protobuf" not in symbols
    google = pytest.importorskip("google.protobuf.struct_pb2")
    message = google.Struct()
    message.update({"a": 1.0})
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 1, monitor)
    assert google.Struct.FromString(message.SerializeToString()) == message
    monitor.close()
    assert sorted(recording.steps()) == [0]


ORDER = """
import sys
sys.path[:0] = [{src!r}, {tests!r}]
def google():
    global struct
    import google.protobuf.struct_pb2 as struct
    struct.Struct().SerializeToString()
def ours():
    global foreshock
    import foreshock
    from foreshock import _library
    assert _library.load() is not None
for f in ({order}):
    f()
import torch, models
model = models.nanogpt()
optimizer = torch.optim.AdamW(model.parameters())
monitor = foreshock.watch(model, optimizer, address="file:{path}", run="order")
models.train(model, optimizer, 2, monitor)
message = struct.Struct()
message.update({{"a": 1.0}})
assert struct.Struct.FromString(message.SerializeToString()) == message
monitor.close()
print("steps", monitor.unwatched)
"""


@pytest.mark.parametrize("order", ["google, ours", "ours, google"])
def test_another_protobuf_loaded_before_or_after(tmp_path, order):
    pytest.importorskip("google.protobuf.struct_pb2")
    code = ORDER.format(order=order, path=tmp_path / "a.jsonl", src=str(HERE.parent / "src"), tests=str(HERE))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip() == "steps {}", done.stdout + done.stderr
    assert (tmp_path / "a.jsonl").read_text().count('"loss"') >= 2


def test_labels_of_the_run_travel(record, tmp_path):
    model, optimizer = make()
    monitor, _ = record(model, optimizer, address=f"file:{tmp_path}/run.fsk", labels={"team": "language", "cluster": "7"})
    models.train(model, optimizer, 1, monitor)
    monitor.close()
    hello = (tmp_path / "run.fsk").read_bytes()
    assert all(text in hello for text in (b"team", b"language", b"cluster"))
    with pytest.raises(TypeError, match="allowed_actions.*labels"):
        foreshock.watch(model, optimizer, address=f"file:{tmp_path}/other.fsk", label="x")


def test_without_the_library_training_goes_on(monkeypatch, capfd):
    from foreshock import _library

    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.setenv("FORESHOCK_LIBRARY", "/nowhere/libforeshock.so")
    model, optimizer = make()
    monitor = foreshock.watch(model, optimizer)
    models.train(model, optimizer, 2, monitor)
    monitor.close()
    assert capfd.readouterr().err.count("was not found") == 1
    assert monitor.stats() == {}


def test_no_address_costs_nothing_and_changes_nothing():
    model, optimizer = make()
    monitor = foreshock.watch(model, optimizer)
    models.train(model, optimizer, 2, monitor)
    assert monitor.stats().get("sent", 0) == 0
    monitor.close()


def test_watching_again_ends_the_earlier_watch(record):
    model, optimizer = make()
    first, recording = record(model, optimizer, name="first")
    models.train(model, optimizer, 1, first)
    second, again = record(model, optimizer, name="second")
    models.train(model, optimizer, 2, second, first=1)
    second.close()
    assert first.closed and len(recording.steps()) == 1 and sorted(again.steps()) == [1, 2]


def test_an_unknown_option_is_named():
    model, optimizer = make()
    with pytest.raises(TypeError, match="no option 'adress'"):
        foreshock.watch(model, optimizer, adress="file:x")


def test_what_ends_with_an_error_says_so(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer)
    with pytest.raises(ZeroDivisionError):
        with monitor:
            models.train(model, optimizer, 1, monitor)
            1 / 0
    assert recording.events()[-1]["status"] == "failed"


def test_wrapped_functions_are_inert_outside_of_watched_layers():
    assert _patch.context.key == ""
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert "Close" not in type(out.grad_fn).__name__


def test_restarted_with_other_options(record, tmp_path):
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, first = record(model, optimizer)
    models.train(model, optimizer, 2, monitor)
    second = type(first)(tmp_path / "second.jsonl")
    monitor.restart(address=f"file:{second.path}", run="second", attention_every_steps=2)
    models.train(model, optimizer, 3, monitor, first=2)
    monitor.close()
    assert sorted(first.steps()) == [0, 1] and sorted(second.steps()) == [2, 3, 4]
    assert ["logit_max" in second.steps()[s] for s in (2, 3, 4)] == [True, False, True]
    assert monitor.unwatched == {}


THIRD = {**EVERY, "attention_every_steps": 3, "spectra_every_steps": 3}


@pytest.fixture
def eager():
    """As in a process that has compiled nothing: other tests have."""
    from torch._dynamo.utils import counters

    counters.clear()


def test_steps_that_are_not_sampled_have_no_hooks_on_layers(record, eager):
    """But for the layer that counts tokens. Sampled steps have every layer, whoever calls the layers."""
    model, optimizer = make(layers=4)
    monitor, recording = record(model, optimizer, every=THIRD)
    hooked = []
    model.ln_f.register_forward_hook(lambda m, a, o: hooked.append([bool(b.attn._forward_pre_hooks) for b in model.h]))
    models.train(model, optimizer, 7, monitor)
    assert [all(h) for h in hooked] == [True, False, False, True, False, False, True]
    assert hooked[1] == hooked[5] == [True, False, False, False]
    model(*models.batch(0))  # thrown away
    monitor.close()
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.h.modules())
    for step in range(7):
        frame = recording.steps()[step]
        assert ("logit_max" in frame) == (step % 3 == 0)
        assert step % 3 or all(len(heads) == 4 for heads in frame["logit_max"])
        assert frame["tokens"] == 3 * 24, "tokens are counted in every step"


def loss_by_parts(model, tokens, targets):
    """As the model's own, past its forward and so past the hooks on it."""
    x = model.wte(tokens)
    for block in model.h:
        x = block(x)
    return torch.nn.functional.cross_entropy(model.lm_head(x).flatten(0, 1), targets.flatten())


def test_a_model_whose_parts_are_called(record, eager):
    """No hook of the whole model sees the step begin: the layers' own do, so they are on."""
    model, optimizer = make()
    monitor, recording = record(model, optimizer, every=THIRD)
    for step in range(4):
        loss = loss_by_parts(model, *models.batch(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    monitor.close()
    assert monitor.unwatched == {}
    assert [s for s, frame in recording.steps().items() if "logit_max" in frame] == [0, 3]
    assert len(recording.steps()[3]["logit_max"]) == 2
    assert [recording.steps()[s]["tokens"] for s in (0, 3)] == [3 * 24, 3 * 24], "each once"


def test_evaluations_count_no_tokens(record):
    model, optimizer = make()
    monitor, recording = record(model, optimizer, every=THIRD)

    def evaluate(step):  # before the first step as well
        with torch.no_grad():
            model(*models.batch(step, size=5))

    models.train(model, optimizer, 4, monitor, each=evaluate)
    monitor.close()
    assert [frame["tokens"] for frame in recording.steps().values()] == [3 * 24] * 4


def test_sampled_steps_that_call_parts_of_the_model(record, eager):
    """The others call the model itself. Of the first such step it is learnt; from then on every layer is sampled."""
    model, optimizer = make(layers=4)
    for parameter in model.h[0].parameters():
        parameter.requires_grad_(False)
    model.wte.weight.requires_grad_(False)
    model.wpe.weight.requires_grad_(False)
    monitor, recording = record(model, optimizer, every=THIRD)
    for step in range(13):
        batch = models.batch(step)
        loss = model(*batch) if step % 3 else loss_by_parts(model, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    monitor.close()
    sampled = {step: frame["logit_max"] for step, frame in recording.steps().items() if "logit_max" in frame}
    assert {0, 6, 9, 12} <= set(sampled)
    for step in (6, 9, 12):
        assert [len(heads or []) for heads in sampled[step][1:]] == [4, 4, 4], (step, sampled[step])


def test_a_detached_monitor_puts_no_hook_back(record, eager):
    model, optimizer = make()
    monitor, _ = record(model, optimizer, every=THIRD)
    models.train(model, optimizer, 1, monitor)
    model(*models.batch(0))  # step 1 begins, which is not sampled
    assert not model.h[1].attn._forward_pre_hooks
    monitor.detach()
    monitor.step(loss=1.0)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def python_calls(layers, record, name=None):
    """Calls of Python functions in a step that is not sampled: of a watched model, or of one that is not (name None)."""
    model, optimizer = make(layers=layers)
    monitor = record(model, optimizer, name=name, every={**EVERY, "attention_every_steps": 100, "spectra_every_steps": 100})[0] if name else None
    models.train(model, optimizer, 3, monitor)
    calls = []

    def note(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        models.train(model, optimizer, 1, monitor)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_what_sleeps_costs_next_to_nothing_a_layer(record, eager):
    """No time is asserted: calls of Python functions that watching adds to an eager step, with two layers and with ten."""
    few, many = (python_calls(n, record, f"watched{n}") - python_calls(n, record) for n in (2, 10))
    assert many - few <= 8 * 3, (few, many)
    assert few < 80, few
