"""The laboratory in miniature: copies do not touch each other, and each fault is what its name says."""

import json
import os
import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("FORESHOCK_BUILD_DIR", HERE.parents[1] / "build"))
os.environ.setdefault("FORESHOCK_LIBRARY", str(BUILD / "lib" / "libforeshock.so"))
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "sdk" / "python" / "src")]
torch.set_num_threads(1)

from foreshock_lab.batches import Batches  # noqa: E402
from foreshock_lab.faults import Fault, Strengths, moved, ulp  # noqa: E402
from foreshock_lab.model import Shape, StackedGPT  # noqa: E402
from foreshock_lab.train import Copy, train  # noqa: E402

TEXT = torch.frombuffer(bytearray(b"the quick brown fox jumps over the lazy dog; " * 400), dtype=torch.uint8)
SMALL = dict(layers=2, heads=2, head_dim=16, context=32)


def run(copies, steps=4, folder=None, **more):
    address = (lambda name: f"file:{folder}/{name}.jsonl") if folder else None
    return train(copies, Shape(len(copies), **SMALL), TEXT, steps, 2, every=1, row_every=1, warm_up=1, address_of=address, **more)


def recorded(folder, name):
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [d for d in lines if "step" in d and "event" not in d]


def test_ulp_is_the_distance_of_bf16_neighbours():
    x = torch.tensor([1.0, 1.5, -2.0, 0.75, 3e-5, 0.0])
    y = (x.abs().bfloat16().view(torch.int16) + 1).view(torch.bfloat16).float() - x.abs().bfloat16().float()
    assert torch.equal(ulp(x)[:-1], y[:-1]) and ulp(x)[-1] == 0
    assert torch.equal(moved(torch.tensor([1.0, -1.0]), torch.tensor(2.0)), torch.tensor([1.0 + 2 / 128, -1.0 - 2 / 128]))


def test_a_copy_among_others_trains_as_it_does_alone():
    copies = [Copy("a", lr=1e-3), Copy("b", lr=3e-3), Copy("c", lr=1e-3, fault=Fault("output", 32))]
    together, _ = run(copies)
    for r, copy in enumerate(copies):
        alone, _ = run([copy])
        torch.testing.assert_close(together[:, r], alone[:, 0], atol=1e-5, rtol=1e-5)


