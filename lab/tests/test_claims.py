"""The claims' runner in miniature, its statistics, and the pieces that it stands on."""

import json
import math
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

from foreshock_lab import claims, conditions, flash, judge, picture, stats, verdicts  # noqa: E402
from foreshock_lab.attention import Normalise  # noqa: E402
from foreshock_lab.model import Shape, StackedGPT  # noqa: E402
from foreshock_lab.projection import Projection  # noqa: E402


def test_intervals():
    assert stats.t_quantile(2) == pytest.approx(4.3027, abs=1e-4) and stats.t_quantile(30) == pytest.approx(2.0423, abs=1e-4)
    assert stats.share_interval(0, 3) == pytest.approx((0, 0.7076), abs=1e-4)
    assert stats.share_interval(7, 8) == pytest.approx((0.4735, 0.9968), abs=1e-4)
    assert stats.share_bound(0, 59) < 0.05 < stats.share_bound(0, 58)
    assert stats.mean_interval([1, 2, 3]) == pytest.approx((2, -0.4841, 4.4841), abs=1e-4)
    assert stats.mean_interval([1])[1:] == (-math.inf, math.inf) and math.isnan(stats.mean_interval([])[0])


def test_collapse_is_for_good_and_after_learning():
    steps = list(range(0, 1200, 20))
    learned = [6.0 - 5 * min(i / 20, 1) for i in range(60)]
    assert judge.collapse_step(steps, learned) is None
    fallen = judge.collapse_step(steps, learned[:40] + [3.0] * 20)
    assert 800 <= fallen <= 880
    assert judge.collapse_step(steps, learned[:40] + [9.0] * 5 + [1.0] * 15) is None, "a spike passes"
    assert judge.collapse_step(steps, [6.0] * 30 + [7.0] * 30) is None, "never learned"
    assert judge.collapse_step(steps, learned[:40] + [math.nan] * 20) == 800


def test_other_data_have_a_minimum_of_their_own():
    steps = list(range(0, 1200, 20))
    losses = [6.0 - 5 * min(i / 20, 1) for i in range(30)] + [3.5] * 30
    assert judge.collapse_step(steps, losses) is not None
    assert judge.collapse_step(steps, losses, other_data_from=600) is None, "wrong batches are harder, that is no collapse"
    assert 900 <= judge.collapse_step(steps, losses[:45] + [6.0] * 15, other_data_from=600) <= 960
    assert judge.collapse_step(steps, [6.0] * 45 + [9.0] * 15, other_data_from=600) is None, "never learned"
    for harder in (2.6, 4.0):  # a sample's loss is the mean of the steps since the last one: the one at the onset is of both kinds
        each = [2.0 if step < 600 else harder for step in range(1200)]
        means = [sum(each[max(s - 19, 0): s + 1]) / len(each[max(s - 19, 0): s + 1]) for s in steps]
        assert judge.collapse_step(steps, means, other_data_from=600) is None, harder


def test_what_still_fires_at_the_collapse_counts():
    def alert(event, step, head):
        return {"event": event, "severity": "critical", "rule": "qk_runaway", "step": step, "layer": 0, "head": head}

    events = [alert("firing", 100, 0), alert("resolved", 200, 0), alert("firing", 300, 1), alert("resolved", 900, 1),
              alert("firing", 950, 2)]
    assert judge.lasting(events, 800) == [[300, "qk_runaway", 0, 1]]
    assert judge.lasting(events, math.inf) == [[950, "qk_runaway", 0, 2]]


def test_delta_is_moved_by_what_was_asked():
    torch.manual_seed(0)
    q, k, v, d_o = (torch.randn(3, 2, 24, 16) for _ in range(4))
    o, lse, rest = flash.forward(q, k, v, 0.25)
    move = torch.randn(3, 2, 24)
    got = flash.backward_moved(d_o, move, q, k, v, o, lse, rest, 0.25)
    s = (0.25 * q @ k.mT).masked_fill(~torch.ones(24, 24, dtype=torch.bool).tril(), -math.inf)
    p = s.softmax(-1)
    d_s = p * (d_o @ v.mT - ((d_o * o).sum(-1) + move)[..., None])
    for mine, reference in zip(got, (0.25 * d_s @ k, 0.25 * d_s.mT @ q, p.mT @ d_o)):
        torch.testing.assert_close(mine, reference, atol=1e-5, rtol=1e-4)


