"""Weights & Biases: Foreshock's alerts and the worst head's signals in the user's own run.

    bridge = foreshock.wandb.Bridge(run="gpt-7", server="http://127.0.0.1:7070")   # while wandb.run is active
    ...
    bridge.close()

A thread asks the server; the trainer waits for nothing. What the server does not answer is asked for again later.
"""

import json
import threading
import urllib.error
import urllib.parse
import urllib.request

SIGNALS = ("logit_max", "qk_sigma1", "wq_sigma1", "tied_row_fraction", "saturated_row_fraction", "output_rounding_bias",
           "delta_error", "entropy_mean")


def _value(v):
    v = v.get("value") if isinstance(v, dict) else v
    return float(v.replace("Infinity", "inf")) if isinstance(v, str) else v


def worst(series):
    """{"foreshock/SIGNAL": the value of largest size over all layers and heads} of a step's reply."""
    out = {}
    for s in series:
        if s["signal"] not in SIGNALS:
            continue
        for v in map(_value, s["values"]):
            name = "foreshock/" + s["signal"]
            if v is not None and (name not in out or not abs(v) <= abs(out[name])):
                out[name] = v
    return out


class Bridge:
    """Copies alerts (run.alert) and signals (run.log, against foreshock/step) of one run every `period_s` seconds.

    `wandb_run`: None takes wandb.run. ValueError when none is active.
    """

    def __init__(self, run, server="http://127.0.0.1:7070", wandb_run=None, period_s=10.0, token=None):
        import wandb

        self._wandb, self._to = wandb, wandb_run or wandb.run
        if self._to is None:
            raise ValueError("no wandb run is active: call wandb.init() first")
        self._base = f"{server}/api/v1/runs/{urllib.parse.quote(run, safe='')}"
        self._token, self._seen, self._step = token, set(), -1
        self._to.define_metric("foreshock/step")
        self._to.define_metric("foreshock/*", step_metric="foreshock/step")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, args=(period_s,), daemon=True, name="foreshock-wandb")
        self._thread.start()

    def _get(self, path):
        request = urllib.request.Request(self._base + path)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def poll(self):
        """One round. False when the server did not answer."""
        try:
            alerts = self._get("/alerts").get("alerts", [])
            last = self._get("/step/last?" + urllib.parse.urlencode([("signal", s) for s in SIGNALS]))
        except (urllib.error.URLError, OSError, ValueError):
            return False
        for alert in reversed(alerts):
            key = (alert.get("id"), alert.get("state"), alert.get("severity"))
            if key not in self._seen:
                self._seen.add(key)
                self._tell(alert)
        frame = last.get("frame", {})
        step = frame.get("step", last.get("step", -1))
        if step > self._step:
            self._step = step
            self._to.log({"foreshock/step": step, **worst(frame.get("series", []))})
        return True

    def _tell(self, alert):
        level = {"critical": self._wandb.AlertLevel.ERROR, "warning": self._wandb.AlertLevel.WARN}.get(
            alert.get("severity"), self._wandb.AlertLevel.INFO)
        self._to.alert(title=f"foreshock: {alert.get('rule')} {alert.get('state')}", text=alert.get("summary", ""),
                       level=level, wait_duration=0)

    def _loop(self, period_s):
        while not self._end.wait(period_s):
            self.poll()

    def close(self):
        """A last round, then the thread ends."""
        self._end.set()
        self._thread.join(30)
        self.poll()
