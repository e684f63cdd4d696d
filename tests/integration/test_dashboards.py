"""The Grafana dashboards: every panel's query is executed by a real Prometheus that scrapes a real server, with real runs,
and must find data; and they work provisioned from files as well as imported."""

import http.server
import importlib.machinery
import importlib.util
import json
import math
import re
import shutil
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import harness
from harness import BIN, SOURCE, until

FILES = sorted((SOURCE / "dashboards").glob("foreshock-*.json"))
RATE = re.compile(r"\b(?:rate|irate|increase|deriv)\(")
MIN_STEP_S = 2


def panels(board):
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels") or []
        else:
            yield panel


def targets(board):
    """(title, target) of every query, the annotations' too."""
    for panel in panels(board):
        for target in panel.get("targets") or []:
            yield panel["title"], target
    for annotation in board["annotations"].get("list", []):
        yield annotation["name"], {"expr": annotation["expr"], "range": True, "interval": "$min_step"}


class Files(unittest.TestCase):
    def setUp(self):
        self.boards = {path.stem: json.loads(path.read_text()) for path in FILES}

    def test_all_four_are_there(self):
        self.assertEqual(sorted(self.boards), [f"foreshock-{n}" for n in ("fleet", "heads", "pipeline", "run")])
        for name, board in self.boards.items():
            self.assertEqual(board["uid"], name, "file and uid agree, so that links between dashboards hold")

    def test_nothing_is_left_for_an_import_to_fill_in(self):
        for name, board in self.boards.items():
            text = json.dumps(board)
            self.assertNotIn("__inputs", text, name)
            self.assertNotIn("${DS_", text, name)
            self.assertIsNone(board.get("id"), name)
            variables = {v["name"]: v for v in board["templating"]["list"]}
            self.assertEqual((variables["datasource"]["type"], variables["datasource"]["query"]),
                             ("datasource", "prometheus"))
            used = [p["datasource"] for p in panels(board) if p["type"] != "text"]
            used += [t["datasource"] for p in panels(board) for t in p.get("targets") or []]
            used += [v["datasource"] for v in variables.values() if v["type"] == "query"]
            used += [a["datasource"] for a in board["annotations"].get("list", [])]
            for datasource in used:
                self.assertEqual(datasource, {"type": "prometheus", "uid": "${datasource}"}, name)

    def test_rates_and_steps_fit_long_scrape_intervals(self):
        for name, board in self.boards.items():
            self.assertIn("min_step", [v["name"] for v in board["templating"]["list"]], name)
            for title, target in targets(board):
                self.assertEqual(target["interval"], "$min_step", f"{name}: {title}")
                for call in RATE.finditer(target["expr"]):
                    window = re.search(r"\[([^\]]+)\]", target["expr"][call.end():])
                    self.assertEqual(window.group(1), "$__rate_interval", f"{name}: {title}")

    def test_ids_are_unique_and_panels_do_not_overlap(self):
        for name, board in self.boards.items():
            ids = [p["id"] for p in panels(board) if "id" in p]
            self.assertEqual(len(ids), len(set(ids)), name)
            taken = set()
            for panel in (p for p in board["panels"]):
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], 24, f"{name}: {panel['title']}")
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(taken & cells, f"{name}: {panel['title']} overlaps")
                taken |= cells

    def test_every_signal_of_the_catalogue_is_shown(self):
        text = subprocess.run([BIN / "foreshock", "catalogue", "--json"], check=True, capture_output=True).stdout
        run = json.dumps(self.boards["foreshock-run"])
        heads = next(v for v in self.boards["foreshock-heads"]["templating"]["list"] if v["name"] == "signal")["query"]
        for signal in json.loads(text)["signals"]:
            self.assertRegex(run, rf"\bforeshock_{signal['name']}\b", "run dashboard is not current: dashboards/generate")
            self.assertEqual(signal["name"] in heads.split(","), signal["per_head"], signal["name"])


class Textfile(http.server.BaseHTTPRequestHandler):
    """What node_exporter's textfile collector would serve."""
    render = None

    def do_GET(self):
        body = type(self).render().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):  # the webhook's end
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass


def textfile_module():
    path = SOURCE / "deploy" / "prometheus" / "foreshock-agent-textfile"
    loader = importlib.machinery.SourceFileLoader("agent_textfile", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("agent_textfile", loader))
    loader.exec_module(module)
    return module


