"""One self-contained page: small charts of loss and of the largest qk_sigma1 by condition, and the claims. No script, nothing loaded."""

import html
import math

from .measures import by_condition, enough
from .table import WORDS

WIDTH, HEIGHT, LEFT, BOTTOM = 250, 120, 34, 16
POINTS = 40  # a curve, at least
COLOURS = ("#1b6ca8", "#c0532b", "#3a7d44", "#7b4fa3", "#8a6d1a")
STYLE = """body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1080px;color:#1a1a1a;background:#fff}
table{border-collapse:collapse}td,th{padding:.3rem .6rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(500px,1fr));gap:1rem}figure{margin:0}figcaption{font-weight:600}
svg text{font-size:9px;fill:#555}.yes{color:#27633a}.no{color:#a3341a}"""


def _path(steps, values, x, y):
    out, pen, every = [], False, max(len(steps) // POINTS, 1)
    for step, value in zip(steps[::every], values[::every]):
        if value is None or not math.isfinite(value) or value <= 0:
            pen = False
            continue
        out.append(f"{'L' if pen else 'M'}{x(step):.1f} {y(value):.1f}")
        pen = True
    return "".join(out)


def _chart(runs, signal, low, high, log, last):
    x = lambda step: LEFT + (WIDTH - LEFT - 4) * step / max(last, 1)
    scale = math.log if log else float
    span = scale(high) - scale(low) or 1
    y = lambda v: 4 + (HEIGHT - BOTTOM - 4) * (1 - (scale(min(max(v, low), high)) - scale(low)) / span)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{signal}">',
             f'<path d="M{LEFT} 4V{HEIGHT - BOTTOM}H{WIDTH - 4}" fill="none" stroke="#999"/>']
    for value in (low, high):
        parts.append(f'<text x="{LEFT - 3}" y="{y(value) + 3:.0f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end">{signal}, to step {last}</text>')
    onset = next((r["onset"] for r in runs if r["onset"]), None)
    if onset:
        parts.append(f'<path d="M{x(onset):.1f} 4V{HEIGHT - BOTTOM}" stroke="#bbb" stroke-dasharray="3 2"/>')
    for i, run in enumerate(runs):
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<path d="{_path(run["series"]["step"], run["series"][signal], x, y)}" fill="none" stroke="{colour}"/>')
        for step, mark in ((run["first_critical"], "#c00"), (run["collapse"], "#000")):
            if step is not None:
                parts.append(f'<circle cx="{x(step):.1f}" cy="{HEIGHT - BOTTOM}" r="2.5" fill="{mark}"/>')
    return "".join(parts) + "</svg>"


def page(runs, claims):
    runs = [r for r in runs if enough(r)]
    groups = by_condition(runs)
    last = max((r["steps"] for r in runs), default=1)
    sigma = [v for r in runs for v in r["series"]["qk_sigma1"] if v is not None and v > 0]
    rows = "".join(
        f'<tr><td>{html.escape(c["claim"])}</td><td>{html.escape(c["text"])}</td>'
        f'<td class="{ {True: "yes", False: "no"}.get(c["holds"], "") }">{WORDS[c["holds"]]}</td>'
        f'<td>{html.escape(c["evidence"])}</td></tr>' for c in claims)
    figures = "".join(
        f"<figure><figcaption>{html.escape(name)}</figcaption>{_chart(rs, 'loss', 0.5, 6, False, last)}"
        f"{_chart(rs, 'qk_sigma1', min(sigma, default=0.1), max(sigma, default=1), True, last)}</figure>" for name, rs in groups.items())
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Foreshock: the claims</title><style>{STYLE}</style>'
            f"<h1>The claims, run by run</h1><p>{len(runs)} runs. A line a seed; the dashed line is the fault's onset, red dots are first "
            f"criticals, black dots collapses. qk_sigma1 is the largest over heads, on a logarithmic axis.</p><table><tr><th></th><th>claim"
            f"</th><th>verdict</th><th>evidence</th></tr>{rows}</table><h2>Conditions</h2><div class='grid'>{figures}</div></html>")