def test_normalising_some_copies_has_the_right_gradient():
    torch.manual_seed(0)
    x = torch.randn(3, 2, 2, 4, 8, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([0, 2])
    y = Normalise.apply(x, rows)
    whole = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(y[rows], whole[rows], atol=1e-5, rtol=1e-5)
    assert torch.equal(y[1], x[1])
    g = torch.randn_like(y)
    on = torch.tensor([True, False, True]).view(-1, 1, 1, 1, 1)
    expected = torch.autograd.grad((torch.where(on, whole, x) * g).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad((y * g).sum(), x)[0], expected, atol=1e-5, rtol=1e-5)


def test_projection_removes_the_leading_part_or_as_much_elsewhere():
    torch.manual_seed(0)
    model = StackedGPT(Shape(3, layers=1, heads=2, head_dim=16, context=8))
    probe = Projection(model, [0, 1], [0, 0], [False, True])
    old = model.q[0].detach().clone()
    change = 1e-2 * torch.randn_like(old)
    probe.before(0)
    model.q[0].data += change
    probe.after(0)
    done = model.q[0].detach() - old
    torch.testing.assert_close(done[2], change[2], atol=1e-7, rtol=0)
    for head in range(2):
        part = slice(16 * head, 16 * head + 16)
        for r in (0, 1):
            u, _, v = torch.linalg.svd(old[r, part])
            leading = sum(u[:, i : i + 1] @ (u[:, i] @ change[r, part] @ v[i]).view(1, 1) @ v[i : i + 1] for i in range(3))
            left = sum(((u[:, i] @ done[r, part] @ v[i]) ** 2) for i in range(3)).sqrt()
            if r == 0:
                torch.testing.assert_close(done[r, part], change[r, part] - leading, atol=1e-6, rtol=1e-4)
            else:
                assert left == pytest.approx(float(leading.norm()), rel=1e-3)
                assert (change[r, part] - done[r, part]).norm() == pytest.approx(float(leading.norm()), rel=1e-3)


def test_conditions_have_their_own_names_and_fit_the_model():
    copies = [copy for c in conditions.all_conditions() for copy in c.copies(600)]
    assert len({c.name for c in copies}) == len(copies)
    assert all((c.fault.layer or 0) < 4 and (c.fault.head or 0) < 4 for c in copies)
    heads = [c for c in copies if c.fault.head is not None]
    assert len(heads) >= 8 and all(c.fault.step == 600 for c in heads)


def run_of(name, condition, **more):
    steps = list(range(0, 1200, 20))
    series = {"step": steps, "loss": [1.0] * 60, "logit_max": [5.0] * 60, "wq_sigma1": [2.0] * 60, "qk_sigma1": [4.0] * 60,
              "output_rounding_bias": [0.01] * 60, "delta_output_bias": [0.01] * 60, "delta_error": [1e-4] * 60}
    return {"name": name, "condition": condition, "seed": 0, "lr": 1e-3, "action": "none", "always_norm": False, "fault": "none",
            "size": 0.0, "last": None, "onset": None, "layer": None, "head": None, "steps": 1200, "final_loss": 1.0, "collapse": None,
            "guard_on": None, "first_warning": None, "first_critical": None, "lasting": [], "rules": [], "series": series, **more}


def test_a_collapse_without_a_runaway_before_it_refutes_the_first_claim():
    fallen = run_of("delta-0.002.0", "delta-0.002", fault="delta", onset=600, collapse=1000, lasting=[[700, "qk_runaway", 1, 2]])
    found = {c["claim"]: c for c in verdicts.claims([run_of("healthy.0", "healthy"), fallen])}
    assert found["a"]["holds"] is False and found["lead"]["holds"] is True
    assert "0.75 of onset..collapse in the median" in found["lead"]["evidence"]
    away = json.loads(json.dumps(fallen))
    away["series"]["qk_sigma1"][40:] = [40.0] * 20
    found = {c["claim"]: c for c in verdicts.claims([run_of("healthy.0", "healthy"), away])}
    assert found["a"]["holds"] is True and found["c, clip"]["holds"] is None


def test_a_random_sign_that_runs_away_has_entered():
    fault = dict(size=8.0, onset=600)
    runs = [run_of("healthy.0", "healthy"), run_of("output-8.0", "output-8", fault="output", collapse=1000, **fault),
            run_of("random-output-8.0", "random-output-8", fault="output_random", **fault)]
    verdict = lambda: {c["claim"]: c for c in verdicts.claims(runs)}["e, output"]
    assert verdict()["holds"] is True and "8: random sign 0 of 1 (collapsed 0, " in verdict()["evidence"]
    runs[2]["series"]["qk_sigma1"][50:] = [40.0] * 10
    assert verdict()["holds"] is False and "8: random sign 1 of 1 (collapsed 0, " in verdict()["evidence"]


def test_the_guard_is_held_against_runs_of_the_same_fault_and_size():
    fault = dict(fault="output", size=8.0, onset=600)
    runs = [run_of("healthy.0", "healthy"), run_of("output-8.0", "output-8", collapse=1000, **fault),
            run_of("output-8-qk_norm.0", "output-8-qk_norm", action="qk_norm", final_loss=1.03, **fault),
            run_of("always.0", "output-8-always-norm", always_norm=True, **fault),
            run_of("always-16.0", "output-always-norm", always_norm=True, final_loss=9.0, fault="output", size=16.0, onset=600)]
    found = {c["claim"]: c for c in verdicts.claims(runs)}
    assert found["b"]["holds"] is True and "output 8: 0 of 1 collapsed with the guard, 1 of 1 without" in found["b"]["evidence"]
    assert found["f"]["holds"] is False and "0.030 nat at step 1200" in found["f"]["evidence"]
    runs[2]["final_loss"] = 1.01
    assert {c["claim"]: c for c in verdicts.claims(runs)}["f"]["holds"] is True
    assert {c["claim"]: c for c in verdicts.claims(runs[:1] + runs[2:3])}["b"]["holds"] is None, "nothing to hold it against"


def test_the_critical_has_to_name_the_head():
    def found(*lasting):
        run = run_of("head-delta-1.2.0", "head-delta-1.2", fault="delta", onset=600, layer=1, head=2, lasting=list(lasting))
        return {c["claim"]: c["holds"] for c in verdicts.claims([run])}["heads"]

    assert found([640, "delta_error", 1, 2], [700, "qk_runaway", 0, 0]) is True
    assert found([640, "delta_error", 1, 1]) is False and found() is False


def test_a_false_critical_is_counted():
    runs = [run_of(f"healthy-0.001.{i}", "healthy-0.001", seed=i) for i in range(59)]
    evidence = lambda runs: {c["claim"]: c for c in verdicts.claims(runs)}["healthy"]
    assert evidence(runs)["holds"] is True and "at most 0.05" in evidence(runs)["evidence"]
    assert evidence([*runs, run_of("healthy-0.001.60", "healthy-0.001", first_critical=800)])["holds"] is False
    assert evidence([run_of("healthy-0.001.60", "healthy-0.001", steps=900, first_critical=800)])["holds"] is None, "cut short"


def test_the_picture_is_whole_and_loads_nothing():
    away = run_of("delta-0.002.0", "delta-0.002", fault="delta", onset=600, collapse=1000, lasting=[[700, "qk_runaway", 1, 2]])
    away["series"]["loss"][50] = None  # not finite
    runs = [run_of("healthy.0", "healthy"), away]
    page = picture.page(runs, verdicts.claims(runs))
    assert page.count("<svg") == 4 and page.count("</svg>") == 4 and "nan" not in page
    assert "http" not in page and "<script" not in page and "src=" not in page


def test_the_runner_trains_records_judges_and_resumes(tmp_path, capsys):
    program = BUILD / "bin" / "foreshock"
    if not program.exists():
        pytest.skip(f"no {program}")
    arguments = ["--out", str(tmp_path), "--layers", "4", "--heads", "4", "--head-dim", "16", "--context", "16", "--batch", "1",
                 "--onset", "4", "--warm-up", "2", "--every", "2", "--row-every", "1", "--device", "cpu", "--dtype", "float32", "--jobs", "1",
                 "--text", str(HERE.parent), "--foreshock", str(program), "--only", "head-output-1.0,output-project,healthy"]
    claims.main([*arguments, "--steps", "5"])
    claims.main([*arguments, "--steps", "9"])
    book = json.loads((tmp_path / "claims.json").read_text())
    runs = {r["name"]: r for r in book["runs"]}
    assert len(runs) == 7 and all(r["steps"] == 9 for r in runs.values()), "cut short runs were trained again"
    faulty = runs["head-output-1.0.1"]
    assert float(faulty["after_onset"]["output_rounding_bias"][0][1][0]) == pytest.approx(32, rel=0.02)
    assert all(r["lost_frames"] == 0 and len(r["series"]["loss"]) == 5 for r in runs.values())
    assert all(c["holds"] is None for c in book["claims"]), "9 steps prove nothing"
    assert "7 runs were cut short" in (tmp_path / "claims.md").read_text()
    written = (tmp_path / "runs.jsonl").read_text()
    capsys.readouterr()
    claims.main([*arguments, "--steps", "9"])
    assert (tmp_path / "runs.jsonl").read_text() == written, "nothing is left to do"
    assert "claim" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no condition outptu-8; there are .*output-8,"):
        claims.main([*arguments, "--only", "outptu-8"])
    more = tmp_path / "more"
    more_of = [*arguments, "--out", str(more), "--more", str(tmp_path), "--lr", "3e-4", "--seeds", "1", "--only", "random-mlp-32,batch-0.1"]
    claims.main([*more_of, "--steps", "9"])
    book = {r["name"]: r for r in json.loads((more / "claims.json").read_text())["runs"]}
    assert len(book) == 9 and book["batch-0.1.1"]["lr"] == 3e-4, "both folders' runs, one table"
    assert len((more / "runs.jsonl").read_text().splitlines()) == 2