class Live(harness.Case):
    def setUp(self):
        super().setUp()
        if shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed")
        handler = type("Handler", (Textfile,), {})
        side = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=side.serve_forever, daemon=True).start()
        self.addCleanup(side.server_close)
        self.addCleanup(side.shutdown)
        side_address = f"127.0.0.1:{side.server_address[1]}"
        self.daemon = self.server("server", None, "--metrics-per-head", "--webhook", f"http://{side_address}/hook")
        self.node = self.agent(self.daemon.grpc)
        textfile = textfile_module()
        handler.render = staticmethod(lambda: textfile.render([str(self.node.status)], time.time()))
        self.trainer("--foreshock", self.node.address, "--run", "gpt", "--steps", 1000000, "--quiet", name="gpt")
        # A learning rate that no run survives: something has to fire.
        self.trainer("--foreshock", self.node.address, "--run", "wild", "--steps", 1000000, "--quiet", "--lr", "1000",
                     "--warmup", "0", name="wild")
        self.prometheus = f"http://127.0.0.1:{self.start_prometheus(side_address)}"

    def start_prometheus(self, side_address):
        port = harness.free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: {MIN_STEP_S}s}}
scrape_configs:
  - job_name: foreshock
    static_configs: [{{targets: ['{self.daemon.http}']}}]
  - job_name: node
    static_configs: [{{targets: ['{side_address}']}}]
""")
        self.start("prometheus", ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                                  f"--web.listen-address=127.0.0.1:{port}"])
        return port

    def ask(self, expr, instant):
        now = time.time()
        words = {"query": expr}
        if not instant:
            words |= {"start": now - 60, "end": now, "step": MIN_STEP_S}
        url = f"{self.prometheus}/api/v1/query{'' if instant else '_range'}?" + urllib.parse.urlencode(words)
        try:
            with urllib.request.urlopen(url, timeout=30) as reply:
                return json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []  # it is starting
            raise AssertionError(f"{expr}: {error.read().decode()}") from None
        except OSError:
            return []  # it does not listen yet

    def finite(self, expr, instant):
        for series in self.ask(expr, instant):
            values = [series["value"]] if "value" in series else series["values"]
            if any(math.isfinite(float(v)) for _, v in values):
                return True
        return False

    def stored(self):
        """Signals that the run sends: what it does not measure no panel can show. Heads are measured at some steps only."""
        until(lambda: (self.run_of(self.daemon, "gpt") or {"last_step": 0})["last_step"] >= 40, "40 steps")
        found = set()
        for step in range(41):
            frame = self.get(self.daemon, f"/api/v1/runs/gpt/step/{step}")["frame"]
            found |= {s["signal"] for s in frame["series"]} | {n for n, v in frame["scalars"].items() if v is not None}
        return found

    def test_every_query_finds_data(self):
        until(lambda: self.finite('foreshock_qk_sigma1_head{run="gpt"}', True), "the run in Prometheus")
        until(lambda: self.ask('foreshock_rule_alerts_firing{run="wild",severity="critical"}', True), "a critical alert")
        until(lambda: self.finite("rate(foreshock_store_records_total[8s])", True), "two scrapes")
        stored = self.stored()
        names = {s["name"]: s for s in self.cli("catalogue", "--json")["signals"]}
        self.assertLessEqual({"loss", "grad_norm", "qk_sigma1", "logit_max", "update_sign_mean_1", "delta_error"}, stored)
        asked, excused = 0, set()
        for path in FILES:
            board = json.loads(path.read_text())
            for title, target in targets(board):
                chosen = [s for s in names if names[s]["per_head"] and s in stored]
                for signal in chosen if "${signal}" in target["expr"] else [None]:
                    expr = (target["expr"].replace("${signal}", str(signal)).replace("$run", "gpt").replace("$layer", ".*")
                            .replace("$stat", "max").replace("$__rate_interval", f"{4 * MIN_STEP_S}s"))
                    if "rule_alerts_firing" in expr:
                        expr = expr.replace("gpt", "wild")
                        if 'severity="warning"' in expr:
                            continue  # the same query as critical's; whether a warning fires is the rules' affair
                    self.assertNotIn("$", expr, title)
                    lacking = [n for n in names if re.search(rf"\bforeshock_{n}(_worst_head|_head)?\b", expr)
                               and n not in stored]
                    if lacking:
                        excused |= set(lacking)
                        continue
                    until(lambda: self.finite(expr, target.get("instant", False)), f"{path.stem}: {title}: {expr}", 30)
                    asked += 1
        print(f"{asked} queries; not sent by this trainer: {', '.join(sorted(excused)) or 'none'}")
        self.assertGreater(asked, 100)
        self.assertFalse(excused & {s for s in names if s in stored})


if __name__ == "__main__":
    harness.main()
