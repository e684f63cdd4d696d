"""One run: the loss beside the signals that move before it, then every signal of the catalogue."""

from grafana_foundation_sdk.builders import dashboard

from . import catalogue, parts
from .parts import GREEN, RED, YELLOW

UID, TITLE = "foreshock-run", "Foreshock / Run"
# Beside the loss, in the order in which a collapse shows in them; each must be in the catalogue.
EARLY = ("update_sign_mean_1", "qk_sigma1", "logit_max", "saturated_row_fraction", "tied_row_fraction", "delta_error")
HEADS_LINK = "/d/foreshock-heads?var-run=${run}&var-signal=%s&var-layer=${__data.fields.Layer}&${datasource:queryparam}"


def _per_layer(signal, width=8):
    """The largest head of every layer, and where the bulk of the heads is."""
    layer = f'{signal.metric}{{run="$run",stat="max"}}'
    middle = f'{signal.metric}{{run="$run",stat="median"}}'
    return parts.lines(signal.name, signal.meaning + ": the largest head of each layer, and the median of the layers'"
                       " median heads",
                       [parts.query(layer, "layer {{layer}}"),
                        parts.query(f"quantile(0.5, {middle})", "median of all", ref="B")],
                       unit=signal.grafana_unit, width=width)


def _scalar(signal, width=8):
    return parts.lines(signal.name, signal.meaning, [parts.query(f'{signal.metric}{{run="$run"}}', signal.name)],
                       unit=signal.grafana_unit, width=width)


def _worst_heads(by_name):
    queries, columns = [], {"layer": "Layer"}
    for name in EARLY:
        metric = by_name[name].metric
        queries.append(parts.query(f'max by (layer) ({metric}{{run="$run",stat="max"}})', ref=name, instant=True))
        queries.append(parts.query(f'max by (layer) ({metric}_worst_head{{run="$run"}})', ref=f"{name}_head",
                                   instant=True))
        columns[f"Value #{name}"] = name
        columns[f"Value #{name}_head"] = f"{name}: head"
    return parts.rows_table("Worst head of each layer", "largest value of each layer and the head that stands out; "
                            "a head that is not a number counts as the worst", queries, columns,
                            links={"Layer": HEADS_LINK % EARLY[1]})


def build(signals):
    by_name = {s.name: s for s in signals}
    board = parts.board(UID, TITLE, "One training run: the loss beside the signals that move before it.")
    board.with_variable(parts.query_variable("run", "Run", "label_values(foreshock_step, run)"))
    board.with_variable(parts.min_step_variable())
    board.annotations(parts.alert_annotations("$run"))
    for panel in (
            parts.number("Step", "last optimizer step that came", 'foreshock_step{run="$run"}'),
            parts.number("Loss", "training loss of the last step", 'foreshock_loss{run="$run"}'),
            parts.number("Critical alerts", "act now", 'foreshock_alerts_firing{run="$run",severity="critical"}',
                         steps=((GREEN, None), (RED, 1))),
            parts.number("Warnings", "look", 'foreshock_alerts_firing{run="$run",severity="warning"}',
                         steps=((GREEN, None), (YELLOW, 1))),
            parts.number("Steps a second", "over the last scrapes", 'deriv(foreshock_step{run="$run"}[$__rate_interval])'),
            parts.number("Lost records", "records that the senders dropped",
                         'foreshock_run_dropped_total{run="$run"}', steps=((GREEN, None), (YELLOW, 1)))):
        board.with_panel(panel)
    board.with_row(dashboard.Row("The loss beside what moves before it"))
    board.with_panel(_scalar(by_name["loss"], width=12))
    board.with_panel(_scalar(by_name["grad_norm"], width=12))
    for name in EARLY:
        board.with_panel(_per_layer(by_name[name]))
    board.with_panel(_worst_heads(by_name))
    shown = {"loss", "grad_norm", *EARLY}
    for title, members in catalogue.groups(signals):
        rest = [s for s in members if s.name not in shown]
        if not rest:
            continue
        row = dashboard.Row(title).collapsed(True)
        for signal in rest:
            row.with_panel(_per_layer(signal) if signal.per_head else _scalar(signal))
        board.with_row(row)
    return board
