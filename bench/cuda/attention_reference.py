"""Time cuDNN's flash attention forward through PyTorch, for bench_cuda_attention to compare with.

Prints one line a case: name, a tab, the median in milliseconds. Inputs rotate past the L2.
"""

import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# batch, query heads, key heads, length, head size, causal
CASES = {
    "2x32x4096x128": (2, 32, 32, 4096, 128, True),
    "1x32x16384x128": (1, 32, 32, 16384, 128, True),
    "16x12x1024x64": (16, 12, 12, 1024, 64, True),
    "2x32/8x4096x128": (2, 32, 8, 4096, 128, True),
    "2x32x4096x128 full": (2, 32, 32, 4096, 128, False),
}


def median_ms(batch, heads, kv_heads, length, dim, causal):
    """Median over batches of calls, one a set of inputs, in milliseconds."""
    size = batch * (heads + 2 * kv_heads) * length * dim * 2
    sets = max(2, min(8, (200 << 20) // size + 1))

    def normal(h):
        return torch.randn(batch, h, length, dim, device="cuda", dtype=torch.bfloat16)

    inputs = [(normal(heads), normal(kv_heads), normal(kv_heads)) for _ in range(sets)]
    times = []
    for run in range(-3, 15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for q, k, v in inputs:
            scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
        end.record()
        end.synchronize()
        if run >= 0:
            times.append(begin.elapsed_time(end) / sets)
    return statistics.median(times)


def main():
    """Print every case."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for name, case in CASES.items():
            print(f"{name}\t{median_ms(*case):.5f}", flush=True)


main()
