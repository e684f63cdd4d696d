"""What watching adds to the step path of two ranks, by the profiler: kernels, copies and calls of CUDA, with and without. Needs 2 GPUs."""

import pytest

from test_several import GPUS, SHAPE, Launcher

pytestmark = pytest.mark.skipif(GPUS < 2, reason=f"needs 2 GPUs of one host, there {'is' if GPUS == 1 else 'are'} {GPUS}")

STEPS = 20  # profiled, the first and the eleventh are sampled
DEFAULT = {"attention_every_steps": 10, "spectra_every_steps": 10, "row_every": 8, "budget": 1.0}
WAITS = ("Synchronize", "EventSynchronize", "StreamWait")
MEMORY = ("cudaMalloc", "cudaFree", "cuMem", "cudaHostAlloc", "cudaHostRegister")


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """{how: (training without, training with)}"""
    folder = tmp_path_factory.mktemp("silence")
    runs = {}
    for how in ("ddp", "fsdp2", "tp"):
        common = {"shape": SHAPE, "steps": 60, "size": 4, "profile": STEPS, "every": DEFAULT, **({"clip": True} if how != "tp" else {})}
        runs[how] = [Launcher(how, folder / f"{how}-{name}", name=how, **common, **more)
                     for name, more in (("plain", {}), ("watched", {"address": f"file:{folder}/{how}-{{rank}}.jsonl"}))]
    yield runs
    for run in (r for pair in runs.values() for r in pair):
        if run.popen.poll() is None:
            run.popen.terminate()  # torchrun ends its ranks


def added(watched, plain):
    return {k: n - plain.get(k, 0) for k, n in sorted(watched.items()) if n != plain.get(k, 0)} | {
        k: -n for k, n in sorted(plain.items()) if k not in watched}


@pytest.mark.parametrize("how", ["ddp", "fsdp2", "tp"])
def test_no_collective_no_wait_no_allocation(profiles, how):
    plain, watched = (run.reports() for run in profiles[how])
    for rank in range(2):
        kernels = added(watched[rank]["kernels"], plain[rank]["kernels"])
        calls = added(watched[rank]["calls"], plain[rank]["calls"])
        ours = {k: n for k, n in kernels.items() if "foreshock" in k}
        others = {k: n for k, n in kernels.items() if "foreshock" not in k}
        print(f"\n{how} rank {rank}, {STEPS} steps. Kernels of Foreshock: {sum(ours.values())}")
        for name, n in ours.items():
            print(f"   {n:5} {name[:110]}")
        print("  other kernels and copies that differ:", {k[:90]: n for k, n in others.items()})
        print("  calls that differ:", calls)
        print("  PyTorch's allocator: blocks", plain[rank]["allocations"], watched[rank]["allocations"], "from the device",
              plain[rank]["segments"], watched[rank]["segments"])
        collectives = [sum(n for k, n in r[rank]["kernels"].items() if "nccl" in k.lower()) for r in (plain, watched)]
        print("  NCCL kernels", collectives)
        assert sum(ours.values()) > 0, "nothing was measured"
        assert collectives[0] == collectives[1] > 0
        for mark in WAITS:
            # cudaStreamWaitEvent orders streams on the device and makes nobody wait; it is reported above.
            more = {k: n for k, n in calls.items() if mark in k and n > 0 and "StreamWait" not in k}
            assert not more, more
        assert not {k: n for k, n in calls.items() if k.startswith(MEMORY) and n > 0}
        assert watched[rank]["segments"] == plain[rank]["segments"] == 0
