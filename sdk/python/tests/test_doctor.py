"""python -m foreshock.doctor."""

import json

import pytest

from foreshock import doctor


def run(capsys, *words):
    code = doctor.main(list(words))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_function_of_a_file(capsys, tmp_path):
    path = tmp_path / "net.py"
    path.write_text("from torch import nn\n"
                    "def good(): return nn.TransformerEncoderLayer(16, 4)\n"
                    "class OddAttention(nn.Module):\n"
                    "    def __init__(self):\n        super().__init__()\n        self.x = nn.Linear(4, 4)\n"
                    "def mixed(): return nn.ModuleList([good(), OddAttention()])\n")
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
