"""What became of one run: read from its recording and from what `foreshock replay` says about it."""

import json
import math
import subprocess

from .faults import BATCH

SAMPLE_SHARE = 0.1  # of the new sample in the smoothed loss
COLLAPSE = 0.5  # nat above the minimum, for good
LEARNED = 3.0  # nat: a smoothed loss below this has learned

HIGHEST = ("logit_max", "wq_sigma1", "qk_sigma1")  # kept as the largest over heads
CAUSES = ("output_rounding_bias", "delta_output_bias", "delta_error")  # kept as the largest magnitude over heads


def number(x):
    """A recording's number; NaN where it is missing."""
    return float("nan") if x is None else float(x)


def _largest(table):
    """Largest magnitude of [layer][head], not finite first; NaN when nothing is there."""
    values = [abs(number(x)) for row in table or () for x in row if x is not None]
    return max(values, key=lambda v: math.inf if math.isnan(v) else v, default=math.nan)


def read(path):
    """(samples, events, frames lost): lines of the recording with per-head signals, each with `loss` averaged since the last one; its
    events; steps that are missing before the last one."""
    samples, events, losses, frames, last = [], [], [], 0, -1
    with open(path) as lines:
        for text in lines:
            line = json.loads(text)
            if "event" in line:
                events.append(line)
            elif "step" in line:
                frames, last = frames + 1, line["step"]
                losses.append(number(line.get("loss")))
                if "wq_sigma1" in line:
                    line["loss_mean"] = sum(losses) / len(losses)
                    samples.append(line)
                    losses = []
    return samples, events, last + 1 - frames


def _smoothed(losses):
    smooth = None
    for loss in losses:
        smooth = loss if smooth is None else smooth + SAMPLE_SHARE * (loss - smooth)
        yield smooth


def collapse_step(steps, losses, other_data_from=None):
    """Step from which on the smoothed loss stays more than COLLAPSE above its minimum to the end, having learned; None.

    other_data_from: step of the first loss of other data, which has a minimum of its own; what was learned before counts. A sample's loss is the
    mean of all steps since the last sample, so the first one that is of other data alone follows a sample at that step or later.
    """
    before = [-1, *steps]
    first = next((i for i in range(len(steps)) if before[i] >= other_data_from - 1), len(steps)) if other_data_from is not None else 0
    learned, lowest, since = min(_smoothed(losses[:first]), default=math.inf) < LEARNED, math.inf, None
    for step, value in zip(steps[first:], _smoothed(losses[first:])):
        if not value - lowest > COLLAPSE and not math.isnan(value):
            lowest, since = min(lowest, value), None
        elif learned or lowest < LEARNED:
            since = step if since is None else since
    return since


def replay(program, path):
    """The rules' events over a recording, in order. RuntimeError with the program's last words when it fails."""
    done = subprocess.run([program, "replay", str(path), "--json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"replay of {path} failed with {done.returncode}: {done.stderr.strip()[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


def lasting(events, until, severity="critical"):
    """[[step, rule, layer, head]] of alerts of this severity that still fire just before step `until`, the earliest first."""
    since = {}
    for e in events:
        if e["severity"] == severity and e["step"] < until:
            key = (e["rule"], e.get("layer"), e.get("head"))
            if e["event"] == "firing":
                since.setdefault(key, e["step"])
            else:
                since.pop(key, None)
    return sorted(([step, *key] for key, step in since.items()), key=lambda x: x[0])


def first(events, severity):
    return min((e["step"] for e in events if e["event"] == "firing" and e["severity"] == severity), default=None)


def summary(copy, condition, path, program):
    """Everything that tables and pictures need of a run, as plain data."""
    samples, events, lost = read(path)
    alerts = replay(program, path)
    steps = [s["step"] for s in samples]
    series = {"step": steps, "loss": [s["loss_mean"] for s in samples]}
    for name in HIGHEST + CAUSES:
        series[name] = [_largest(s.get(name)) for s in samples]
    switched = [e for e in events if e["event"] == "guard"]
    tail = [s["loss_mean"] for s in samples if s["step"] > steps[-1] - 200]
    fault = copy.fault
    fell = collapse_step(steps, series["loss"], fault.step if fault.kind in BATCH else None)
    out = {
        "name": copy.name, "condition": condition, "seed": copy.seed, "lr": copy.lr, "action": copy.action,
        "always_norm": copy.always_norm, "fault": fault.kind, "size": fault.size, "last": fault.last,
        "onset": fault.step if fault.kind != "none" else None, "layer": fault.layer, "head": fault.head,
        "steps": steps[-1] + 1, "lost_frames": lost, "final_loss": sum(tail) / len(tail),
        "collapse": fell, "guard_on": min((e["step"] for e in switched), default=None),
        "first_warning": first(alerts, "warning"), "first_critical": first(alerts, "critical"),
        "lasting": lasting(alerts, math.inf if fell is None else fell), "rules": sorted({e["rule"] for e in alerts if e["severity"] == "critical"}),
        "series": {k: [round(x, 6) if math.isfinite(x) else None for x in v] for k, v in series.items()},
    }
    if fault.kind != "none":  # the first three samples with the fault, every head: what the cause's signals see
        out["after_onset"] = {name: [s.get(name) for s in samples if s["step"] >= fault.step][:3] for name in CAUSES}
    return out
