"""The signal catalogue, as `foreshock catalogue --json` prints it."""

import dataclasses
import json
import subprocess


@dataclasses.dataclass(frozen=True)
class Signal:
    id: int
    name: str
    unit: str
    per_head: bool
    meaning: str

    @property
    def metric(self):
        return f"foreshock_{self.name}"

    @property
    def grafana_unit(self):
        """What Grafana calls the unit; pure numbers and units of Foreshock's own have none there."""
        return {"s": "s", "tokens": "short", "nat": "none", "ulp": "none", "steps": "none"}.get(self.unit, "none")


# Ids come in families (base/catalogue); what a new family holds shows under "Other" by itself.
GROUPS = (
    ("Every step", range(1, 32)),
    ("Weights: spectra", range(32, 41)),
    ("Weights: growth along the leading directions", range(41, 64)),
    ("Attention", range(96, 128)),
    ("Rounding", range(128, 160)),
)


def load(program):
    """All signals by rising id, from the `foreshock` program."""
    text = subprocess.run([program, "catalogue", "--json"], check=True, capture_output=True, text=True).stdout
    return parse(text)


def parse(text):
    entries = json.loads(text)["signals"]
    signals = [Signal(e["id"], e["name"], e["unit"], e["per_head"], e["meaning"]) for e in entries]
    return sorted(signals, key=lambda s: s.id)


def groups(signals):
    """(title, signals) for every group that has any; every signal is in exactly one."""
    rest = list(signals)
    found = []
    for title, ids in GROUPS:
        members = [s for s in rest if s.id in ids]
        rest = [s for s in rest if s.id not in ids]
        if members:
            found.append((title, members))
    if rest:
        found.append(("Other", rest))
    return found
