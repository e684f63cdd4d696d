// Thin wrappers of the instructions that only sm_90a has: warpgroup products, bulk tensor copies, and the
// barriers they complete on.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "mma_sync.cuh"

namespace foreshock::cuda::hopper {

// --- mbarriers in shared memory ---

__device__ inline void InitBarrier(uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals)
               : "memory");
}
__device__ inline void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Arrives and expects `bytes` of bulk copies before the phase completes.
__device__ inline void ArriveExpecting(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// Waits until the phase of the given parity has completed.
__device__ inline void Wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// Makes this thread's ordinary writes to shared memory visible to tensor cores and bulk copies.
__device__ inline void FenceForAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Makes initialised barriers visible to bulk copies.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// --- named barriers (1 to 15) among some of a block's warps ---

__device__ inline void SyncNamed(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void ArriveNamed(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- bulk tensor copy: a box of a 4-d tensor into shared memory ---

// The first copy by a map waits less for the map itself.
__device__ inline void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ inline void CopyBox(void* to, const CUtensorMap* map, uint64_t* barrier, int x0, int x1, int x2,
                               int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(SharedAddress(to)),
      "l"(map), "r"(SharedAddress(barrier)), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

// --- registers moved between warpgroups ---

template <int kRegisters>
__device__ inline void GiveUpRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- warpgroup products ---

// Describes rows of 128 bytes, swizzled by the bulk copy: 8 rows are 1024 bytes, at a multiple of 1024.
__device__ inline uint64_t Descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupStride = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kGroupStride | (uint64_t{1} << 16) | ((address & 0x3ffff) >> 4);
}

__device__ inline void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of the sums across this point.
template <int kN>
__device__ inline void Pin(float (&d)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Forgets what the sums held: products that do not add to them then depend on nothing.
template <int kN>
__device__ __forceinline__ void Forget(float (&d)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "=f"(d[i]));
}

#define FS_SUMS8(i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
// transposed: both operands' rows lie along 16, not along 64.
#define FS_MULTIPLY_64X64(type, transposed)                                               \
  asm volatile(                                                                           \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                        \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                         \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "%32, %33, p, 1, 1, %35, %35;\n}\n"                                                 \
      : FS_SUMS8(0), FS_SUMS8(8), FS_SUMS8(16), FS_SUMS8(24)                              \
      : "l"(a), "l"(b), "r"(add), "n"(transposed))
#define FS_MULTIPLY_64X128(type)                                                                        \
  asm volatile(                                                                                         \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                      \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                      \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                        \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "               \
      "%64, %65, p, 1, 1, 0, 0;\n}\n"                                                                   \
      : FS_SUMS8(0), FS_SUMS8(8), FS_SUMS8(16), FS_SUMS8(24), FS_SUMS8(32), FS_SUMS8(40), FS_SUMS8(48), \
        FS_SUMS8(56)                                                                                    \
      : "l"(a), "l"(b), "r"(add))

// d (64 x 64 or 64 x 128, fp32) = a b, or += where `add`; a: 64 x 16, b: 64 or 128 x 16, in shared memory.
__device__ __forceinline__ void Multiply64(float (&d)[32], uint64_t a, uint64_t b, int add, __nv_bfloat16) {
  FS_MULTIPLY_64X64("bf16", 0);
}
__device__ __forceinline__ void Multiply64(float (&d)[32], uint64_t a, uint64_t b, int add, __half) {
  FS_MULTIPLY_64X64("f16", 0);
}
// The same with operands that lie the other way: lines of 64 values, one for each of 16.
__device__ __forceinline__ void MultiplyLines64(float (&d)[32], uint64_t a, uint64_t b, int add,
                                                __nv_bfloat16) {
  FS_MULTIPLY_64X64("bf16", 1);
}
__device__ __forceinline__ void MultiplyLines64(float (&d)[32], uint64_t a, uint64_t b, int add, __half) {
  FS_MULTIPLY_64X64("f16", 1);
}
__device__ __forceinline__ void Multiply64(float (&d)[64], uint64_t a, uint64_t b, int add, __nv_bfloat16) {
  FS_MULTIPLY_64X128("bf16");
}
__device__ __forceinline__ void Multiply64(float (&d)[64], uint64_t a, uint64_t b, int add, __half) {
  FS_MULTIPLY_64X128("f16");
}

#undef FS_MULTIPLY_64X64
#undef FS_MULTIPLY_64X128
#undef FS_SUMS8

}  // namespace foreshock::cuda::hopper
