"""One rank of a training on its own GPU: what users write, and options that tests need. Started once a rank, by torchrun or by hand."""

import argparse
import collections
import datetime
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]

import foreshock  # noqa: E402
import gpt2  # noqa: E402
from foreshock import _patch  # noqa: E402

DECAY, RATE = 0.1, 6e-4


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("one", "ddp", "fsdp2", "tp"), required=True)
    parser.add_argument("--address", help="none: nothing is watched")
    parser.add_argument("--name", default="gpus", help="of the run")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--size", type=int, default=4, help="sequences a rank")
    parser.add_argument("--shape", type=json.loads, default=gpt2.SMALL)
    parser.add_argument("--every", type=json.loads, default={"attention_every_steps": 1, "spectra_every_steps": 1, "row_every": 1,
                                                             "budget": 1.0})
    parser.add_argument("--expect", type=json.loads, default=[], help="steps of which the float64 values are computed too")
    parser.add_argument("--fault", type=json.loads, help='{"rank", "layer", "head", "ulp", "step"}: attention\'s output moved away from zero')
    parser.add_argument("--profile", type=int, default=0, help="the last steps, with their kernels and API calls")
    parser.add_argument("--clip", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    parser.add_argument("--timeout", type=float, default=120, help="seconds, of a collective")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


def inject(fault, device, heads):
    """Moves O of one head by whole bf16 ulp away from zero, below the tap, as a faulty kernel would. Returns the size: 0 is healthy."""
    original, mark = _patch._original_sdpa, f":{fault['layer']}"
    size = torch.zeros(1, heads, 1, 1, dtype=torch.int16, device=device)

    def faulty(*args, **kwargs):
        o = original(*args, **kwargs)
        if not _patch.context.key.endswith(mark):
            return o
        moved = (o.detach().view(torch.int16) + size).view(o.dtype)
        return o + (moved - o).detach()

    _patch._original_sdpa = faulty
    return size


def whole(parameter):
    return (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach()


def attention_modules(model):
    return [m for m in model.modules() if isinstance(m, gpt2.Attention)]


def summary(profile):
    """{"kernels": {name: count}, "calls": {name: count}} of a profile."""
    found = {"kernels": collections.Counter(), "calls": collections.Counter()}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found["kernels"][event.name] += 1
        elif event.name.startswith("cu"):
            found["calls"][event.name] += 1
    return found


def main():
    given = options()
    rank, local = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if given.how != "one":
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=datetime.timedelta(seconds=given.timeout))
    calls = None
    if given.expect:
        import expect
        calls = expect.Calls(given.expect)
    shape = given.shape
    inner = gpt2.make(shape, device)
    model = gpt2.split(inner, given.how, device, not given.eager)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=DECAY,
                                  fused=device.type == "cuda" and given.how != "tp", foreach=False if given.how == "tp" else None)
    address = given.address and given.address.replace("{rank}", str(rank))
    monitor = foreshock.watch(model, optimizer, run=given.name, address=address, **given.every) if given.address else None
    size = None
    if given.fault and rank == given.fault["rank"]:
        size = inject(given.fault, device, shape["heads"] // (dist.get_world_size() if given.how == "tp" else 1))
    ranks = dist.get_world_size() if given.how in ("ddp", "fsdp2") else 1
    kept, profile = {}, None
    given.out.mkdir(parents=True, exist_ok=True)
    progress = given.out / f"step{rank}"
    for step in range(given.steps + 1):  # FSDP2: one more forward brings the last step's W_{t+1}
        if step == given.steps and given.how != "fsdp2":
            break
        if given.expect and step <= max(given.expect) + 1:
            kept[step] = [(whole(m.wq.weight).clone(), whole(m.wk.weight).clone()) for m in attention_modules(inner)]
        if size is not None and step == given.fault["step"]:
            size[:, given.fault["head"]] = given.fault["ulp"]
        x, y = gpt2.batch(shape, step, given.size * ranks, device)
        if ranks > 1:
            x, y = (t[given.size * rank: given.size * (rank + 1)] for t in (x, y))
        if given.profile and step == given.steps - given.profile:
            torch.cuda.synchronize()
            profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                                         torch.profiler.ProfilerActivity.CUDA])
            before = torch.cuda.memory_stats()
            profile.__enter__()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        if step == given.steps:
            break
        if given.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if monitor is not None:
            monitor.step(loss=loss)
        if given.pause:
            time.sleep(given.pause)
            progress.with_suffix(".new").write_text(str(step))
            progress.with_suffix(".new").rename(progress)
        if step < 3 or given.expect or given.fault:
            loss.item()  # four sampled steps may be on their way at most
    report = {"rank": rank}
    if profile is not None:
        after = torch.cuda.memory_stats()
        profile.__exit__(None, None, None)
        report.update(summary(profile), segments=after["segment.all.allocated"] - before["segment.all.allocated"],
                      allocations=after["allocation.all.allocated"] - before["allocation.all.allocated"])
    if monitor is not None:
        report["stats"] = monitor.stats()
        monitor.close()
        report["unwatched"] = monitor.unwatched
    if calls is not None:
        report["expect"] = expected(given, calls, kept, shape["dim"] // shape["heads"], len(kept[0]))
    (given.out / f"rank{rank}.json").write_text(json.dumps(report))
    if given.how != "one":
        dist.destroy_process_group()


def expected(given, calls, kept, head_dim, layers):
    """{step: {"attention": [per layer], "weights": [per layer], "projections": [per layer]}}"""
    import expect

    out = {}
    for step in given.expect:
        out[step] = {
            "attention": [expect.attention(calls.seen[step, layer]) for layer in range(layers)],
            "weights": [expect.weights(*kept[step][layer], head_dim) for layer in range(layers)],
            # A window's pairs are those of the sample before it; the first one's are its own.
            "projections": [expect.projection(kept[max(step - 1, 0)][layer][0], kept[step][layer][0], kept[step + 1][layer][0],
                                              head_dim, RATE * DECAY) for layer in range(layers)]}
    return out


if __name__ == "__main__":
    main()
