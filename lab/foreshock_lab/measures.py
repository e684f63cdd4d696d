"""What is measured of a finished run's summary, and against its healthy twin: the run of the same seed without a fault."""

import math
import statistics

RUNAWAY = 3.0  # times the healthy copy's largest qk_sigma1 at the same step
TRAINED = 1000  # steps: the least that a run without a fault must have to count
AFTER = 500  # steps with the fault: the least that a faulty one must have


def enough(run):
    """Whether a run, maybe cut short, went on for long enough to be judged."""
    return run["steps"] >= (TRAINED if run["onset"] is None else run["onset"] + AFTER)


def by_condition(runs):
    out = {}
    for run in runs:
        out.setdefault(run["condition"], []).append(run)
    return out


def index(runs):
    return {run["name"]: run for run in runs}


def as_number(x):
    return math.inf if x is None else x  # a summary's null is "not finite"


def twin(run, names):
    """The healthy run of the same seed, or None."""
    return names.get(f"healthy.{run['seed']}")


def runaway(run, names):
    """First step at which the largest qk_sigma1 is RUNAWAY times the healthy twin's at that step; None."""
    other = twin(run, names)
    if other is None:
        return None
    healthy = dict(zip(other["series"]["step"], other["series"]["qk_sigma1"]))
    for step, value in zip(run["series"]["step"], run["series"]["qk_sigma1"]):
        if step in healthy and step >= (run["onset"] or 0) and as_number(value) >= RUNAWAY * as_number(healthy[step]):
            return step
    return None


def growth(run, names, signal):
    """Largest over heads at the end against the twin's at the same step."""
    other = twin(run, names)
    if other is None:
        return math.nan
    healthy = dict(zip(other["series"]["step"], other["series"][signal]))
    steps = [s for s in run["series"]["step"] if s in healthy]
    mine = dict(zip(run["series"]["step"], run["series"][signal]))
    return as_number(mine[steps[-1]]) / as_number(healthy[steps[-1]]) if steps else math.nan


def price(run, names):
    """Loss over the last 200 steps less the twin's over the same steps."""
    other = twin(run, names)
    if other is None:
        return math.nan
    end = min(run["steps"], other["steps"])
    mean = lambda r: statistics.fmean(as_number(x) for s, x in zip(r["series"]["step"], r["series"]["loss"]) if end - 200 <= s < end)
    return mean(run) - mean(other)


CAUSES = ("rounding_bias", "delta_error")  # the rules that see an error itself, not what it does


def lead(run, without=()):
    """(collapse - first lasting critical) / (collapse - onset); None without a collapse, 0 without a critical in time. without: rules
    that do not count."""
    if run["collapse"] is None or run["onset"] is None:
        return None
    inside = [step for step, rule, *_ in run["lasting"] if run["onset"] <= step < run["collapse"] and rule not in without]
    return (run["collapse"] - min(inside)) / (run["collapse"] - run["onset"]) if inside else 0.0


def collapsed(runs):
    return sum(r["collapse"] is not None for r in runs)


def noise(groups, signal):
    """Largest magnitude of a cause's signal in any head and sample (from step 100 on) of the healthy runs."""
    return max((x for name, rs in groups.items() if name.startswith("healthy") for r in rs
                for s, x in zip(r["series"]["step"], r["series"][signal]) if s >= 100 and x is not None), default=math.nan)
