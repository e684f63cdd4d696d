"""The claims, judged over finished runs. Every verdict comes with its evidence and 95 % intervals."""

import math
import statistics

from . import stats
from .measures import CAUSES, as_number, by_condition, collapsed, enough, growth, index, lead, noise, price, runaway

NEAR = 0.02  # nat: the guard's loss against always-on normalization


def share(k, n):
    low, high = stats.share_interval(k, n)
    return f"{k} of {n} ({low:.2f} to {high:.2f})"


def mean(values, digits=3):
    values = [v for v in values if not math.isnan(v)]
    if not values:
        return "-"
    if not all(map(math.isfinite, values)):
        return f"{sum(map(math.isfinite, values))} of {len(values)} finite"
    middle, low, high = stats.mean_interval(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1 else f"{middle:.{digits}f}"


def claim_a(groups, names):
    """Each source that collapses, does so by way of the QK runaway."""
    ways, total, before = [], 0, 0
    for word, wanted in (("output", "output-"), ("delta", "delta-"), ("one head", "head-"),
                         ("outside attention", ("mlp-", "residual-", "random-mlp-", "random-residual-")),
                         ("corrupted batches", "batch-"), ("learning rate", "rate-"), ("random sign", ("random-output-", "random-delta-")), ("natural", "natural-")):
        runs = [r for name, rs in groups.items() if name.startswith(wanted) and rs[0]["action"] == "none"
                and not rs[0]["always_norm"] for r in rs]
        if not runs:
            continue
        steps = min(r["steps"] for r in runs)
        fell = [r for r in runs if r["collapse"] is not None]
        away = [(r, runaway(r, names)) for r in fell]
        early = [r for r, step in away if step is not None and step <= r["collapse"]]
        ways.append(f"{word}: {len(fell)} of {len(runs)} collapsed within {steps} steps" + (
            f", {len(early)} of them after the runaway" if fell else ""))
        total, before = total + len(fell), before + len(early)
    return ("a", "every source of error that ends in a collapse gets there by the QK runaway", "; ".join(ways)
            + f". In all {share(before, total)}", None if not total else before == total)


def _guarded(groups):
    """(fault in words, guarded runs) of each fault that the guard was tried on."""
    for rs in groups.values():
        if rs[0]["action"] == "qk_norm":
            yield f"{rs[0]['fault']} {rs[0]['size']:g}", rs


def _alike(groups, run, always_norm=False):
    """Runs of this one's fault, size and place without an action."""
    same = lambda r: all(r[key] == run[key] for key in ("fault", "size", "last", "layer", "head", "lr"))
    return [r for rs in groups.values() for r in rs if same(r) and r["action"] == "none" and r["always_norm"] == always_norm]


def claim_b(groups, names):
    parts, holds = [], []
    for word, runs in _guarded(groups):
        without = _alike(groups, runs[0])
        prices = [price(r, names) for r in runs]
        parts.append(f"{word}: {collapsed(runs)} of {len(runs)} collapsed with the guard, {collapsed(without)} of {len(without)} "
                     f"without; loss against healthy {mean(prices)} nat")
        if without:
            holds.append(collapsed(runs) == 0 and collapsed(without) == len(without) and all(p <= 0.25 for p in prices))
    return ("b", "correcting QK alone keeps training stable while the fault stays on", "; ".join(parts) or "not run",
            all(holds) if holds else None)


def claim_c(action, groups, names):
    runs = [r for word in ("output", "delta") for r in groups.get(f"{word}-{action}", [])]
    words = {"clip": "harder clipping", "rate": "a lower learning rate", "v_norm": "normalising V"}
    text = f"at the same trigger, {words[action]} does not prevent the collapse"
    if not runs:
        return (f"c, {action}", text, "not run", None)
    return (f"c, {action}", text, f"{share(collapsed(runs), len(runs))} collapsed; qk_sigma1 at the end "
            f"{mean([growth(r, names, 'qk_sigma1') for r in runs], 0)} times the healthy twin's; loss against healthy "
            f"{mean([price(r, names) for r in runs])} nat", collapsed(runs) == len(runs))


def claim_d(groups, names):
    parts, holds = [], []
    for word in ("output", "delta"):
        on, off = groups.get(f"{word}-project", []), groups.get(f"{word}-project_elsewhere", [])
        if on and off:
            a, b = ([growth(r, names, "wq_sigma1") for r in runs] for runs in (on, off))
            parts.append(f"{word}: largest sigma1 of W_Q against the healthy twin's, at the end: {mean(a, 2)} off the leading directions, "
                         f"{mean(b, 2)} elsewhere; collapsed {collapsed(on)} of {len(on)} and {collapsed(off)} of {len(off)}")
            holds.append(max(a) < 1.5 < min(b))
    return ("d", "taking updates off the three leading directions holds sigma1, removing as much elsewhere does not", "; ".join(parts),
            all(holds) if holds else None)


def claim_e(word, groups, names):
    """Entered: collapsed, or on the way to it (the QK runaway)."""
    parts, parted = [], []
    entered = lambda runs: sum(r["collapse"] is not None or runaway(r, names) is not None for r in runs)
    highest = lambda runs: max(as_number(x) for r in runs for x in r["series"]["logit_max"])
    say = lambda runs: f"{entered(runs)} of {len(runs)} (collapsed {collapsed(runs)}, largest logit {highest(runs):.3g})"
    for name in sorted((n for n in groups if n.startswith(f"random-{word}-")), key=lambda n: float(n.rsplit("-", 1)[1])):
        size = name.rsplit("-", 1)[1]
        random, same = groups[name], groups.get(f"{word}-{size}")
        text = f"{size}: random sign {say(random)}"
        if same:
            text += f", one sign {say(same)}"
            parted.append((entered(random), entered(same)))
        parts.append(text)
    falls = [(random, same) for random, same in parted if same]
    return (f"e, {word}", "the same error with a random sign does not enter", "entered, by size: " + "; ".join(parts),
            None if not falls else all(random == 0 for random, _ in falls))


def claim_f(groups, names):
    parts, holds = [], []
    for word, runs in _guarded(groups):
        always = {r["seed"]: r for r in _alike(groups, runs[0], always_norm=True)}
        pairs = [(r, always[r["seed"]]) for r in runs if r["seed"] in always]
        if pairs:
            differences = [r["final_loss"] - other["final_loss"] for r, other in pairs]
            parts.append(f"{word}: guard less always-on {mean(differences)} nat at step {min(r['steps'] for r, _ in pairs)}")
            holds.append(abs(sum(differences) / len(differences)) <= NEAR)
    return ("f", f"the guard's loss is within {NEAR} nat of always-on QK normalization over the last 200 steps", "; ".join(parts),
            all(holds) if holds else None)


def claim_g(groups, names):
    runs = groups.get("natural-pv", [])
    if not runs:
        return ("g", "the natural bf16 accumulator collapses", "not run", None)
    text = f"{share(collapsed(runs), len(runs))} collapsed within {max(r['steps'] for r in runs)} steps; loss against healthy " \
           f"{mean([price(r, names) for r in runs])} nat"
    return ("g", "the natural bf16 accumulator collapses", text, collapsed(runs) > 0)


def _names(run, without=()):
    """[layer, head] of the first lasting critical that names one; None."""
    return next(([layer, head] for _, rule, layer, head in run["lasting"] if layer is not None and rule not in without), None)


def heads(groups):
    """Runs with the fault in one head: does the first lasting critical name it?"""
    runs = [r for name, rs in groups.items() if name.startswith("head-") for r in rs]
    named, by_effect = ([r for r in runs if _names(r, without) == [r["layer"], r["head"]]] for without in ((), CAUSES))
    wrong = [f"{r['name']} named {_names(r)}" for r in runs if r not in named]
    return ("heads", "the critical names the head that has the fault", "; ".join(
        [share(len(named), len(runs)), f"by effects alone {len(by_effect)} of {len(runs)}", *wrong]),
        None if not runs else len(named) >= 0.875 * len(runs))


def healthy(groups):
    runs = [r for name, rs in groups.items() if name.startswith(("healthy", "always-norm")) for r in rs]
    false = [r["name"] for r in runs if r["first_critical"] is not None]
    warned = [r["name"] for r in runs if r["first_warning"] is not None]
    return ("healthy", "healthy runs raise no critical", f"{len(false)} of {len(runs)} with a critical {false}, {len(warned)} with a "
            f"warning; the rate of false criticals is at most {stats.share_bound(len(false), len(runs)):.2f} (95 %)",
            None if not runs else not false)


def leads(groups):
    runs = [r for rs in groups.values() for r in rs if lead(r) is not None and r["action"] == "none"]
    if not runs:
        return ("lead", "a lasting critical comes before the collapse", "no collapse", None)
    say = lambda values: (f"{sum(v > 0 for v in values)} of {len(values)} collapses, {statistics.median(values):.2f} of onset..collapse in "
                          f"the median, {min(values):.2f} at least")
    values = [lead(r) for r in runs]
    return ("lead", "a lasting critical comes before the collapse", f"{say(values)}; by effects alone, without the rules "
            f"{' and '.join(CAUSES)}: {say([lead(r, CAUSES) for r in runs])}", min(values) > 0)


def smallest(groups):
    """The smallest size of the ladders that all three first samples show above every healthy sample, in every seed."""
    parts = []
    for ladder, signals in (("ladder-output", ("output_rounding_bias", "delta_output_bias")), ("ladder-delta", ("delta_error",))):
        for signal in signals:
            limit, unseen, sizes = noise(groups, signal), 0.0, []
            for run in groups.get(ladder, []):
                samples = run["after_onset"][signal]
                cells = [(l, h) for l, row in enumerate(samples[0] or ()) for h in range(len(row))] if samples else []
                for i, (l, h) in enumerate(cells):
                    size = run["size"] * (run["last"] / run["size"]) ** (i / max(len(cells) - 1, 1))
                    sizes.append(size)
                    values = [abs(float(s[l][h])) for s in samples if s and s[l][h] is not None]  # layers may take turns
                    seen = bool(values) and min(values) > limit
                    unseen = unseen if seen else max(unseen, size)
            above = [s for s in sizes if s > unseen]
            parts.append(f"{signal}: {min(above):.2g} (healthy noise at most {limit:.2g})" if above else
                         f"{signal}: none up to {max(sizes, default=0):.2g} (healthy noise up to {limit:.2g})")
    return ("smallest", "the smallest bias from which on every head is seen, in each of its first three samples after the onset",
            "; ".join(parts), None)


def claims(runs):
    """[{"claim", "text", "evidence", "holds": True, False or None (not judged)}]."""
    runs = [r for r in runs if enough(r)]
    groups, names = by_condition(runs), index(runs)
    found = [f(groups, names) for f in (claim_a, claim_b)]
    found += [claim_c(action, groups, names) for action in ("clip", "rate", "v_norm")] + [claim_d(groups, names)]
    found += [claim_e(word, groups, names) for word in ("output", "delta")]
    found += [f(groups, names) for f in (claim_f, claim_g)]
    found += [heads(groups), healthy(groups), leads(groups), smallest(groups)]
    return [dict(zip(("claim", "text", "evidence", "holds"), c)) for c in found]
