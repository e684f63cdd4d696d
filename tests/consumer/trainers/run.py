"""python3 run.py INCLUDE LIBRARY_FOLDER WORK: compiles and runs the lines of docs/trainers/llm.c.md, and counts them.

Every layer must have given spectra, attention and rounding signals of all its heads, read from the right places: in buffers.c K's
weights are 10 times Q's, V's 1000 times, layer l's l + 1 times layer 0's, and V's activations 10,000 times q and k.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, HEADS = 3, 4
WANTED = ("wq_sigma1", "wk_sigma1", "qk_sigma1", "logit_max", "entropy_mean", "output_rounding_bias", "delta_error",
          "update_projection_1")


def blocks(page):
    """Added lines of each diff of the page."""
    found = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    return [[line[1:] for line in block.splitlines() if line.startswith("+")] for block in found]


def main():
    include, library, work = map(pathlib.Path, sys.argv[1:])
    work.mkdir(parents=True, exist_ok=True)
    parts = blocks((HERE.parents[2] / "docs" / "trainers" / "llm.c.md").read_text())
    count = sum(map(len, parts))
    assert len(parts) == 3 and count + 1 < 20, f"{count} lines and fs_close in {len(parts)} parts"
    for name, lines in zip(("before_main", "before_loop", "in_loop"), parts):
        (work / f"{name}.inc").write_text("\n".join(lines) + "\n")
    program, recording = work / "buffers", work / "run.jsonl"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Werror", f"-I{work}", f"-I{include}", HERE / "buffers.c", f"-L{library}",
                    "-lforeshock", "-lm", "-o", program], check=True)
    recording.unlink(missing_ok=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "FORESHOCK_ADDR": f"file:{recording}"}
    subprocess.run([*os.environ.get("EMULATOR", "").split(), program], check=True, env=env)
    seen = {}
    for line in recording.read_text().splitlines()[1:]:
        for name, values in json.loads(line).items():
            if name in WANTED:
                seen[name] = values
    missing = [name for name in WANTED if name not in seen]
    assert not missing, f"not recorded: {missing}"
    for name, layers in seen.items():
        assert len(layers) == LAYERS and all(len(heads) == HEADS for heads in layers), f"{name}: {layers}"
        assert all(value is not None for heads in layers for value in heads), f"{name}: {layers}"
    for layer in range(LAYERS):
        first, q, k = (max(seen[name][at]) for name, at in (("wq_sigma1", 0), ("wq_sigma1", layer), ("wk_sigma1", layer)))
        assert 0.7 < q / (first * (layer + 1)) < 1.4, f"layer {layer}: wq_sigma1 {q}, layer 0 {first}"
        assert 7 < k / q < 14, f"layer {layer}: wk_sigma1 {k}, wq_sigma1 {q}"
        assert 0 < max(seen["logit_max"][layer]) < 50, f"layer {layer}: logit_max {seen['logit_max'][layer]}"
    print(f"{count + 1} lines; {len(seen)} signals of {LAYERS} layers x {HEADS} heads")


if __name__ == "__main__":
    main()
