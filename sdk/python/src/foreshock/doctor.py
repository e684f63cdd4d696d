"""python -m foreshock.doctor MODEL: what would be watched in a model, what not, and why.

MODEL: module:name or file.py:name of a torch module or of a function or class that makes one without arguments; or a folder
or file with a Transformers config.json; or a Transformers model type such as gpt2 or llama. Nothing is downloaded, and models are
made without memory for their weights where that is possible.
Exit status: 0 all attention layers would be watched, 1 some would not, 2 the model could not be made.
"""

import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import sys

import torch

from . import _library, plan


def _named(text):
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(pathlib.Path(place).stem, place)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(place)
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found if isinstance(found, torch.nn.Module) else found()


def _transformers(text):
    import transformers

    path = pathlib.Path(text)
    if path.exists():
        config = transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
    else:
        config = transformers.AutoConfig.for_model(text)
    with torch.device("meta"):
        return transformers.AutoModel.from_config(config)


def load(text):
    """The model that `text` names. Whatever its making raises comes through."""
    if ":" in text:
        try:
            with torch.device("meta"):
                return _named(text)
        except (NotImplementedError, RuntimeError):
            return _named(text)
    return _transformers(text)


def report(model):
    """What `main` prints, as a dict."""
    layers, unwatched = plan(model)
    rows = [{"layer": x.index, "name": x.name, "query_heads": x.query_heads, "kv_heads": x.kv_heads, "head_dim": x.head_dim,
             "model_dim": x.model_dim, "layout": x.layout, "qk_norm": x.qk_norm, "softcap": x.softcap,
             "weights": x.weights_reason or "watched", "attention": x.attention_reason or "watched when it calls "
             "scaled_dot_product_attention or Transformers' eager function"} for x in layers]
    try:
        version, error = _library.load().fs_version().decode(), ""
    except OSError as e:
        version, error = None, str(e)
    return {"model": type(model).__name__, "layers": rows, "unmonitored": [vars(u) for u in unwatched], "library": version,
            "library_error": error, "address": os.environ.get("FORESHOCK_ADDR", "")}


def _print(r):
    print(f"{r['model']}: {len(r['layers'])} attention layers would be watched, {len(r['unmonitored'])} would not")
    if r["layers"]:
        print(f"  {'layer':>5} {'heads':>5} {'kv':>4} {'dim':>4} {'model':>6}  {'layout':<28} name")
    for x in r["layers"]:
        marks = (" QK-norm" if x["qk_norm"] else "") + (f" soft-cap {x['softcap']:g}" if x["softcap"] else "")
        print(f"  {x['layer']:>5} {x['query_heads']:>5} {x['kv_heads']:>4} {x['head_dim']:>4} {x['model_dim']:>6}  "
              f"{x['layout']:<28} {x['name']}{marks}")
        if x["weights"] != "watched":
            print(f"        weights: {x['weights']}")
    for u in r["unmonitored"]:
        print(f"  unmonitored: {u['name']}: {u['reason']}")
    print(f"  library: {r['library'] or r['library_error']}")
    print(f"  address: {r['address'] or 'none (FORESHOCK_ADDR is not set): nothing would be recorded'}")


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m foreshock.doctor", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        model = load(options.model)
    except Exception as error:  # noqa: BLE001: said to the user
        print(f"foreshock.doctor: {options.model}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    r = report(model)
    if options.json:
        print(json.dumps(r))
    else:
        _print(r)
    return 0 if r["layers"] and not r["unmonitored"] else 1


if __name__ == "__main__":
    sys.exit(main())
