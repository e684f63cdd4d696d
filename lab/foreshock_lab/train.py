"""python -m foreshock_lab.train: trains copies side by side, each with its own rate, fault and action, and records them all.

    --copy NAME[,lr=1e-3][,fault=KIND:SIZE@STEP/LAYER.HEAD][,action=none|qk_norm|clip|rate][,always_norm]

action: what to do where the guard triggers: normalise q and k of that layer, clip gradients at 0.1 instead of 1, or take a tenth of the
learning rate. `always_norm`: normalised from the first step.
"""

import argparse
import dataclasses
import math
import pathlib

import torch

from .faults import Fault, Strengths
from .model import Shape, StackedAdamW, StackedGPT
from .record import Recorder

ACTIONS = ("none", "qk_norm", "clip", "rate")


@dataclasses.dataclass
class Copy:
    name: str
    lr: float = 1e-3
    fault: Fault = Fault()
    action: str = "none"
    always_norm: bool = False

    @staticmethod
    def parse(text):
        name, *rest = text.split(",")
        copy = Copy(name)
        for part in rest:
            key, _, value = part.partition("=")
            if key == "lr":
                copy.lr = float(value)
            elif key == "fault":
                copy.fault = Fault.parse(value)
            elif key == "action" and value in ACTIONS:
                copy.action = value
            elif key == "always_norm":
                copy.always_norm = True
            else:
                raise ValueError(f"copy {name}: '{part}', expected lr=, fault=, action= ({', '.join(ACTIONS)}), always_norm")
        return copy


def text_of(folders):
    """Bytes of all source and documentation files below the folders, in a fixed order."""
    kinds = {".py", ".md", ".cc", ".h", ".txt", ".proto", ".cu", ".cuh"}
    files = sorted(p for f in folders for p in pathlib.Path(f).rglob("*") if p.suffix in kinds and "build" not in p.parts)
    data = b"\n".join(p.read_bytes() for p in files)
    if len(data) < 10_000:
        raise ValueError(f"text: {len(data)} bytes below {', '.join(map(str, folders))}, at least 10000 are needed")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def batch(data, size, length, seed, step, device):
    """The same for all copies; depends on seed and step alone."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(data) - length - 1, (size,), generator=generator)
    rows = torch.stack([data[s: s + length + 1] for s in starts.tolist()]).long().to(device)
    return rows[:, :-1], rows[:, 1:]


def schedule(step, steps, warm_up):
    """Warm-up, then cosine to a tenth."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.55 + 0.45 * math.cos(math.pi * (step - warm_up) / max(steps - warm_up, 1))


def train(copies, shape, data, steps, size, seed=0, device="cpu", dtype=torch.float32, address_of=None, every=20, row_every=8,
          weight_decay=0.1, warm_up=100, say=None):
    """Trains; returns (losses [steps, copies], model). address_of(name): where a copy's record goes; None: nothing is recorded."""
    model = StackedGPT(shape, seed, device)
    optimizer = StackedAdamW(model.parameters(), [c.lr for c in copies], weight_decay=weight_decay)
    model.normalise[:, [c.always_norm for c in copies]] = True
    recorder = Recorder(model, [c.name for c in copies], address_of, weight_decay, every, row_every,
                        [c.action != "none" for c in copies]) if address_of else None
    faults, losses = [c.fault for c in copies], []
    acted = torch.zeros(len(copies), dtype=torch.bool)
    torch.manual_seed(seed)
    for step in range(steps):
        if recorder is not None:
            recorder.begin()
            acted = _act(recorder.triggered(), copies, model, acted)
        strengths = Strengths(faults, shape.layers, shape.heads, step, device)
        loss = model(*batch(data, size, shape.context, seed, step, device), strengths,
                     recorder.measure if recorder is not None else None, dtype)
        loss.sum().backward()  # each copy's gradient is its own loss's
        norms = optimizer.clip(torch.tensor([0.1 if a and c.action == "clip" else 1.0 for a, c in zip(acted, copies)]))
        factor = schedule(step, steps, warm_up)
        rates = [c.lr * (0.1 if a and c.action == "rate" else 1.0) for a, c in zip(acted, copies)]
        optimizer.rates = torch.tensor(rates)
        optimizer.step(factor)
        losses.append(loss.detach().cpu())
        if recorder is not None:
            recorder.end(losses[-1], norms.cpu(), [rate * factor for rate in rates], size * shape.context)
        if say is not None:
            say(step, losses[-1])
    if recorder is not None:
        recorder.close()
    return torch.stack(losses), model


def _act(triggered, copies, model, acted):
    """Copies whose guard has triggered; normalises where that is a copy's action."""
    chosen = torch.tensor([c.action == "qk_norm" for c in copies])
    model.normalise |= (triggered & chosen).to(model.normalise.device)
    return acted | triggered.any(0)


def main():
    parser = argparse.ArgumentParser("foreshock_lab.train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", action="append", required=True)
    for name, kind, default in (("layers", int, 4), ("heads", int, 4), ("head-dim", int, 64), ("context", int, 256),
                                ("batch", int, 16), ("steps", int, 6000), ("seed", int, 0), ("every", int, 20),
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
    train(copies, shape, text_of(options.text or ["."]), options.steps, options.batch, options.seed, options.device,
          getattr(torch, options.dtype), lambda name: f"file:{options.out}/{name}.jsonl", options.every, options.row_every,
          warm_up=options.warm_up, say=lambda step, loss: step % 100 or print(step, *(f"{x:.3f}" for x in loss.tolist())))


if __name__ == "__main__":
    main()
