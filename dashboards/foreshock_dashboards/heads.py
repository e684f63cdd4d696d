"""Layers x heads of one signal over time, and every head of a layer."""

from grafana_foundation_sdk.builders import dashboard

from . import parts

UID, TITLE = "foreshock-heads", "Foreshock / Heads"
NOTE = ("The panels below need a series a head: `metrics_per_head: true` in the server's configuration "
        "(`foreshockd --metrics-per-head`). It is off by default, because layers x heads x signals is more than many a "
        "Prometheus likes. Without it the map of layers above, the server's own page and `foreshock heads` show "
        "where to look.")


def build(signals):
    names = [s.name for s in signals if s.per_head]
    names.sort(key=lambda name: name != "qk_sigma1")  # the first is the default
    board = parts.board(UID, TITLE, "Which layer, which head: one signal over layers, heads and time.")
    board.with_variable(parts.query_variable("run", "Run", "label_values(foreshock_step, run)"))
    board.with_variable(parts.custom_variable("signal", "Signal", names))
    board.with_variable(parts.custom_variable("stat", "Over heads", ["max", "median", "min"]))
    board.with_variable(parts.query_variable(
        "layer", "Layer", 'label_values({__name__="foreshock_${signal}",run="$run"}, layer)', multi=True))
    board.with_variable(parts.min_step_variable())
    board.annotations(parts.alert_annotations("$run"))
    layers = '{__name__="foreshock_${signal}",run="$run",layer=~"$layer",stat="%s"}'
    heads = '{__name__="foreshock_${signal}_head",run="$run",layer=~"$layer"}'
    board.with_panel(parts.heat("$signal: layers over time", "the $stat over the heads of each layer",
                                [parts.query(layers % "$stat", "layer {{layer}}")]))
    board.with_panel(parts.lines("Largest head of each layer", "max over heads",
                                 [parts.query(layers % "max", "layer {{layer}}")], width=8))
    board.with_panel(parts.lines("Median head of each layer", "where the layer as a whole is",
                                 [parts.query(layers % "median", "layer {{layer}}")], width=8))
    board.with_panel(parts.lines(
        "Head that stands out", "its index: a line that stays on one head is a head that runs away",
        [parts.query('{__name__="foreshock_${signal}_worst_head",run="$run",layer=~"$layer"}', "layer {{layer}}")],
        width=8))
    board.with_row(dashboard.Row("Every head"))
    board.with_panel(parts.words("", NOTE))
    board.with_panel(parts.heat("$signal: layers x heads over time", "a row a head",
                                [parts.query(heads, "L{{layer}} H{{head}}")], height=14))
    board.with_panel(parts.lines("Every head", "of the layers chosen above",
                                 [parts.query(heads, "L{{layer}} H{{head}}")], width=12, height=10))
    board.with_panel(parts.rows_table(
        "Heads, largest first", "against the median head of the layer",
        [parts.query(f"max by (layer, head) ({heads})", ref="value", instant=True),
         parts.query(f"max by (layer, head) ({heads}) / on (layer) group_left () max by (layer) ({layers % 'median'})",
                     ref="relative", instant=True)],
        {"layer": "Layer", "head": "Head", "Value #value": "Value", "Value #relative": "Times the median head"},
        width=12, height=10, sort=("Value", True)))
    return board
