// After warm-up a step whose weights and tensors lie on a GPU allocates nothing, sampled or not: neither host
// memory (on the thread that calls the C interface) nor device or pinned memory. The linker sends CUDA's
// allocating calls through the counters below (--wrap, see CMakeLists.txt), also those that the SDK makes.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "allocation_counter.h"
#include "device_fixture.h"
#include "recording_support.h"

namespace {

std::atomic<int64_t> device_calls = 0;

}  // namespace

extern "C" {
#define FS_COUNTED(name, parameters, arguments) \
  cudaError_t __real_##name parameters;         \
  cudaError_t __wrap_##name parameters {        \
    ++device_calls;                             \
    return __real_##name arguments;             \
  }
FS_COUNTED(cudaMalloc, (void** p, size_t n), (p, n))
FS_COUNTED(cudaMallocAsync, (void** p, size_t n, cudaStream_t s), (p, n, s))
FS_COUNTED(cudaHostAlloc, (void** p, size_t n, unsigned flags), (p, n, flags))
FS_COUNTED(cudaFree, (void* p), (p))
FS_COUNTED(cudaFreeAsync, (void* p, cudaStream_t s), (p, s))
FS_COUNTED(cudaFreeHost, (void* p), (p))
FS_COUNTED(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), (s, flags))
FS_COUNTED(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), (e, flags))
#undef FS_COUNTED
}

namespace foreshock::testing {
namespace {

TEST(DeviceQuietTest, AStepOnAGpuAllocatesNothing) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape;
  shape.dim = 16;
  shape.seq = 80;
  ToyModel model(shape);
  const Activations gpu(model, FS_BF16, true);
  Device memory;
  const Stream stream;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  options.attention_every_steps = 3;
  options.spectra_every_steps = 3;
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  for (int l = 0; l < shape.layers; ++l) {
    const auto at = static_cast<size_t>(l);
    fs_weights q = model.Weights(l, false), k = model.Weights(l, true);
    q.data = memory.Copy(model.wq[at].data(), model.wq[at].size() * sizeof(float));
    k.data = memory.Copy(model.wk[at].data(), model.wk[at].size() * sizeof(float));
    fs_layer layer = model.Layer(l);
    layer.wq = &q;
    layer.wk = &k;
    ASSERT_EQ(fs_add_layer(run, &layer), FS_OK);
  }
  ASSERT_EQ(fs_set_stream(run, 0, stream), FS_OK);
  const fs_attention forward = gpu.Forward(stream), backward = gpu.Backward(stream);
  int bad = 0, probed = 0;
  const auto step = [&](int64_t t) {
    counting = true;
    bad += fs_step_begin(run, t) != FS_OK;
    bad += fs_loss(run, 1.0, 10) != FS_OK;
    bad += fs_scalar(run, FS_LEARNING_RATE, 0.01) != FS_OK;
    for (uint32_t l = 0; l < 2; ++l) {
      if (fs_wants_attention(run, l) == 0) continue;
      bad += fs_attention_forward(run, l, &forward) != FS_OK;
      ++probed;
    }
    for (uint32_t l = 0; l < 2; ++l) {
      if (fs_wants_attention_backward(run, l) != 0) bad += fs_attention_backward(run, l, &backward) != FS_OK;
    }
    bad += fs_step_end(run) != FS_OK;
    counting = false;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  };
  for (int64_t t = 0; t < 60; ++t) step(t);
  EXPECT_GT(allocator_calls, 0) << "the counter sees what the first steps allocate";
  EXPECT_GT(device_calls, 0) << "and the other one too";
  allocator_calls = 0;
  device_calls = 0;
  probed = 0;
  for (int64_t t = 60; t < 120; ++t) step(t);
  EXPECT_EQ(allocator_calls, 0);
  EXPECT_EQ(device_calls, 0);
  EXPECT_EQ(bad, 0);
  EXPECT_GE(probed, 2 * 15) << "of sampled and other steps";
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
}

}  // namespace
}  // namespace foreshock::testing
