"""python -m foreshock_lab.claims --out DIR: trains the runs behind the claims, watched by the SDK, and writes their table.

Every run is recorded (DIR/runs/NAME.jsonl) and judged by `foreshock replay`. DIR/claims.json has all that the table and the picture are
made of, DIR/claims.md the table, DIR/claims.html the picture. Called again, it trains what is missing or was cut short. --seconds bounds
the training: waves of runs, the more important ones first, share what is left.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import time

import torch

from . import conditions, judge, picture, table, verdicts
from .model import Shape
from .train import text_of, train

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("agent", "base", "cli", "docs", "lab", "proto", "sdk", "server", "tests")


def program_path(given):
    """Path of the CLI: given, else of the build, else of the PATH."""
    found = given or str(pathlib.Path(os.environ.get("FORESHOCK_BUILD_DIR", ROOT / "build")) / "bin" / "foreshock")
    found = found if os.access(found, os.X_OK) else shutil.which("foreshock")
    if not found:
        raise SystemExit("foreshock, the program, was not found: build it or give --foreshock PATH")
    return found


class Book:
    """Summaries by run, in a file that grows a line a run. The longest of a run counts, of equal ones the last. others: files of other
    books, read only: for what is not in this one."""

    def __init__(self, path, others=()):
        self._path, self._own, self._others = path, {}, {}
        for file, runs in (*((other, self._others) for other in others), *([(path, self._own)] if path.exists() else [])):
            for line in file.read_text().splitlines():
                self._keep(json.loads(line), runs)

    @property
    def runs(self):
        return {**self._others, **self._own}

    @staticmethod
    def _keep(run, runs):
        if run["steps"] >= runs.get(run["name"], run)["steps"]:
            runs[run["name"]] = run

    def add(self, run):
        self._keep(run, self._own)
        with open(self._path, "a") as out:
            out.write(json.dumps(run) + "\n")

    def complete(self, name, steps):
        """Whether it was trained here: another book's may be of another size."""
        return name in self._own and self._own[name]["steps"] >= steps


def chosen(only):
    """Conditions by name, all of them without one. ValueError names one that does not exist."""
    known = list(conditions.all_conditions())
    names = {c.name for c in known}
    wanted = set(only.split(",")) if only else names
    if wanted - names:
        raise ValueError(f"--only: no condition {', '.join(sorted(wanted - names))}; there are {', '.join(sorted(names))}")
    return [c for c in known if c.name in wanted]


def waves(options, book):
    """[[(condition, copy), ...]]: what is still to be trained, wave by wave, at most --copies at once. Those picked by name go together."""
    out = {}
    for condition in chosen(options.only):
        for copy in condition.copies(options.onset, options.lr, options.seeds):
            if not book.complete(copy.name, options.steps):
                out.setdefault(0 if options.only else condition.wave, []).append((condition.name, copy))
    return [wave[i: i + options.copies] for _, wave in sorted(out.items()) for i in range(0, len(wave), options.copies)]


def run_wave(wave, options, data, until):
    """Trains one wave; returns the steps done."""
    copies = [copy for _, copy in wave]
    shape = Shape(len(copies), options.layers, options.heads, options.head_dim, options.context)
    runs = options.out / "runs"
    for copy in copies:
        (runs / f"{copy.name}.jsonl").unlink(missing_ok=True)
    began = time.monotonic()

    def say(step, losses):
        if step % 200 == 0:
            spent = time.monotonic() - began
            print(f"step {step}, {spent:.0f} s, {spent / (step + 1) * 1e3:.1f} ms a step, loss of the first {losses[0]:.3f}, "
                  f"median {losses.median():.3f}", flush=True)

    losses, _ = train(copies, shape, data, options.steps, options.batch, say=say, until=until, device=options.device,
                      dtype=getattr(torch, options.dtype), address_of=lambda name: f"file:{runs}/{name}.jsonl", every=options.every,
                      row_every=options.row_every, warm_up=options.warm_up, horizon=options.horizon)
    print(f"{len(losses)} steps of {len(copies)} copies in {time.monotonic() - began:.0f} s", flush=True)
    return len(losses)


def judge_wave(wave, options, book):
    program, runs = program_path(options.foreshock), options.out / "runs"
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = {pool.submit(judge.summary, copy, name, runs / f"{copy.name}.jsonl", program): copy.name for name, copy in wave}
        for job in concurrent.futures.as_completed(jobs):
            try:
                book.add(job.result())
            except Exception as error:  # noqa: BLE001: the other runs are judged all the same
                print(f"{jobs[job]}: {type(error).__name__}: {error}", flush=True)


def write(options, book):
    """The three files, of all that is known so far."""
    runs = sorted(book.runs.values(), key=lambda r: r["name"])
    claims = verdicts.claims(runs)
    (options.out / "claims.json").write_text(json.dumps({"claims": claims, "runs": runs}))
    (options.out / "claims.md").write_text(table.markdown(runs, claims))
    (options.out / "claims.html").write_text(picture.page(runs, claims))


def arguments():
    parser = argparse.ArgumentParser("foreshock_lab.claims", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in (("layers", int, 4), ("heads", int, 4), ("head-dim", int, 64), ("context", int, 256), ("batch", int, 16),
                                ("steps", int, 2400), ("onset", int, 600), ("horizon", int, 9000), ("every", int, 20),
                                ("row-every", int, 8), ("warm-up", int, 100), ("copies", int, 96), ("seconds", float, 1e9), ("lr", float, conditions.LR)):
        parser.add_argument("--" + name, type=kind, default=default)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="conditions, by name, with commas between; they are trained together")
    parser.add_argument("--seeds", type=lambda text: [int(x) for x in text.split(",")], help="only these, with commas between")
    parser.add_argument("--more", type=pathlib.Path, action="append", default=[],
                        help="folder of an earlier call whose runs are judged along with these")
    parser.add_argument("--text", action="append", default=[], help="folders of text; default: this project's own")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--foreshock", help="the program; default: build/bin/foreshock, or of the PATH")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="recordings judged at once")
    return parser


def main(argv=None):
    options = arguments().parse_args(argv)
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    program_path(options.foreshock)  # before hours of training
    book, began = Book(options.out / "runs.jsonl", [folder / "runs.jsonl" for folder in options.more]), time.monotonic()
    data = text_of(options.text or [ROOT / s for s in SOURCES])
    todo = waves(options, book)
    sizes = [len(wave) for wave in todo]
    for i, wave in enumerate(todo):
        left = options.seconds - (time.monotonic() - began)
        if left <= 0:
            print(f"time is up: {sum(sizes[i:])} runs are left for the next call")
            break
        # Waves share what is left, but the first ones are not cut short for the sake of the last.
        share = left * min(1.0, 2 * sizes[i] / sum(sizes[i:]))
        print(f"wave {i + 1} of {len(todo)}: {len(wave)} runs, at most {share:.0f} s", flush=True)
        run_wave(wave, options, data, time.monotonic() + share)
        judge_wave(wave, options, book)
        write(options, book)
    write(options, book)
    print((options.out / "claims.md").read_text())


if __name__ == "__main__":
    main()
