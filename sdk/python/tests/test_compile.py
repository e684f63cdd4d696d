"""torch.compile: the tap is part of the graph; sampling begins and changes without a graph break or a retrace."""

import pytest
import torch
from torch._dynamo.utils import counters

import models
import reference
from conftest import with_taps
from foreshock import _patch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=True):
        yield
    torch._dynamo.reset()
    counters.clear()


def compiled(model):
    return torch.compile(model, backend="aot_eager")


def graphs():
    return counters["stats"]["unique_graphs"], dict(counters["graph_break"])


@pytest.mark.parametrize("checkpointing", [None, "not reentrant"])
@with_taps
def test_no_break_no_retrace_and_the_right_numbers(record, checkpointing):
    plain = models.nanogpt(checkpointing=checkpointing)
    models.train(compiled(plain), torch.optim.AdamW(plain.parameters(), lr=1e-2), 3)
    without = graphs()
    torch._dynamo.reset()
    counters.clear()

    model = models.nanogpt(checkpointing=checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 3, "spectra_every_steps": 3,
                                                         "row_every": 1, "budget": 1.0})
    seen = {}

    def each(step):
        twin = models.NanoGPT()
        twin.load_state_dict(model.state_dict())
        seen[step] = reference.capture(twin, lambda m: m(*models.batch(100 * step)))

    models.train(compiled(model), optimizer, 7, monitor, each=each)
    assert graphs() == without and without[1] == {}
    monitor.close()
    assert monitor.unwatched == {}
    for step in (0, 3, 6):
        for layer in range(2):
            reference.compare(recording.layer(step, layer), reference.attention_signals(seen[step][layer]), f"{step}")
    assert "logit_max" not in recording.steps()[4]


@with_taps
def test_another_cadence_compiles_nothing_anew(record, tmp_path):
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, _ = record(model, optimizer)
    fast = compiled(model)
    models.train(fast, optimizer, 4, monitor)
    before = graphs()
    monitor.restart(address=f"file:{tmp_path}/slower.jsonl", attention_every_steps=2)
    models.train(fast, optimizer, 4, monitor, first=4)
    monitor.restart(address=f"file:{tmp_path}/faster.jsonl", attention_every_steps=1)
    models.train(fast, optimizer, 4, monitor, first=8)
    monitor.close()
    assert graphs() == before
    sampled = {name: (tmp_path / f"{name}.jsonl").read_text().count('"logit_max"') for name in ("slower", "faster")}
    assert sampled["faster"] == 2 * sampled["slower"] > 0, sampled


@with_taps
def test_watched_after_it_was_compiled(record):
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    fast = compiled(model)
    models.train(fast, optimizer, 2)
    monitor, recording = record(fast, optimizer)
    models.train(fast, optimizer, 3, monitor, first=2)
    monitor.close()
    assert monitor.unwatched == {}, "compiled again with the hooks"
    assert recording.layer(4, 1)["logit_max"][3] is not None


@with_taps
def test_compiled_in_the_middle_of_a_run(record):
    """Eager layers have no hooks in a step that is not sampled: code that is made in such a step is made once more, with them."""
    torch._dynamo.reset()
    counters.clear()
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 3, "spectra_every_steps": 3, "row_every": 1, "budget": 1.0})
    models.train(model, optimizer, 4, monitor)
    optimizer.zero_grad()
    model(*models.batch(400))  # step 4 has begun, and its layers are bare
    for block in model.h:
        block.compile(backend="aot_eager")
    models.train(model, optimizer, 9, monitor, first=4)
    monitor.close()
    assert monitor.unwatched == {}
    sampled = [step for step, frame in recording.steps().items() if len(frame.get("logit_max", [])) == 2 and None not in frame["logit_max"]]
    assert sampled[:2] == [0, 3] and sampled[-2:] == [9, 12], sampled


@with_taps
def test_layers_compiled_one_by_one(record):
    model = models.nanogpt()
    for block in model.h:
        block.compile(backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer)
    models.train(model, optimizer, 2, monitor)
    monitor.close()
    assert monitor.unwatched == {}
    assert recording.layer(1, 0)["logit_max"][0] is not None and recording.layer(1, 1)["logit_max"][0] is not None


