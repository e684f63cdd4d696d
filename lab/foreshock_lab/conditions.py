"""The runs behind the table of claims: what is trained, with how many seeds, in which order."""

import dataclasses

from .faults import Fault
from .train import Copy

SEEDS = (0, 1, 2)
OUTPUT, DELTA = "output:16", "delta:0.002"  # the two faults that actions are tried on
LR = 1e-3


@dataclasses.dataclass(frozen=True)
class Condition:
    """One row of the table before the seeds. `wave`: trained together; earlier waves matter more."""

    name: str
    fault: str = ""  # without its onset
    action: str = "none"
    lr: float | None = None  # None: the runner's
    always_norm: bool = False
    seeds: tuple = SEEDS
    wave: int = 0
    from_start: bool = False  # the fault is there from step 0 on

    def copies(self, onset, lr=LR, seeds=None):
        """Copies with the fault from step `onset` on; lr of those that name none; seeds: only these."""
        for seed in self.seeds:
            if seeds is not None and seed not in seeds:
                continue
            fault = Fault()
            if self.fault:
                kind, _, place = self.fault.partition("/")
                fault = Fault.parse(f"{kind}@{0 if self.from_start else onset}" + (f"/{place}" if place else ""))
            yield Copy(f"{self.name}.{seed}", lr if self.lr is None else self.lr, fault, self.action, self.always_norm, seed)


def core():
    """Claims (a) to (g) and the head that runs away: the first wave."""
    yield Condition("healthy")
    yield from (Condition(f"output-{size}", f"output:{size}") for size in (8, 16))
    yield Condition("delta-0.002", DELTA)
    yield from (Condition(f"random-output-{size}", f"output_random:{size}") for size in (8, 16))
    yield from (Condition(f"random-delta-{size}", f"delta_random:{size}") for size in (0.002, 0.02))
    yield Condition("rate-0.03", lr=0.03)
    yield Condition("natural-pv", "bf16_pv", from_start=True)
    yield Condition("always-norm", always_norm=True)
    for word, fault in (("output", OUTPUT), ("delta", DELTA)):
        yield Condition(f"{word}-always-norm", fault, always_norm=True)
        yield from (Condition(f"{word}-{action}", fault, action)
                    for action in ("qk_norm", "clip", "rate", "v_norm", "project", "project_elsewhere"))
    for seed, place in enumerate(("0.1", "1.2", "2.0", "3.3", "1.0")):
        yield Condition(f"head-output-{place}", f"output:32/{place}", seeds=(seed % 3,))
    for seed, place in enumerate(("0.3", "1.1", "2.2", "3.0", "2.1")):
        yield Condition(f"head-delta-{place}", f"delta:0.01/{place}", seeds=(seed % 3,))


def more():
    """Other sizes and sources, the smallest bias that is seen, and healthy runs: the second wave."""
    yield from (Condition(f"output-{size}", f"output:{size}") for size in (4, 32))
    yield from (Condition(f"random-output-{size}", f"output_random:{size}") for size in (4, 32))
    yield from (Condition(f"delta-{size}", f"delta:{size}") for size in (0.0005, 0.02))
    yield from (Condition(f"random-delta-{size}", f"delta_random:{size}") for size in (0.2, 1.0))
    for kind in ("mlp", "residual"):
        yield Condition(f"{kind}-32", f"{kind}:32")
        yield Condition(f"random-{kind}-32", f"{kind}_random:32")
    yield Condition("rate-0.1", lr=0.1)
    yield from (Condition(f"batch-{size}", f"batch:{size}") for size in (0.1, 0.5))
    yield Condition("batch-shuffled-0.5", "batch_shuffled:0.5")
    yield Condition("batch-repeated-1", "batch_repeated:1")
    yield Condition("output-8-qk_norm", "output:8", "qk_norm")
    yield Condition("delta-0.0005-qk_norm", "delta:0.0005", "qk_norm")
    yield Condition("ladder-output", "output:0.005~5")
    yield Condition("ladder-delta", "delta:0.00002~0.02")
    for rate in (5e-4, 1e-3, 2e-3, 3e-3, 6e-3, 1e-2):
        yield Condition(f"healthy-{rate:g}", lr=rate, seeds=(10, 11, 12, 13, 14))


def healthy():
    """More healthy runs, to bound the rate of false criticals: the last wave."""
    for rate in (1e-3, 2e-3, 4e-3, 8e-3):
        yield Condition(f"healthy-{rate:g}", lr=rate, seeds=tuple(range(20, 30)))


def all_conditions():
    for wave, made in enumerate((core(), more(), healthy())):
        yield from (dataclasses.replace(c, wave=wave) for c in made)
