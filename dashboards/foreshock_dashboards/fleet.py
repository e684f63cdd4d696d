"""Fleet overview: which runs there are, how they are, what fires."""

from grafana_foundation_sdk.builders import dashboard

from . import parts
from .parts import GREEN, RED, YELLOW

UID, TITLE = "foreshock-fleet", "Foreshock / Fleet"
CRITICAL = 'foreshock_alerts_firing{severity="critical",run=~"$run"}'
WARNING = 'foreshock_alerts_firing{severity="warning",run=~"$run"}'
RUN_LINK = "/d/foreshock-run?var-run=${__data.fields.Run}&${datasource:queryparam}&${__url_time_range}"


def build(signals):
    board = parts.board(UID, TITLE, "All training runs that Foreshock watches: health, alerts, progress.")
    board.with_variable(parts.query_variable("run", "Run", "label_values(foreshock_step, run)", multi=True))
    board.with_variable(parts.min_step_variable())
    board.annotations(parts.alert_annotations("$run"))
    for panel in (
            parts.number("Runs", "runs that send", 'count(foreshock_step{run=~"$run"}) or vector(0)'),
            parts.number("Critical runs", "runs with a critical alert: act now", f"sum({CRITICAL} > bool 0)",
                         steps=((GREEN, None), (RED, 1))),
            parts.number("Runs with warnings", "runs with a warning: look", f"sum({WARNING} > bool 0)",
                         steps=((GREEN, None), (YELLOW, 1))),
            parts.number("Unmonitored runs", "runs of which something is not measured: no data is not health",
                         'count(count by (run) (foreshock_rule_alerts_firing{rule="unmonitored",run=~"$run"})) '
                         'or vector(0)', steps=((GREEN, None), (YELLOW, 1))),
            parts.number("Runs without progress", "runs whose step has not moved for 10 minutes",
                         'count(changes(foreshock_step{run=~"$run"}[10m]) == 0 '
                         'and (foreshock_step{run=~"$run"} offset 10m >= 0)) or vector(0)',
                         steps=((GREEN, None), (YELLOW, 1))),
            parts.number("Not shown", "runs that send but are beyond the server's limit of runs in /metrics",
                         "sum(foreshock_runs_left_out)", steps=((GREEN, None), (YELLOW, 1)))):
        board.with_panel(panel)
    board.with_panel(parts.rows_table(
        "Runs", "worst first; click a run to open it",
        [parts.query(CRITICAL.replace("foreshock_", "sum by (run) (foreshock_", 1) + ")", ref="critical", instant=True),
         parts.query(WARNING.replace("foreshock_", "sum by (run) (foreshock_", 1) + ")", ref="warning", instant=True),
         parts.query('sum by (run) (foreshock_step{run=~"$run"})', ref="step", instant=True),
         parts.query('sum by (run) (foreshock_loss{run=~"$run"})', ref="loss", instant=True),
         parts.query('max by (run) (foreshock_logit_max{run=~"$run",stat="max"})', ref="logit", instant=True),
         parts.query('sum by (run) (rate(foreshock_run_frames_total{run=~"$run"}[$__rate_interval]))', ref="speed",
                     instant=True)],
        {"run": "Run", "Value #critical": "Critical", "Value #warning": "Warnings", "Value #step": "Step",
         "Value #loss": "Loss", "Value #logit": "Largest logit", "Value #speed": "Frames/s"},
        sort=("Critical", True), links={"Run": RUN_LINK}))
    board.with_panel(parts.rows_table(
        "Firing alerts", "by rule; the run's page, and `foreshock alerts`, name layers, heads and evidence",
        [parts.query('sum by (run, rule, severity) (foreshock_rule_alerts_firing{run=~"$run"})', ref="firing",
                     instant=True)],
        {"severity": "Severity", "rule": "Rule", "run": "Run", "Value": "Alerts"}, width=12, height=9,
        links={"Run": RUN_LINK}))
    board.with_panel(parts.lines("Alerts that fire", "over all runs",
                                 [parts.query('sum by (severity) (foreshock_alerts_firing{run=~"$run"})',
                                              "{{severity}}")], width=12, height=9))
    board.with_panel(parts.lines("Loss", "training loss of each run",
                                 [parts.query('foreshock_loss{run=~"$run"}', "{{run}}")], width=12, height=9))
    board.with_panel(parts.lines("Largest logit", "largest attention score over all layers and heads of each run; high "
                                 "is not bad by itself: healthy runs pass through hundreds",
                                 [parts.query('max by (run) (foreshock_logit_max{run=~"$run",stat="max"})', "{{run}}")],
                                 width=12, height=9, log=True))
    return board
