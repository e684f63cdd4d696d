"""python -m foreshock.doctor, and the command line's doctor, which runs it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import foreshock
from conftest import BUILD
from foreshock import doctor

NET = ("from torch import nn\n"
       "def good(): return nn.TransformerEncoderLayer(16, 4)\n"
       "class OddAttention(nn.Module):\n"
       "    def __init__(self):\n        super().__init__()\n        self.x = nn.Linear(4, 4)\n"
       "def mixed(): return nn.ModuleList([good(), OddAttention()])\n")


def run(capsys, *words):
    code = doctor.main(list(words))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_function_of_a_file(capsys, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    code, out, _ = run(capsys, f"{path}:good")
    assert code == 0 and "1 attention layers would be watched, 0 would not" in out and "self_attn" in out
    code, out, _ = run(capsys, f"{path}:mixed", "--json")
    found = json.loads(out)
    assert code == 1 and [u["name"] for u in found["unmonitored"]] == ["1"] and len(found["layers"]) == 1


def test_what_cannot_be_made(capsys):
    code, _, err = run(capsys, "no_such_module:net")
    assert code == 2 and "no_such_module" in err


def test_a_model_type(capsys):
    pytest.importorskip("transformers")
    code, out, _ = run(capsys, "gpt2")
    assert code == 0 and "12 attention layers would be watched" in out and "Conv1D, fused, concatenated" in out


def test_the_command_line_runs_it(tmp_path):
    """The same words and exit statuses, by a process of its own with this Python."""
    (tmp_path / "net.py").write_text(NET)

    def cli(*words, **environment):
        home = str(pathlib.Path(foreshock.__file__).resolve().parents[1])
        return subprocess.run([BUILD / "bin" / "foreshock", "doctor", *words], capture_output=True, text=True, cwd=tmp_path, timeout=300,
                              env={**os.environ, "PYTHONPATH": home, "FORESHOCK_PYTHON": sys.executable, **environment}, check=False)

    done = cli("--model", "net.py:good")
    assert done.returncode == 0 and "1 attention layers would be watched, 0 would not" in done.stdout, done.stderr
    done = cli("--model", "net:mixed", "--json", "--python", sys.executable, FORESHOCK_PYTHON="/no/such/python")
    assert done.returncode == 1 and [u["name"] for u in json.loads(done.stdout)["unmonitored"]] == ["1"], done.stderr
    done = cli("--model", "net:nothing")
    assert (done.returncode, done.stdout) == (2, "") and "net:nothing: AttributeError" in done.stderr
    done = cli("--model", "net:good", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3 and "No module named 'foreshock'" in done.stderr and "Traceback" not in done.stderr
