"""python -m foreshock_lab.train: trains copies side by side, each with its own rate, fault and action, and records them all.

    --copy NAME[,lr=1e-3][,seed=0][,fault=KIND:SIZE@STEP/LAYER.HEAD][,action=ACTION][,always_norm]

Actions where the guard triggers: qk_norm, v_norm (normalise q and k, or v, of that layer), clip (gradients at 0.1 instead of 1), rate (a
tenth of the learning rate). Actions from the fault's onset on: project, project_elsewhere (see projection.py). `always_norm`: q and k are
normalised from the first step on. seed: of the first weights and of the batches.
"""

import argparse
import dataclasses
import math
import pathlib
import time

import torch

from .batches import Batches
from .faults import Fault, Strengths
from .model import Shape, StackedAdamW, StackedGPT
from .projection import Projection
from .record import Recorder

TRIGGERED = ("qk_norm", "v_norm", "clip", "rate")  # by the guard's trigger
PROJECTING = ("project", "project_elsewhere")  # from the fault's onset on
ACTIONS = ("none", *TRIGGERED, *PROJECTING)


@dataclasses.dataclass
class Copy:
    name: str
    lr: float = 1e-3
    fault: Fault = Fault()
    action: str = "none"
    always_norm: bool = False
    seed: int = 0

    @staticmethod
    def parse(text):
        name, *rest = text.split(",")
        copy = Copy(name)
        for part in rest:
            key, _, value = part.partition("=")
            if key == "lr":
                copy.lr = float(value)
            elif key == "seed":
                copy.seed = int(value)
            elif key == "fault":
                copy.fault = Fault.parse(value)
            elif key == "action" and value in ACTIONS:
                copy.action = value
            elif key == "always_norm":
                copy.always_norm = True
            else:
                raise ValueError(f"copy {name}: '{part}', expected lr=, seed=, fault=, action= ({', '.join(ACTIONS)}), always_norm")
        return copy


