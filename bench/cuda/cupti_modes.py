"""Kernel times by CUPTI in a small training on a GPU: plain, injected by the driver, beside torch.profiler, and where CUPTI is taken.

usage: cupti_modes.py FOLDER_WITH_LIBFORESHOCK_CUPTI   (FORESHOCK_LIBRARY names libforeshock.so)

A process a mode. Prints what each measured: device time by family, the attention kernels and types that really ran, Foreshock's own
share, or why there is nothing. Exit status 1 when the first two measured no attention kernel, a profiler that was there first saw no
kernels, or the last one did not say why not.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODES = {
    "plain": "FORESHOCK_CUPTI=1",
    "injected": "CUDA_INJECTION64_PATH",
    "profiler": "FORESHOCK_CUPTI=1, torch.profiler started later",
    "profiler first": "torch.profiler started first, then FORESHOCK_CUPTI=1",
    "taken": "CUPTI subscribed by somebody else, then FORESHOCK_CUPTI=1",
}
STEPS, LAYERS, HEADS, DIM, CONTEXT, BATCH = 200, 4, 8, 512, 1024, 8


def model_class():
    """A GPT's blocks without its vocabulary."""
    import torch

    class Block(torch.nn.Module):
        """Attention and a feed-forward layer."""

        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.out = (torch.nn.Linear(DIM, DIM, bias=False) for _ in range(4))
            self.up, self.down = torch.nn.Linear(DIM, 4 * DIM), torch.nn.Linear(4 * DIM, DIM)
            self.num_heads, self.head_dim = HEADS, DIM // HEADS

        def forward(self, x):
            """The block's output."""
            split = [p(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)]
            y = torch.nn.functional.scaled_dot_product_attention(*split, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    return torch.nn.Sequential(*(Block() for _ in range(LAYERS)))


def subscribe():
    """Takes CUPTI as another profiler would; kept until the process ends."""
    for name in ("libcupti.so.13", "libcupti.so.12", "libcupti.so"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        keep = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
        handle = ctypes.c_void_p()
        code = library.cuptiSubscribe(ctypes.byref(handle), keep, None)
        return [library, keep, handle, code]
    sys.exit("no CUPTI to subscribe to")


def train(mode, folder):
    """The training of one mode, in this process."""
    import torch

    import foreshock

    held = subscribe() if mode == "taken" else None
    if held and held[-1] != 0:
        sys.exit(f"cuptiSubscribe: {held[-1]}")
    model = model_class().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    if mode == "profiler first":
        profiler.start()
    monitor = foreshock.watch(model, optimizer, run="cupti", address=f"file:{folder}/run.fsk")
    x = torch.randn(BATCH, CONTEXT, DIM, device="cuda")
    for step in range(STEPS):
        if mode == "profiler" and step == STEPS // 2:
            profiler.start()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    torch.cuda.synchronize()
    seen = None
    if mode.startswith("profiler"):
        profiler.stop()
        seen = sum(1 for e in profiler.events() if str(e.device_type).endswith("CUDA"))
    monitor.close()
    print(json.dumps({"kernels_seen_by_profiler": seen}))


def run(mode, library):
    """What a mode's process said and measured."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "times.json")
        env = dict(os.environ, FORESHOCK_CUPTI_FILE=str(report))
        if mode == "injected":
            env["CUDA_INJECTION64_PATH"] = str(library)
        else:
            env["FORESHOCK_CUPTI"] = str(library)
        done = subprocess.run([sys.executable, __file__, "--mode", mode, folder], env=env, capture_output=True, text=True,
                              timeout=300, check=False)
        times = json.loads(report.read_text()) if report.exists() else {"reason": "no file was written"}
        return done, times


def show(mode, done, times):
    """Prints a mode's result."""
    print(f"{mode} ({MODES[mode]}): exit status {done.returncode}; {done.stdout.strip().splitlines()[-1:] or done.stderr[-500:]}")
    if times["reason"]:
        print(f"  nothing measured: {times['reason']}")
    if not times.get("kernels"):
        return
    print(f"  {times['kernels']} kernels, {times['device_seconds']:.3f} s of the device, lost {times['lost_records']}, "
          f"our own share {100 * times['own_share']:.3f} %")
    families = sorted(times["families"].items(), key=lambda item: -item[1]["seconds"])
    print("  " + ", ".join(f"{name} {100 * f['seconds'] / times['device_seconds']:.1f} %" for name, f in families))
    for kernel in times["attention"]:
        print(f"  {kernel['type'] or 'type unknown'}: {kernel['calls']} of {kernel['kernel'][:100]}")


def main():
    """All modes."""
    library = pathlib.Path(sys.argv[1], "libforeshock_cupti.so").resolve()
    bad = []
    for mode in MODES:
        done, times = run(mode, library)
        show(mode, done, times)
        if done.returncode != 0:
            bad.append(f"{mode}: the training failed")
        if mode in ("plain", "injected") and not times.get("attention"):
            bad.append(f"{mode}: no attention kernel was measured")
        if mode == "profiler first" and '"kernels_seen_by_profiler": 0' in done.stdout:
            bad.append("profiler first: torch.profiler saw no kernels")
        if mode == "taken" and not times["reason"]:
            bad.append("taken: no reason was given")
    sys.exit("; ".join(bad) or 0)


if len(sys.argv) == 4 and sys.argv[1] == "--mode":
    train(sys.argv[2], sys.argv[3])
else:
    main()