def test_the_operator_is_sound(record):
    """torch's own checks of a custom operator: schema, fake tensors, dispatch."""
    q, k, v, o, d = (torch.randn(1, 2, 4, 8) for _ in range(5))
    torch.library.opcheck(torch.ops.foreshock.measure.default, (q, d, q, k, v, o, None, "nobody"),
                          test_utils=("test_schema", "test_faketensor"))


@with_taps
def test_a_twin_that_is_not_watched_takes_no_layer_away_in_silence(record):
    """torch.compile keeps code by function, not by model, and guards on no hooks where there were none."""
    twin, model = models.nanogpt(), models.nanogpt()
    plain, fast = compiled(twin), compiled(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    other = torch.optim.AdamW(twin.parameters(), lr=1e-2)
    models.train(plain, other, 1)
    monitor, recording = record(model, optimizer)
    for step in range(8):
        models.train(fast, optimizer, 1, monitor, first=step)
        models.train(plain, other, 1)
    monitor.close()
    measured = [step for step, frame in recording.steps().items() if "logit_max" in frame]
    assert measured[-5:] == [3, 4, 5, 6, 7] and monitor.unwatched == {}


@with_taps
def test_attention_behind_a_graph_break(record, monkeypatch):
    """Then dQ comes into a compiled backward from outside: it may be said to be changed there as well."""
    from foreshock import _patch

    plain = models.nanogpt()
    models.train(plain, torch.optim.AdamW(plain.parameters(), lr=1e-2), 3)
    monkeypatch.setattr(_patch, "_original_sdpa", torch._dynamo.disable(_patch._original_sdpa))
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer)
    models.train(compiled(model), optimizer, 3, monitor)
    monitor.close()
    assert monitor.unwatched == {}
    assert all(recording.layer(2, layer)["output_rounding_bias"][0] is not None for layer in range(2))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))