def test_attention_without_faults_is_torchs_attention():
    shape = Shape(1, **SMALL)
    model = StackedGPT(shape)
    tokens = TEXT[:64].view(2, 32).long()
    measured = []
    loss = model(tokens, tokens, Strengths([Fault()], 2, 2, 0), lambda *a: measured.append(a))
    loss.sum().backward()
    for _, q, k, v, o, d_o, dq in measured:
        q = q[0].detach().requires_grad_()
        expected = torch.nn.functional.scaled_dot_product_attention(q, k[0], v[0], is_causal=True)
        torch.testing.assert_close(o[0], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(dq[0], torch.autograd.grad(expected, q, d_o[0])[0], atol=1e-6, rtol=1e-3)


def test_the_sdk_sees_each_fault_in_its_copy_and_head(tmp_path):
    copies = [Copy("healthy"), Copy("output", fault=Fault("output", 4, 0, 1, 0)), Copy("random", fault=Fault("output_random", 4)),
              Copy("delta", fault=Fault("delta", 0.05, 0, 0, 1)), Copy("natural", fault=Fault("bf16_pv"))]
    run(copies, 3, tmp_path)
    frames = {c.name: recorded(tmp_path, c.name)[2] for c in copies}
    bias = {name: f["output_rounding_bias"] for name, f in frames.items()}
    delta = {name: f["delta_error"] for name, f in frames.items()}
    assert bias["output"][1][0] == pytest.approx(4, rel=0.02)
    assert abs(bias["output"][1][1]) < 0.01 and abs(bias["output"][0][0]) < 0.01
    assert all(abs(x) < 0.5 for layer in bias["random"] for x in layer), "as large, to both sides"
    assert delta["delta"][0][1] == pytest.approx(0.05, rel=0.05)
    assert abs(delta["delta"][0][0]) < 1e-3 and abs(delta["delta"][1][1]) < 1e-3
    assert all(abs(x) < 1e-3 for layer in delta["healthy"] + bias["healthy"] for x in layer)
    assert any(abs(x) > 0.01 for layer in bias["natural"] for x in layer)
    for name in ("loss", "grad_norm", "learning_rate", "wq_sigma1", "qk_sigma1", "update_projection_1", "logit_max_weight"):
        assert name in frames["healthy"], name
    assert frames["healthy"]["tied_row_fraction_weight"][0][0] == 2 * 31, "rows travel"


@pytest.mark.parametrize("text", ["delta:0.01@2", "mlp:8@2", "residual:8@2", "bf16_stream@2", "delta_random:1@2", "batch:0.5@2",
                                  "batch_shuffled:0.5@2", "batch_repeated:1@2", "mlp_random:8@2", "residual_random:8@2"])
def test_a_fault_begins_at_its_step(text):
    losses, _ = run([Copy("a"), Copy("b", fault=Fault.parse(text))], 5)
    assert torch.equal(losses[:2, 0], losses[:2, 1])
    assert not torch.equal(losses[3:, 0], losses[3:, 1]), "step 2's update differs at the latest"


def test_wrong_batches_are_wrong_in_their_share_of_one_copy():
    faults = [Fault(), Fault("batch_shuffled", 0.5, 3), Fault("batch_repeated", 0.5, 3), Fault("batch", 0.25, 3)]
    batches = Batches(TEXT, 4, 32, [7] * 4, "cpu", faults)
    whole = lambda step: torch.cat([batches.at(step)[0], batches.at(step)[1][..., -1:]], -1)  # [copies, batch, seq + 1]
    before, onset, later = whole(2), whole(3), whole(9)
    assert all(torch.equal(before[0], before[i]) for i in range(1, 4))
    assert torch.equal(later, whole(9)), "of seed and step alone"
    shuffled, repeated, replaced = later[1:]
    assert torch.equal(shuffled.sort(-1).values, later[0].sort(-1).values), "the same tokens"
    assert not any(torch.equal(shuffled[i], later[0, i]) for i in range(2)) and torch.equal(shuffled[2:], later[0, 2:])
    assert torch.equal(repeated[:2], onset[0, :2]) and torch.equal(repeated[2:], later[0, 2:])
    assert 0.1 < float((replaced != later[0]).float().mean()) < 0.4


def test_a_random_sign_outside_attention_goes_to_both_sides():
    torch.manual_seed(0)
    model = StackedGPT(Shape(2, **SMALL))
    x = torch.rand(2, 2, 32, model.shape.dim) + 1
    for kind, same in (("mlp", True), ("mlp_random", False)):
        up = model._perturbed(x, Strengths([Fault(), Fault(kind, 8)], 2, 2, 0), "mlp", 0) > x
        assert not bool(up[0].any()) and bool(up[1].all()) == same
        assert same or 0.4 < float(up[1].float().mean()) < 0.6


def test_normalisation_from_the_start_bounds_the_logits(tmp_path):
    run([Copy("free", lr=0.03), Copy("normed", lr=0.03, always_norm=True)], 6, tmp_path)
    assert max(max(layer) for layer in recorded(tmp_path, "normed")[-1]["logit_max"]) < 4.0001


def test_parsing():
    assert Copy.parse("x,lr=0.01,fault=output:8@800/2.1,action=qk_norm") == Copy(
        "x", 0.01, Fault("output", 8, 800, 2, 1), "qk_norm")
    with pytest.raises(ValueError, match="kind: 'outptu'"):
        Fault.parse("outptu:8")
    for kind in ("batch", "batch_shuffled", "batch_repeated"):
        with pytest.raises(ValueError, match="size: 8.0, .* a share of tokens"):
            Fault.parse(f"{kind}:8")
        with pytest.raises(ValueError, match=f"{kind}: .* takes no layer"):
            Fault.parse(f"{kind}:0.5@3/1")
    with pytest.raises(ValueError, match="expected lr="):
        Copy.parse("x,rate=3")
