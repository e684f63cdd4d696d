"""Claims and conditions as Markdown."""

from .measures import as_number, by_condition, enough, index, lead, price, runaway
from .verdicts import mean

WORDS = {True: "holds", False: "does not hold", None: "not judged"}


def _row(name, runs, names):
    falls = [r["collapse"] for r in runs if r["collapse"] is not None]
    away = [runaway(r, names) for r in runs]
    values = [v for v in map(lead, runs) if v is not None]
    show = lambda xs: ", ".join(map(str, sorted(x for x in xs if x is not None))) or "-"
    return (f"| {name} | {len(runs)} | {min(r['steps'] for r in runs)} | {len(falls)} | {show(falls)} | {show(away)} | "
            f"{mean([r['final_loss'] for r in runs], 2)} | {mean([price(r, names) for r in runs])} | "
            f"{max(max(as_number(x) for x in r['series']['logit_max']) for r in runs):.0f} | {show(r['guard_on'] for r in runs)} | "
            f"{show(r['first_critical'] for r in runs)} | {', '.join(f'{v:.2f}' for v in sorted(values)) or '-'} |")


def markdown(runs, found):
    groups, names = by_condition(runs), index(runs)
    lines = ["| | claim | verdict | evidence (95 % intervals) |", "|---|---|---|---|"]
    lines += [f"| {c['claim']} | {c['text']} | {WORDS[c['holds']]} | {c['evidence']} |" for c in found]
    lines += ["", "| condition | runs | steps | collapsed | at | QK runaway at | loss of the last 200 steps | less the healthy twin's | "
              "largest logit | guard on at | first critical | lead |", "|" + "---|" * 12]
    lines += [_row(name, [r for r in rs if enough(r)], names) for name, rs in groups.items() if any(map(enough, rs))]
    short = sum(not enough(r) for r in runs)
    if short:
        lines += ["", f"{short} runs were cut short and are left out."]
    return "\n".join(lines) + "\n"
