"""The way of the data: trainers, agents, ingest, rules, notifications, store."""

from grafana_foundation_sdk.builders import dashboard

from . import parts
from .parts import GREEN, RED, YELLOW

UID, TITLE = "foreshock-pipeline", "Foreshock / Pipeline"


def _rate(metric, by=""):
    inner = f"rate({metric}[$__rate_interval])"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def _rates(title, description, metrics, unit="ops"):
    """metrics: {metric: legend}"""
    return parts.lines(title, description,
                       [parts.query(_rate(metric), legend, ref=chr(ord("A") + i))
                        for i, (metric, legend) in enumerate(metrics.items())], unit=unit)


def _values(title, description, exprs, unit="none"):
    return parts.lines(title, description, [parts.query(expr, legend, ref=chr(ord("A") + i))
                                            for i, (expr, legend) in enumerate(exprs.items())], unit=unit)


def build(signals):
    board = parts.board(UID, TITLE, "Whether measurements arrive: agents, ingest, rules, notifications, store.")
    board.with_variable(parts.min_step_variable())
    for panel in (
            parts.number("Store", "1 while writes succeed", "min(foreshock_store_healthy)",
                         steps=((RED, None), (GREEN, 1))),
            parts.number("Streams", "agents and SDKs that are connected", "sum(foreshock_ingest_streams)"),
            parts.number("Values a second", "measurements made durable", _rate("foreshock_ingest_values_total"), "short"),
            parts.number("Waiting to be judged", "records behind which the alerts are",
                         "sum(foreshock_alert_queue_records)", steps=((GREEN, None), (YELLOW, 1000))),
            parts.number("Store's size", "on disk", "sum(foreshock_store_disk_bytes)", "bytes"),
            parts.number("Runs not shown", "beyond the limit of /metrics", "sum(foreshock_runs_left_out)",
                         steps=((GREEN, None), (YELLOW, 1)))):
        board.with_panel(panel)
    board.with_row(dashboard.Row("Ingest"))
    for panel in (
            _rates("Records", "made durable; again and left out", {
                "foreshock_ingest_records_total": "durable", "foreshock_ingest_duplicates_total": "again"}),
            _rates("Values", "measurements made durable", {"foreshock_ingest_values_total": "values"}),
            _rates("Bytes", "of the records", {"foreshock_ingest_bytes_total": "bytes"}, "Bps"),
            _rates("Trouble", "each of these wants a look", {
                "foreshock_ingest_quarantined_total": "put aside", "foreshock_ingest_unreadable_total": "unreadable",
                "foreshock_ingest_refused_hellos_total": "refused at Hello",
                "foreshock_ingest_failed_commits_total": "failed writes",
                "foreshock_ingest_overloads_total": "streams closed: disk too slow"}),
            _rates("Commits", "synced writes", {"foreshock_ingest_commits_total": "commits"}),
            _values("Queued", "bytes that wait for the disk", {"sum(foreshock_ingest_queued_bytes)": "queued"}, "bytes")):
        board.with_panel(panel)
    board.with_row(dashboard.Row("What is lost or late"))
    for panel in (
            parts.lines("Dropped records", "before they came, as the senders declared, by run",
                        [parts.query(_rate("foreshock_run_dropped_total", "run"), "{{run}}")], unit="ops"),
            parts.lines("Frames", "durable, by run", [parts.query(_rate("foreshock_run_frames_total", "run"), "{{run}}")],
                        unit="ops"),
            _values("Ranks", "steps that wait for their ranks", {"sum(foreshock_merge_pending)": "pending"}),
            _rates("Merging", "steps over their ranks", {
                "foreshock_merge_steps_total": "merged", "foreshock_merge_amended_total": "amended for a late rank",
                "foreshock_merge_incomplete_total": "without all ranks"})):
        board.with_panel(panel)
    board.with_row(dashboard.Row("Overhead in the trainers"))
    for panel in (
            parts.lines("Host time", "share of a step that Foreshock takes, by run (sampled steps)",
                        [parts.query("foreshock_probe_host_seconds / foreshock_step_seconds", "{{run}}")],
                        unit="percentunit", width=12),
            parts.lines("Sampling interval", "steps between two samples, as the governor set it",
                        [parts.query("foreshock_sampling_interval", "{{run}}")], width=12)):
        board.with_panel(panel)
    board.with_row(dashboard.Row("Rules and notifications"))
    for panel in (
            _rates("Judged", "steps that the rules have seen", {"foreshock_alert_steps_total": "steps"}),
            _rates("Alerts", "fired and resolved", {
                "foreshock_alerts_fired_total": "fired", "foreshock_alerts_resolved_total": "resolved"}),
            _rates("Notifications", "messages; only where a target is configured", {
                "foreshock_notify_sent_total": "delivered", "foreshock_notify_failed_total": "failed attempts",
                "foreshock_notify_given_up_total": "given up"})):
        board.with_panel(panel)
    board.with_row(dashboard.Row("Store"))
    for panel in (
            _values("Size", "on disk, and its write-ahead logs", {
                "sum(foreshock_store_disk_bytes)": "store", "sum(foreshock_store_wal_bytes)": "write-ahead logs"}, "bytes"),
            _values("Memory", "of the server, and what the store has of it", {
                "sum(process_resident_memory_bytes{job=~\"foreshock.*\"})": "server",
                "sum(foreshock_store_buffer_bytes)": "not in files yet",
                "sum(foreshock_store_cache_bytes)": "blocks read from files",
                "sum(foreshock_store_index_bytes)": "indexes of files"}, "bytes"),
            _rates("Appends", "records", {"foreshock_store_records_total": "records"}),
            parts.lines("Scrapes", "how long Prometheus takes to read /metrics",
                        [parts.query("max by (instance) (scrape_duration_seconds{job=~\"foreshock.*\"})", "{{instance}}")],
                        unit="s")):
        board.with_panel(panel)
    board.with_row(dashboard.Row("Agents' spools (node_exporter's textfile collector, deploy/prometheus)"))
    for panel in (
            parts.lines("Spool", "bytes on each node's disk that the server has not confirmed",
                        [parts.query("foreshock_agent_spool_bytes", "{{instance}}"),
                         parts.query("foreshock_agent_spool_limit_bytes", "limit {{instance}}", ref="B")], unit="bytes"),
            parts.lines("Pending", "sequence numbers not confirmed",
                        [parts.query("foreshock_agent_spool_pending", "{{instance}}")]),
            parts.lines("Connected", "1 while the way to the server stands; trainers that wait for the spool",
                        [parts.query("foreshock_agent_forward_connected", "connected {{instance}}"),
                         parts.query("foreshock_agent_receive_stalled", "stalled trainers {{instance}}", ref="B")])):
        board.with_panel(panel)
    return board