def text_of(folders):
    """Bytes of all source and documentation files below the folders, in a fixed order."""
    kinds = {".py", ".md", ".cc", ".h", ".txt", ".proto", ".cu", ".cuh"}
    files = sorted(p for f in folders for p in pathlib.Path(f).rglob("*") if p.suffix in kinds and "build" not in p.parts)
    data = b"\n".join(p.read_bytes() for p in files)
    if len(data) < 10_000:
        raise ValueError(f"text: {len(data)} bytes below {', '.join(map(str, folders))}, at least 10000 are needed")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def schedule(step, steps, warm_up):
    """Warm-up, then cosine to a tenth."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.55 + 0.45 * math.cos(math.pi * (step - warm_up) / max(steps - warm_up, 1))


class Session:
    """A model of all copies in training. address_of(name): where a copy's record goes; None: nothing is recorded.

    horizon: steps of the learning rate's schedule; None: as many as are trained.
    """

    def __init__(self, copies, shape, data, size, device="cpu", dtype=torch.float32, address_of=None, every=20, row_every=8,
                 weight_decay=0.1, warm_up=100, horizon=None):
        self.copies, self.shape, self.device, self.dtype = copies, shape, device, dtype
        self._warm_up, self._horizon, self._tokens = warm_up, horizon, size * shape.context
        seeds = [c.seed for c in copies]
        self.model = StackedGPT(shape, seeds, device)
        self.optimizer = StackedAdamW(self.model.parameters(), [c.lr for c in copies], weight_decay=weight_decay)
        self.model.qk_norm.turn_on(torch.tensor([c.always_norm for c in copies]).expand(shape.layers, -1))
        self._batches = Batches(data, size, shape.context, seeds, device, [c.fault for c in copies])
        self.recorder = Recorder(self.model, [c.name for c in copies], address_of, weight_decay, every, row_every,
                                 [c.action in TRIGGERED for c in copies]) if address_of else None
        self._projection = self._make_projection()
        self._acts = {a: torch.tensor([c.action == a for c in copies]) for a in TRIGGERED}
        self._acted = torch.zeros(len(copies), dtype=torch.bool)
        self._strengths, self._on = None, None
        self._take_limits()
        torch.manual_seed(seeds[0])

    def _make_projection(self):
        rows = [r for r, c in enumerate(self.copies) if c.action in PROJECTING]
        return Projection(self.model, rows, [self.copies[r].fault.step for r in rows],
                          [self.copies[r].action == "project_elsewhere" for r in rows]) if rows else None

    def _faults(self, step):
        on = [step >= c.fault.step for c in self.copies]
        if on != self._on:
            self._on = on
            self._strengths = Strengths([c.fault for c in self.copies], self.shape.layers, self.shape.heads, step, self.device)
        return self._strengths

    def _act(self):
        """Switches what the guards ask for; from then on a copy counts as acted upon."""
        triggered = self.recorder.triggered()
        self.model.qk_norm.turn_on(triggered & self._acts["qk_norm"])
        self.model.v_norm.turn_on(triggered & self._acts["v_norm"])
        acted = self._acted | triggered.any(0)
        if not torch.equal(acted, self._acted):
            self._acted = acted
            self._take_limits()

    def _take_limits(self):
        """Each copy's clipping and rate, on the device; made anew only when a guard has triggered, because that waits."""
        clipped, slowed = ((self._acted & self._acts[a]).float() for a in ("clip", "rate"))
        self._rates = [c.lr * (0.1 if slow else 1.0) for c, slow in zip(self.copies, slowed.tolist())]
        self._clip_at = (1 - 0.9 * clipped).to(self.device)
        self.optimizer.rates = torch.tensor(self._rates, device=self.device)

    def step(self, step, steps):
        """One step of all copies; returns their losses, [copies], on the device. Waits for nothing."""
        if self.recorder is not None:
            self.recorder.begin()
            self._act()
        loss = self.model(*self._batches.at(step), self._faults(step), self.recorder.measure if self.recorder else None, self.dtype)
        loss.sum().backward()  # each copy's gradient is its own loss's
        norms = self.optimizer.clip(self._clip_at)
        factor = schedule(step, self._horizon or steps, self._warm_up)
        if self._projection is not None:
            self._projection.before(step)
        self.optimizer.step(factor)
        if self._projection is not None:
            self._projection.after(step)
        loss = loss.detach()
        if self.recorder is not None:
            self.recorder.end(loss, norms, [rate * factor for rate in self._rates], self._tokens)
        return loss

    def close(self):
        if self.recorder is not None:
            self.recorder.close()


def train(copies, shape, data, steps, size, say=None, until=None, check_every=20, **options):
    """Trains; returns (losses [steps done, copies], model). until: a time.monotonic() after which no further step begins, looked at every
    `check_every` steps. say(step, losses): called as often. Options: those of Session."""
    session, losses = Session(copies, shape, data, size, **options), []
    for step in range(steps):
        losses.append(session.step(step, steps))
        if step % check_every == 0 and (say is not None or until is not None):
            now = losses[-1].cpu()  # waits
            if say is not None:
                say(step, now)
            if until is not None and time.monotonic() >= until:
                break
    session.close()
    return torch.stack(losses).cpu(), session.model


def main():
    parser = argparse.ArgumentParser("foreshock_lab.train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", action="append", required=True)
    for name, kind, default in (("layers", int, 4), ("heads", int, 4), ("head-dim", int, 64), ("context", int, 256),
                                ("batch", int, 16), ("steps", int, 6000), ("every", int, 20),
                                ("row-every", int, 8), ("warm-up", int, 100)):
        parser.add_argument("--" + name, type=kind, default=default)
    parser.add_argument("--text", action="append", default=[], help="folders of text; default: the current one")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the recordings, NAME.jsonl each")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    options = parser.parse_args()
    copies = [Copy.parse(text) for text in options.copy]
    shape = Shape(len(copies), options.layers, options.heads, options.head_dim, options.context)
    options.out.mkdir(parents=True, exist_ok=True)
    train(copies, shape, text_of(options.text or ["."]), options.steps, options.batch, device=options.device,
          dtype=getattr(torch, options.dtype), address_of=lambda name: f"file:{options.out}/{name}.jsonl", every=options.every,
          row_every=options.row_every, warm_up=options.warm_up, check_every=100,
          say=lambda step, loss: print(step, *(f"{x:.3f}" for x in loss.tolist()), flush=True))


if __name__ == "__main__":
    main()