@with_taps
def test_a_sleeping_tap_computes_nothing(record):
    """The compiled graphs are those of the plain model, and the operator, once a layer."""
    from collections import Counter

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def operations_of(watched):
        graphs = []

        def keep(graph, inputs):
            graphs.append(Counter(str(n.target) for n in graph.graph.nodes if n.op == "call_function"))
            return make_boxed_func(graph.forward)

        torch._dynamo.reset()
        model = models.nanogpt()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        monitor = record(model, optimizer)[0] if watched else None
        fast = torch.compile(model, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
        models.train(fast, optimizer, 1, monitor)
        return graphs

    (plain_forward, plain_backward), (forward, backward) = operations_of(False), operations_of(True)
    assert {k: v for k, v in (forward - plain_forward).items() if "detach" not in k and "view" not in k} == {}
    more = backward - plain_backward
    taps = {k: more.pop(k) for k in list(more) if "auto_functionalized" in k}
    assert list(taps.values()) == [2], more
    assert set(more) <= {"<built-in function getitem>"}, "what takes the operator's result apart"
    assert plain_backward - backward == Counter()


def calls_of(step):
    """Of one step: {name: how often}, for the tap's operator and dynamo's looks for compiled code."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        step()
    names = [e.name for e in seen.events()]
    return {name: names.count(name) for name in ("foreshock::measure", "TorchDynamo Cache Lookup")}


@with_taps
def test_a_step_that_is_not_sampled_calls_nothing(record):
    """Inductor's code asks first; dynamo looks for the model's code alone."""
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 4, "spectra_every_steps": 4, "row_every": 1, "budget": 1.0})
    fast = torch.compile(model)
    models.train(fast, optimizer, 6, monitor)
    called = [calls_of(lambda step=step: models.train(fast, optimizer, 1, monitor, first=step)) for step in range(6, 10)]
    monitor.close()
    assert [c["foreshock::measure"] for c in called] == [0, 0, 2, 0], "the eighth step is sampled"
    assert [c["TorchDynamo Cache Lookup"] for c in called] == [1, 1, 1, 1]
    assert [step for step, frame in recording.steps().items() if "logit_max" in frame] == [0, 4, 8]


@pytest.mark.parametrize("backend", [None, "aot_eager", pytest.param("inductor", marks=with_taps)])
def test_micro_batches_of_several_sizes_weigh_by_their_tokens(record, backend):
    """Where a forward's tokens are known from its inputs' shapes nobody counts again; sizes that are new are counted."""
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 100, "spectra_every_steps": 100})
    run = torch.compile(model, backend=backend, dynamic=True) if backend else model
    sizes = [(2, 4), (1, 12), (2, 4), (5, 3), (1, 12)]
    losses = []
    for step in range(5):
        for part in range(3):
            batch, length = sizes[(step + part) % 5]
            x = torch.randint(0, 32, (batch, length))
            run(x, x).backward()
            monitor.loss(value := torch.tensor(float(step + 10 * part)))
            losses.append((step, float(value), batch * length))
        optimizer.step()
        optimizer.zero_grad()
        monitor.step()
    monitor.close()
    for step, frame in recording.steps().items():
        mine = [(value, tokens) for s, value, tokens in losses if s == step]
        assert frame["loss"] == pytest.approx(sum(v * t for v, t in mine) / sum(t for _, t in mine)), step


@with_taps
def test_a_checkpointed_segment_keeps_nothing_for_the_tap(record):
    """What compiled forward saves for backward is what it saves without a watch, by the partitioner that torch.compile's default backend uses."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def saved(watched):
        forwards = []

        def keep(graph, inputs):
            (out,) = (n for n in graph.graph.nodes if n.op == "output")
            sizes = [n.meta["val"].numel() for n in out.args[0] if isinstance(getattr(n, "meta", {}).get("val"), torch.Tensor)]
            forwards.append(sum(int(size) for size in sizes if isinstance(size, int)))
            return make_boxed_func(graph.forward)

        torch._dynamo.reset()
        model = models.nanogpt(checkpointing="not reentrant")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        monitor = record(model, optimizer)[0] if watched else None
        backend = aot_autograd(fw_compiler=keep, bw_compiler=lambda graph, inputs: make_boxed_func(graph.forward),
                               partition_fn=min_cut_rematerialization_partition)
        models.train(torch.compile(model, backend=backend, fullgraph=True), optimizer, 1, monitor)
        return forwards

    assert saved(True) == saved(False) != []


class Mixed(torch.nn.Module):
    """Token ids in a dictionary, beside a tensor whose shape says nothing of them."""

    def __init__(self):
        super().__init__()
        self.inner = models.nanogpt()

    def forward(self, batch, scale):
        return self.inner(batch["ids"], batch["ids"]) * scale


class Dropping(Mixed):
    """Half of the columns of a larger step are padding, which the model drops: shapes of inputs do not tell how many tokens it has."""

    def forward(self, ids, scale):
        ids = ids[:, : 8 if bool(scale > 2) else 24]
        return self.inner(ids, ids) * scale


@with_taps
@pytest.mark.parametrize("kind", [Mixed, Dropping])
def test_shapes_that_do_not_tell_are_not_believed(record, kind):
    model = kind()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor, recording = record(model, optimizer, every={"attention_every_steps": 2, "spectra_every_steps": 2, "row_every": 1, "budget": 1.0})
    fast = torch.compile(model, backend="inductor", dynamic=True)
    expected = []
    for step in range(8):
        size, scale = (3, 3.0 if step % 3 == 2 else 1.0) if kind is Dropping else (2 + step % 2, 1.0)
        ids = torch.randint(0, 64, (size, 24))
        fast({"ids": ids} if kind is Mixed else ids, torch.tensor(scale)).backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=1.0)
        expected.append(size * (8 if kind is Dropping and scale > 2 else 24))
    monitor.close()
    counted = [frame["tokens"] for frame in recording.steps().values()]
    assert counted == expected, "the second sampled step shows that the shapes do not tell"


def test_a_torch_that_is_too_old_compiles_without_taps(record, monkeypatch):
    """Its compiler would refuse the tap in some graphs: layers are named, the training goes on, and uncompiled code is measured."""
    monkeypatch.setattr(_patch, "compiled_taps", False)
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor, recording = record(model, optimizer)
    models.train(compiled(model), optimizer, 2, monitor)
    monitor.close()
    assert monitor.unwatched == {f"h.{i}.attn (attention)": _patch.TOO_OLD for i in range(2)}
    assert "or later is needed" in _patch.TOO_OLD
    got = recording.layer(1, 0)
    assert len(got["wq_sigma1"]) == 4 and "logit_max" not in got, "weights are measured as ever"
