"""Weights & Biases: Foreshock's alerts and the worst head's signals in the user's own run.

    bridge = foreshock.wandb.Bridge(run="gpt-7", server="http://127.0.0.1:7070")   # while wandb.run is active
    ...
    bridge.close()

A thread asks the server; the trainer waits for nothing. What the server does not answer is asked for again later. Signals go into the row that
the trainer logs next (commit=False): a row of their own would move wandb's step, and rows that the trainer logs with a step= behind it are
dropped. The callbacks for Transformers and Lightning and the logger for torchtitan make a bridge by themselves (Follower).
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse

from . import _http

SIGNALS = ("logit_max", "qk_sigma1", "wq_sigma1", "tied_row_fraction", "saturated_row_fraction", "output_rounding_bias",
           "delta_error", "entropy_mean")
SERVER = "http://127.0.0.1:7070"
CLOSE_S = 5.0  # the longest that a training's end waits for the last round


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


def token_of_environment():
    """FORESHOCK_TOKEN, else the first line of the file that FORESHOCK_TOKEN_FILE names, else None."""
    if token := os.environ.get("FORESHOCK_TOKEN"):
        return token
    try:
        with open(os.environ.get("FORESHOCK_TOKEN_FILE", ""), encoding="utf-8") as file:
            return file.readline().strip() or None
    except OSError:
        return None


class Bridge:
    """Copies alerts (run.alert) and signals (run.log, against foreshock/step) of one run every `period_s` seconds.

    `wandb_run`: None takes wandb.run. ValueError when none is active, or when `token` would
    travel unencrypted to another machine. `answered`: the server has answered once.
    """

    def __init__(self, run, server=SERVER, wandb_run=None, period_s=10.0, token=None):
        import wandb

        self._wandb, self._to, self.answered = wandb, wandb_run or wandb.run, False
        if self._to is None:
            raise ValueError("no wandb run is active: call wandb.init() first")
        _http.check_token(server, token)
        self._base = f"{server}/api/v1/runs/{urllib.parse.quote(run, safe='')}"
        self._token, self._seen, self._step = token, set(), -1
        self._began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())  # compares with fired_at
        self._to.define_metric("foreshock/step")
        self._to.define_metric("foreshock/*", step_metric="foreshock/step")
        self._end, self._lock, self._server = threading.Event(), threading.Lock(), server
        # Nothing goes to wandb any more; the last round was whole; the thread has ended by an error, and said so. Guarded by _lock.
        self._over = self._whole = self._failed = False
        self._thread = threading.Thread(target=self._loop, args=(period_s,), daemon=True, name="foreshock-wandb")
        self._thread.start()

    def _get(self, path):
        with _http.get(self._base + path, self._token, timeout=5) as reply:
            return json.load(reply)

    def poll(self):
        """One round. False when the server did not answer."""
        try:
            alerts = self._get("/alerts").get("alerts", [])
            last = self._get("/step/last?" + urllib.parse.urlencode([("signal", s) for s in SIGNALS]))
        except (urllib.error.URLError, OSError, ValueError):
            return False
        with self._lock:
            return not self._over and self._give(alerts, last)

    def _give(self, alerts, last):
        for alert in reversed(alerts):
            if self._over:
                return False
            key = (alert.get("id"), alert.get("state"), alert.get("severity"))
            # Of a run that is resumed: what was over before this bridge is no news.
            over = not self.answered and alert.get("state") == "resolved" and alert.get("fired_at", "") < self._began
            if key not in self._seen:
                self._seen.add(key)
                if not over:
                    self._tell(alert)
        self.answered = True
        frame = last.get("frame", {})
        step = frame.get("step", last.get("step", -1))
        if step > self._step:
            self._step = step
            self._to.log({"foreshock/step": step, **worst(frame.get("series", []))}, commit=False)
        return True

    def _tell(self, alert):
        level = {"critical": self._wandb.AlertLevel.ERROR, "warning": self._wandb.AlertLevel.WARN}.get(
            alert.get("severity"), self._wandb.AlertLevel.INFO)
        self._to.alert(title=f"foreshock: {alert.get('rule')} {alert.get('state')}", text=alert.get("summary", ""),
                       level=level, wait_duration=0)

    def _loop(self, period_s):
        ended = False
        while not ended:
            ended = self._end.wait(period_s)
            try:
                whole = self.poll()
                with self._lock:
                    self._whole = ended and whole
            except Exception as error:  # noqa: BLE001: the wandb run may have ended
                print(f"foreshock: wandb: {type(error).__name__}: {error}; no more signals there", file=sys.stderr)
                with self._lock:
                    self._failed = True
                return

    def close(self, timeout_s=CLOSE_S):
        """A last round; what it does not bring within `timeout_s` seconds is left out, and said so. False then."""
        until = time.monotonic() + timeout_s
        self._end.set()
        self._thread.join(timeout_s)
        # A round holds the lock while it gives wandb what it has; wandb may hang.
        held = self._lock.acquire(timeout=max(until - time.monotonic(), 0.1))
        self._over, whole, failed = True, self._whole, self._failed
        if not held:
            print(f"foreshock: wandb: the wandb run took nothing more within {timeout_s:g} s: what came after step {self._step} may not be in it",
                  file=sys.stderr)
            return False
        self._lock.release()
        if whole or failed:
            return whole
        since = f"what came after step {self._step} is not" if self.answered else "no signals"
        print(f"foreshock: wandb: {self._server} did not answer{f' within {timeout_s:g} s' if self._thread.is_alive() else ''}: {since} in the "
              "wandb run; FORESHOCK_HTTP, wandb_server= or server= names the server", file=sys.stderr)
        return False


class Follower:
    """A bridge by itself: made when a wandb run is open, on the rank that has it. What callbacks hold; nothing in here raises.

    `server`: the server's HTTP address; None: FORESHOCK_HTTP, else http://127.0.0.1:7070; False: no bridge. The environment's token goes to
    a server that was named, and not to whoever listens on that port.
    """

    def __init__(self, server=None):
        self.bridge, self.off = None, server is False
        named = server or os.environ.get("FORESHOCK_HTTP")
        self.server, self._trusted = named or SERVER, bool(named)

    def look(self, monitor):
        """Has the trainer opened a wandb run by now? At the training's begin and after each step: a dictionary is asked, no more."""
        if self.off or self.bridge is not None:
            return
        run = getattr(sys.modules.get("wandb"), "run", None)
        if run is None:
            return
        try:
            if monitor.closed or not monitor.has_server or monitor.rank != 0:
                self.off = True
                return
            self.bridge = Bridge(monitor.run, self.server, run, token=token_of_environment() if self._trusted else None)
        except Exception as error:  # noqa: BLE001: training goes on whatever happens here
            self._end(f"{type(error).__name__}: {error}")

    def close(self):
        """After the monitor's: what the server has by now. A server that does not answer is named; never has, not asked again."""
        bridge, self.bridge = self.bridge, None
        if bridge is None:
            return
        try:
            bridge.close()
            self.off = self.off or not bridge.answered
        except Exception as error:  # noqa: BLE001: so as above
            self._end(f"{type(error).__name__}: {error}")

    def _end(self, reason):
        self.off = True
        print(f"foreshock: wandb: {reason}", file=sys.stderr)
