#!/usr/bin/env python3
"""Judges bench_guard over a corpus of labelled recordings: it may trigger in one healthy run at most, and must in every collapsing one before it collapses.

usage: bench/guard/check.py BENCH_GUARD [CORPUS]      CORPUS: a folder with labels.json and the recordings that it names; else $FORESHOCK_CORPUS
Exit status 77: there is no corpus.
"""

import json
import os
import pathlib
import subprocess
import sys


def main():
    corpus = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("FORESHOCK_CORPUS", "")
    program, corpus = sys.argv[1], pathlib.Path(corpus or "no corpus: FORESHOCK_CORPUS is not set")
    if not (corpus / "labels.json").is_file():
        print(f"no labels.json in {corpus}: nothing was judged")
        return 77
    labels = json.loads((corpus / "labels.json").read_text())
    done = subprocess.run([program, *(str(corpus / f"{name}.jsonl") for name in sorted(labels))], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr)
        return 1
    first = {}
    for line in done.stdout.splitlines():
        words = line.split()
        first[words[0]] = None if words[words.index("first_trigger") + 1] == "none" else int(words[words.index("first_trigger") + 1])
    return judge(labels, first)


def judge(labels, first):
    wrong, healthy, seen = [], 0, []
    for name, label in sorted(labels.items()):
        at = first.get(name, "missing")
        if at == "missing":
            wrong.append(f"{name}: nothing was printed of it")
        elif label["label"] in ("healthy", "spike"):
            healthy += 1
            if at is not None:
                seen.append(f"{name} at {at}")
        elif label["label"] == "collapse":
            if at is None or at >= label["collapse_step"]:
                wrong.append(f"{name}: collapse at {label['collapse_step']}, trigger {at}")
    collapses = sum(1 for x in labels.values() if x["label"] == "collapse")
    print(f"{healthy} healthy runs, triggered in {len(seen)} {seen}; {collapses} collapses, wrong: {wrong or 'none'}")
    return 1 if wrong or len(seen) > 1 or healthy == 0 or collapses == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
