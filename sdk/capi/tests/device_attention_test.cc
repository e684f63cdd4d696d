// Attention on a GPU through the C interface: the recording says what it says for the same tensors in host
// memory, on any stream, and nothing that a caller does wrong hurts the trainer.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "device_fixture.h"
#include "foreshock/base/catalogue.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class OpenRun {
 public:
  explicit OpenRun(const std::string& path, uint32_t row_every = 2, uint32_t spectra_every_steps = 0)
      : address_("file:" + path), path_(path) {
    fs_options options = TestOptions(address_);
    options.attention_every_steps = 1;
    options.spectra_every_steps = spectra_every_steps;
    options.row_every = row_every;
    EXPECT_EQ(fs_open(&options, &run_), FS_OK);
  }
  OpenRun(const OpenRun&) = delete;
  OpenRun& operator=(const OpenRun&) = delete;
  ~OpenRun() { fs_close(run_, FS_FAILED); }
  operator fs_run*() const { return run_; }  // NOLINT: stands for it everywhere

  void AddLayers(const ToyModel& model) {
    for (int l = 0; l < model.s.layers; ++l) {
      const fs_layer layer = model.Layer(l);
      EXPECT_EQ(fs_add_layer(run_, &layer), FS_OK);
    }
  }
  Recording Close() {
    EXPECT_EQ(fs_close(run_, FS_FINISHED), FS_OK);
    run_ = nullptr;
    return ReadRecording(path_);
  }

 private:
  std::string address_, path_;
  fs_run* run_ = nullptr;
};

void Step(fs_run* run, int64_t step, const Activations& tensors, int layers, cudaStream_t stream) {
  EXPECT_EQ(fs_step_begin(run, step), FS_OK);
  const fs_attention forward = tensors.Forward(stream), backward = tensors.Backward(stream);
  for (int l = 0; l < layers; ++l) {
    const auto layer = static_cast<uint32_t>(l);
    EXPECT_EQ(fs_wants_attention(run, layer), 1);
    EXPECT_EQ(fs_attention_forward(run, layer, &forward), FS_OK) << fs_last_error(run);
    EXPECT_EQ(fs_wants_attention(run, layer), 0);
  }
  for (int l = layers - 1; l >= 0; --l) {
    const auto layer = static_cast<uint32_t>(l);
    if (fs_wants_attention_backward(run, layer) == 0) continue;  // not in turn
    EXPECT_EQ(fs_attention_backward(run, layer, &backward), FS_OK) << fs_last_error(run);
  }
  EXPECT_EQ(fs_step_end(run), FS_OK);
}

ToyShape Shape(int seq) {
  ToyShape shape;
  shape.dim = 16;
  shape.seq = seq;
  return shape;
}

void ExpectSeries(const wire::Series& got, const wire::Series& want, const std::string& name) {
  SCOPED_TRACE(name);
  ASSERT_EQ(got.values.size(), want.values.size());
  EXPECT_EQ(got.present, want.present);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  ASSERT_EQ(got.moments.size(), want.moments.size());
  const bool count = name.find("fraction") != std::string::npos;
  const bool sign = name.find("sign") != std::string::npos;
  for (size_t h = 0; h < want.values.size(); ++h) {
    const double value = want.values[h];
    // Sums over rows: of counts exact but for rows at a threshold, of O's error as fp32 gives it.
    const double rows = want.weights.empty() ? 1 : want.weights[h % want.weights.size()];
    EXPECT_NEAR(got.values[h], value, count || sign ? 1.01 : 1e-4 * (std::abs(value) + std::abs(rows) + 1));
  }
  for (size_t i = 0; i < want.weights.size(); ++i)
    EXPECT_NEAR(got.weights[i], want.weights[i], 1e-4 * std::abs(want.weights[i]));
  for (size_t i = 0; i < want.moments.size(); ++i)
    EXPECT_NEAR(got.moments[i], want.moments[i], 1e-3 * (std::abs(want.moments[i]) + 1));
}

bool OfRounding(const SignalInfo& info) {
  return info.name.find("rounding") != std::string_view::npos ||
         info.name.find("delta") != std::string_view::npos;
}

// Every attention series of both frames, and every rounding series if wanted.
int ExpectSameFrame(const wire::Frame& got, const wire::Frame& want, bool rounding = true) {
  SCOPED_TRACE(::testing::Message() << "step " << want.step);
  std::map<std::pair<uint16_t, std::optional<uint32_t>>, const wire::Series*> by_name;
  for (const auto& series : got.series) by_name[{series.signal, series.layer}] = &series;
  int compared = 0;
  for (const auto& series : want.series) {
    const SignalInfo* info = FindSignal(series.signal);
    if (info == nullptr || info->scope == SignalScope::kScalar) continue;
    if (!rounding && OfRounding(*info)) continue;
    const auto found = by_name.find({series.signal, series.layer});
    if (found == by_name.end()) {
      ADD_FAILURE() << info->name << " is missing";
      continue;
    }
    ExpectSeries(*found->second, series, std::string(info->name));
    ++compared;
  }
  return compared;
}

Recording Record(const std::string& path, fs_dtype dtype, bool device, const std::vector<int>& lengths) {
  OpenRun run(path);
  ToyModel first(Shape(lengths[0]));
  run.AddLayers(first);
  std::vector<std::unique_ptr<Activations>> kept;
  std::unique_ptr<Stream> stream;
  if (device) stream = std::make_unique<Stream>();
  for (size_t t = 0; t < lengths.size(); ++t) {
    ToyModel model(Shape(lengths[t]), static_cast<uint32_t>(t + 1));
    kept.push_back(std::make_unique<Activations>(model, dtype, device));
    Step(run, static_cast<int64_t>(t), *kept.back(), model.s.layers,
         device ? static_cast<cudaStream_t>(*stream) : nullptr);
  }
  return run.Close();
}

// Lengths change from step to step: the first call of a larger shape makes room for it.
TEST(DeviceAttentionTest, RecordsWhatHostMemoryWouldHaveGiven) {
  FS_NEEDS_DEVICE();
  for (const fs_dtype dtype : {FS_BF16, FS_FP32}) {
    TempDir dir;
    const std::vector<int> lengths = {12, 40, 40, 7, 300, 12, 64};
    const Recording host = Record(dir / "host.fsk", dtype, false, lengths),
                    device = Record(dir / "device.fsk", dtype, true, lengths);
    ASSERT_EQ(host.frames.size(), lengths.size());
    ASSERT_EQ(device.frames.size(), lengths.size());
    for (size_t t = 0; t < lengths.size(); ++t) {
      EXPECT_EQ(device.frames[t].step, static_cast<int64_t>(t)) << "frames go out in order";
      // 9 of attention, 7 of rounding, in 2 layers.
      EXPECT_EQ(ExpectSameFrame(device.frames[t], host.frames[t]), 2 * 16);
    }
    EXPECT_TRUE(device.events.empty());
  }
}

TEST(DeviceAttentionTest, DeviceTimeIsReported) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  const Recording device = Record(dir / "device.fsk", FS_BF16, true, {64, 64, 64});
  for (const wire::Frame& frame : device.frames) {
    double seconds = 0;
    for (const auto& series : frame.series) {
      if (series.signal == kProbeDeviceSeconds) seconds = static_cast<double>(series.values[0]);
    }
    EXPECT_GT(seconds, 1e-6);
    EXPECT_LT(seconds, 1);
  }
}

// More streams than there are lanes, two runs at once, on one device.
TEST(DeviceAttentionTest, StreamsAndRunsAtOnce) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(80);
  shape.layers = 7;
  ToyModel model(shape);
  const Activations host(model, FS_BF16, false), gpu(model, FS_BF16, true);
  OpenRun on_host(dir / "host.fsk"), a(dir / "a.fsk"), b(dir / "b.fsk");
  for (OpenRun* run : {&on_host, &a, &b}) run->AddLayers(model);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 7; ++i) streams.push_back(std::make_unique<Stream>());
  for (int64_t t = 0; t < 5; ++t) {
    Step(on_host, t, host, shape.layers, nullptr);
    for (OpenRun* run : {&a, &b}) EXPECT_EQ(fs_step_begin(*run, t), FS_OK);
    for (const bool backward : {false, true}) {
      for (int l = 0; l < shape.layers; ++l) {
        for (OpenRun* run : {&a, &b}) {
          const fs_attention call = backward ? gpu.Backward(*streams[static_cast<size_t>(6 - l)])
                                             : gpu.Forward(*streams[static_cast<size_t>(l)]);
          EXPECT_EQ((backward ? fs_attention_backward : fs_attention_forward)(*run, static_cast<uint32_t>(l),
                                                                              &call),
                    FS_OK);
        }
      }
    }
    for (OpenRun* run : {&a, &b}) EXPECT_EQ(fs_step_end(*run), FS_OK);
  }
  const Recording want = on_host.Close();
  for (OpenRun* run : {&a, &b}) {
    const Recording got = run->Close();
    ASSERT_EQ(got.frames.size(), 5u);
    for (size_t t = 0; t < 5; ++t) EXPECT_EQ(ExpectSameFrame(got.frames[t], want.frames[t]), 7 * 16);
  }
}

// What was recorded from a stream.
class Graph {
 public:
  template <typename Fn>
  Graph(cudaStream_t stream, Fn&& record, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    record();
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    nodes_ = nodes;
    if (nodes > 0) {
      EXPECT_EQ(cudaGraphInstantiate(&runnable_, graph, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (runnable_ == nullptr) return;
    EXPECT_EQ(cudaGraphExecDestroy(runnable_), cudaSuccess);
  }
  void Replay(cudaStream_t stream) const { EXPECT_EQ(cudaGraphLaunch(runnable_, stream), cudaSuccess); }
  size_t nodes() const { return nodes_; }

 private:
  cudaGraphExec_t runnable_ = nullptr;
  size_t nodes_ = 0;
};

// Calls on the run's stream are added up by one kernel when the step ends: more than one launch takes,
// another stream each step (whose calls share memory), sizes that grow, a step that ends while a graph
// records its stream.
TEST(DeviceAttentionTest, CallsOnTheRunsStreamAreFinishedWhenTheStepEnds) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(0);
  shape.layers = 20;
  const std::vector<int> lengths = {12, 200, 40, 300, 9, 64, 300, 64};
  const std::set<size_t> captured = {3, 5};
  const Stream streams[2];
  OpenRun on_host(dir / "host.fsk"), on_device(dir / "device.fsk");
  std::vector<std::unique_ptr<Activations>> kept;
  for (size_t t = 0; t < lengths.size(); ++t) {
    shape.seq = lengths[t];
    const ToyModel model(shape, static_cast<uint32_t>(t + 1));
    if (t == 0) {
      on_host.AddLayers(model);
      on_device.AddLayers(model);
    }
    kept.push_back(std::make_unique<Activations>(model, FS_BF16, false));
    Step(on_host, static_cast<int64_t>(t), *kept.back(), shape.layers, nullptr);
    kept.push_back(std::make_unique<Activations>(model, FS_BF16, true));
    const cudaStream_t stream = streams[t % 2];
    EXPECT_EQ(fs_set_stream(on_device, 0, stream), FS_OK);
    EXPECT_EQ(fs_step_begin(on_device, static_cast<int64_t>(t)), FS_OK);
    const fs_attention forward = kept.back()->Forward(stream), backward = kept.back()->Backward(stream);
    for (int l = 0; l < shape.layers; ++l) {
      const auto layer = static_cast<uint32_t>(l);
      EXPECT_EQ(fs_attention_forward(on_device, layer, &forward), FS_OK) << fs_last_error(on_device);
      EXPECT_EQ(fs_attention_backward(on_device, layer, &backward), FS_OK) << fs_last_error(on_device);
    }
    if (captured.count(t) == 0) {
      EXPECT_EQ(fs_step_end(on_device), FS_OK);
    } else {
      const Graph graph(
          stream, [&] { EXPECT_EQ(fs_step_end(on_device), FS_OK); }, cudaStreamCaptureModeRelaxed);
      EXPECT_EQ(graph.nodes(), 0u);
    }
  }
  const Recording want = on_host.Close(), got = on_device.Close();
  ASSERT_EQ(got.frames.size(), lengths.size());
  for (size_t t = 0; t < lengths.size(); ++t)
    EXPECT_EQ(ExpectSameFrame(got.frames[t], want.frames[t], false), 20 * 9);
  EXPECT_TRUE(got.events.empty());
}

TEST(DeviceAttentionTest, PackedSequences) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(50);
  shape.batch = 1;
  shape.layers = 1;
  ToyModel model(shape);
  const Activations host(model, FS_BF16, false), gpu(model, FS_BF16, true);
  const int32_t offsets[4] = {0, 3, 30, 50}, bad[4] = {0, 40, 30, 50};
  Device device;
  const auto* on_device = static_cast<const int32_t*>(device.Copy(offsets, sizeof offsets));
  const auto* bad_on_device = static_cast<const int32_t*>(device.Copy(bad, sizeof bad));
  OpenRun a(dir / "host.fsk"), b(dir / "device.fsk");
  a.AddLayers(model);
  b.AddLayers(model);
  for (int64_t t = 0; t < 3; ++t) {
    for (const auto& [run, tensors, cu] :
         {std::tuple<fs_run*, const Activations*, const int32_t*>(a, &host, offsets),
          {b, &gpu, t == 1 ? bad_on_device : on_device}}) {
      fs_attention call = tensors->Forward();
      call.cu_seqlens_q = cu;
      call.n_sequences = 3;
      EXPECT_EQ(fs_step_begin(run, t), FS_OK);
      EXPECT_EQ(fs_attention_forward(run, 0, &call), FS_OK) << fs_last_error(run);
      EXPECT_EQ(fs_step_end(run), FS_OK);
    }
  }
  const Recording want = a.Close(), got = b.Close();
  ASSERT_EQ(got.frames.size(), 3u);
  EXPECT_EQ(ExpectSameFrame(got.frames[0], want.frames[0]), 12);
  EXPECT_EQ(ExpectSameFrame(got.frames[2], want.frames[2]), 12) << "the next call is a new one";
  std::vector<std::string> said;
  for (const auto& event : got.events) said.push_back(event.detail);
  for (const auto& item : got.hellos[0].unmonitored) said.push_back(item.name + ": " + item.reason);
  EXPECT_THAT(said, Contains(HasSubstr("layer 0 attention: cu_seqlens")));
}

TEST(DeviceAttentionTest, MemoryOfTwoKindsIsRefused) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape(20));
  const Activations host(model, FS_BF16, false), gpu(model, FS_BF16, true);
  OpenRun run(dir / "run.fsk");
  run.AddLayers(model);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  const auto refused = [&](fs_attention call, const char* words) {
    EXPECT_EQ(fs_attention_forward(run, 0, &call), FS_ERR_ARGUMENT);
    EXPECT_THAT(fs_last_error(run), HasSubstr(words));
  };
  fs_attention call = gpu.Forward();
  call.q = host.Forward().q;
  refused(call, "k: on CUDA device 0, the call's tensors are in host memory");
  call.device = 0;
  refused(call, "q: in host memory, the call's tensors are on CUDA device 0");
  call = gpu.Forward();
  call.v = host.Forward().v;
  refused(call, "v: in host memory");
  call = gpu.Forward();
  call.alibi_slopes = model.q.data();
  refused(call, "alibi_slopes: in host memory");
  call = gpu.Forward();
  call.device = 7;
  refused(call, "q: on CUDA device 0, the call's tensors are on CUDA device 7");
  call = gpu.Forward();
  call.q.dim = 8;
  EXPECT_EQ(fs_attention_forward(run, 0, &call), FS_ERR_SHAPE);
  EXPECT_THAT(fs_last_error(run), HasSubstr("q.dim: 8, must be 16"));
  // What was refused changed nothing: the right call is still wanted.
  EXPECT_EQ(fs_wants_attention(run, 0), 1);
  call = gpu.Forward();
  EXPECT_EQ(fs_attention_forward(run, 0, &call), FS_OK);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  const Recording recording = run.Close();
  ASSERT_EQ(recording.frames.size(), 1u);
  std::set<uint16_t> signals;
  for (const auto& series : recording.frames[0].series) signals.insert(series.signal);
  EXPECT_TRUE(signals.count(kLogitMax));
}

// A device that has no room ends its measurements with a reason; the trainer's own CUDA calls go on.
TEST(DeviceAttentionTest, AnErrorOfTheDeviceIsTold) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(20);
  shape.heads = shape.kv_heads = 128;
  shape.layers = 1;
  ToyModel model(shape);
  const Activations gpu(model, FS_BF16, true);
  OpenRun run(dir / "run.fsk", 1);
  run.AddLayers(model);
  const fs_attention good = gpu.Forward();
  fs_attention huge = good;
  huge.v.data = huge.o.data = nullptr;
  // Nobody reads it: the scratch memory of a call like this is larger than any device.
  huge.q.batch = huge.k.batch = 1;
  huge.q.seq = huge.k.seq = (int64_t{1} << 30) - 1;
  for (int64_t t = 0; t < 4; ++t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_attention_forward(run, 0, t == 1 ? &huge : &good), FS_OK) << fs_last_error(run);
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Recording recording = run.Close();
  EXPECT_EQ(recording.frames.size(), 4u);
  std::vector<std::string> said;
  for (const auto& event : recording.events) said.push_back(event.detail);
  EXPECT_THAT(said, Contains(HasSubstr("attention on CUDA device 0: cudaMallocAsync: out of memory")));
}

// The rounding probe's turn comes with the backward pass: an error there ends both probes of the device, and
// no more.
TEST(DeviceAttentionTest, AnErrorInRoundingIsTold) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(20);
  shape.layers = 1;
  ToyModel model(shape);
  const Activations gpu(model, FS_BF16, true);
  const Stream good;
  OpenRun run(dir / "run.fsk", 1);
  run.AddLayers(model);
  for (int64_t t = 0; t < 4; ++t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    const fs_attention forward = gpu.Forward(good);
    EXPECT_EQ(fs_attention_forward(run, 0, &forward), FS_OK) << fs_last_error(run);
    if (t == 1) {
      const Stream bad;
      const BrokenCapture broken(bad);
      const fs_attention backward = gpu.Backward(bad);
      EXPECT_EQ(fs_attention_backward(run, 0, &backward), FS_OK) << fs_last_error(run);
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "nothing is left for the trainer to come upon";
    } else {
      const fs_attention backward = gpu.Backward(good);
      EXPECT_EQ(fs_attention_backward(run, 0, &backward), FS_OK) << fs_last_error(run);
    }
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Recording recording = run.Close();
  ASSERT_EQ(recording.frames.size(), 4u);
  for (const auto& series : recording.frames[3].series) EXPECT_NE(series.signal, kLogitMax);
  std::vector<std::string> said;
  for (const auto& event : recording.events) said.push_back(event.detail);
  EXPECT_THAT(said, Contains(HasSubstr("attention on CUDA device 0: ")));
}

// Tensors on a device that is not the current one, and the current one stays current.
TEST(DeviceAttentionTest, AnotherDeviceStaysCurrent) {
  FS_NEEDS_DEVICE();
  int devices = 0;
  ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  if (devices < 2) GTEST_SKIP() << "skipped: needs two CUDA devices";
  TempDir dir;
  ToyModel model(Shape(40));
  const Activations host(model, FS_BF16, false);
  OpenRun on_host(dir / "host.fsk"), on_device(dir / "device.fsk");
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const Activations gpu(model, FS_BF16, true);
  Device memory;
  const Stream stream;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto expect_current = [](const char* after) {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << after;
  };
  for (int l = 0; l < model.s.layers; ++l) {
    fs_weights q = model.Weights(l, false), k = model.Weights(l, true);
    fs_layer layer = model.Layer(l);
    layer.wq = &q;
    layer.wk = &k;
    EXPECT_EQ(fs_add_layer(on_host, &layer), FS_OK);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    const auto at = static_cast<size_t>(l);
    q.data = memory.Copy(model.wq[at].data(), model.wq[at].size() * sizeof(float));
    k.data = memory.Copy(model.wk[at].data(), model.wk[at].size() * sizeof(float));
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(fs_add_layer(on_device, &layer), FS_OK);
    expect_current("fs_add_layer");
  }
  EXPECT_EQ(fs_set_stream(on_device, 1, stream), FS_OK);
  for (int64_t t = 0; t < 4; ++t) {
    Step(on_host, t, host, model.s.layers, nullptr);
    Step(on_device, t, gpu, model.s.layers, stream);
    expect_current("a step");
  }
  const Recording got = on_device.Close(), want = on_host.Close();
  expect_current("fs_close");
  ASSERT_EQ(got.frames.size(), 4u);
  for (size_t t = 0; t < 4; ++t) EXPECT_GE(ExpectSameFrame(got.frames[t], want.frames[t]), 2 * 16);
}

// What a busy device does: no call waits for it, sampled or not, and every step's frame is there in the end.
TEST(DeviceAttentionTest, AStreamThatStandsStillHoldsNothingUp) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape(40));
  const Activations gpu(model, FS_BF16, true);
  Device memory;
  const Stream stream;
  OpenRun run(dir / "run.fsk", 2, 1);
  for (int l = 0; l < model.s.layers; ++l) {
    fs_weights q = model.Weights(l, false), k = model.Weights(l, true);
    const auto at = static_cast<size_t>(l);
    q.data = memory.Copy(model.wq[at].data(), model.wq[at].size() * sizeof(float));
    k.data = memory.Copy(model.wk[at].data(), model.wk[at].size() * sizeof(float));
    fs_layer layer = model.Layer(l);
    layer.wq = &q;
    layer.wk = &k;
    EXPECT_EQ(fs_add_layer(run, &layer), FS_OK);
  }
  EXPECT_EQ(fs_set_stream(run, 0, stream), FS_OK);
  constexpr int kWarm = 3, kSteps = 40;
  const auto step = [&](int64_t t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    const fs_attention forward = gpu.Forward(stream), backward = gpu.Backward(stream);
    for (uint32_t l = 0; l < 2; ++l) {
      if (fs_wants_attention(run, l) != 0) {
        EXPECT_EQ(fs_attention_forward(run, l, &forward), FS_OK);
      }
      if (fs_wants_attention_backward(run, l) != 0) {
        EXPECT_EQ(fs_attention_backward(run, l, &backward), FS_OK);
      }
    }
    EXPECT_EQ(fs_step_end(run), FS_OK);
  };
  for (int64_t t = 0; t < kWarm; ++t) step(t);
  // Nothing behind this comes to its turn before the gate opens: by the last line of the loop below, or, had
  // a call waited, by the watchdog.
  struct Gate {
    std::atomic<bool> open = false;
    bool forced = false;
  } gate;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream,
                [](void* data) {
                  auto* g = static_cast<Gate*>(data);
                  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
                  while (!g->open && !g->forced) g->forced = std::chrono::steady_clock::now() > end;
                },
                &gate),
            cudaSuccess);
  for (int64_t t = kWarm; t < kSteps; ++t) step(t);
  gate.open = true;
  const Recording recording = run.Close();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_FALSE(gate.forced) << "a call waited for the stream";
  ASSERT_EQ(recording.frames.size(), size_t{kSteps});
  int with = 0;
  for (int t = 0; t < kSteps; ++t) {
    const wire::Frame& frame = recording.frames[static_cast<size_t>(t)];
    EXPECT_EQ(frame.step, t);
    for (const auto& series : frame.series) with += series.signal == kLogitMax && series.layer == 0u;
  }
  EXPECT_GE(with, kWarm + 1) << "what the device had taken on is there";
  EXPECT_LT(with, kSteps) << "the others went without";
}

TEST(DeviceAttentionTest, ClipFactorsComeFromTheLastSampleThatArrived) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape(30));
  const Activations host(model, FS_BF16, false), gpu(model, FS_BF16, true);
  OpenRun a(dir / "host.fsk", 1), b(dir / "device.fsk", 1);
  float want[4], got[4];
  for (auto& [run, tensors] : {std::pair<OpenRun*, const Activations*>(&a, &host), {&b, &gpu}}) {
    run->AddLayers(model);
    Step(*run, 0, *tensors, 2, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    Step(*run, 1, *tensors, 2, nullptr);  // a step's end looks at what has arrived
    EXPECT_EQ(fs_qk_clip_factors(*run, 0, 0.5, run == &a ? want : got, 4), FS_OK);
  }
  for (int h = 0; h < 4; ++h) {
    EXPECT_LT(want[h], 1);
    EXPECT_NEAR(got[h], want[h], 1e-5);
  }
}

// Rounding in as many layers a sample as the work allows; attention in all.
TEST(DeviceAttentionTest, LayersTakeTurnsWithRounding) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyShape shape = Shape(4096);
  shape.batch = 1;
  shape.layers = 7;
  ToyModel model(shape);
  const Activations gpu(model, FS_BF16, true);
  OpenRun run(dir / "run.fsk");
  run.AddLayers(model);
  for (int64_t t = 0; t < 4; ++t) Step(run, 10 * t, gpu, 7, nullptr);
  const Recording recording = run.Close();
  const auto layers_of = [&](size_t t, uint16_t signal) {
    std::set<uint32_t> layers;
    for (const auto& series : recording.frames[t].series) {
      if (series.signal == signal) layers.insert(*series.layer);
    }
    return layers;
  };
  ASSERT_EQ(recording.frames.size(), 4u);
  // A layer is 2,048 rows of 2,048 keys in the mean, 4 heads of 16: 0.27e9 multiply-adds of 0.5e9 a sample.
  const std::set<uint32_t> all = {0, 1, 2, 3, 4, 5, 6}, turns[4] = {all, {0}, {1, 2}, {3, 4}};
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(layers_of(t, kLogitMax), all);
    EXPECT_EQ(layers_of(t, kOutputRoundingBias), turns[t]) << t;
    EXPECT_EQ(layers_of(t, kDeltaError), turns[t]) << t;
  }
}

int AttentionSeries(const wire::Frame& frame) {
  int count = 0;
  for (const auto& series : frame.series) count += series.signal == kLogitMax;
  return count;
}

TEST(DeviceAttentionTest, ACapturedGraphMeasuresWhereItIsReplayed) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape(70));
  const Activations host(model, FS_BF16, false), gpu(model, FS_BF16, true);
  const Stream stream;
  OpenRun a(dir / "host.fsk", 1), b(dir / "device.fsk", 1);
  for (OpenRun* run : {&a, &b}) run->AddLayers(model);
  EXPECT_EQ(fs_set_stream(b, 0, stream), FS_OK);
  for (int64_t t = 0; t < 2; ++t) {
    Step(a, t, host, 2, nullptr);
    Step(b, t, gpu, 2, stream);
  }
  const Graph graph(stream, [&] {
    const fs_attention forward = gpu.Forward(stream), backward = gpu.Backward(stream);
    for (int twice = 0; twice < 2; ++twice) {  // of a capture a layer's first call counts
      for (uint32_t l = 0; l < 2; ++l) EXPECT_EQ(fs_attention_forward(b, l, &forward), FS_OK);
      for (uint32_t l = 0; l < 2; ++l) EXPECT_EQ(fs_attention_backward(b, l, &backward), FS_OK);
    }
  });
  EXPECT_GE(graph.nodes(), 8u);
  EXPECT_LE(graph.nodes(), 12u);
  graph.Replay(stream);  // outside a step: nothing is asked
  for (int64_t t = 2; t < 6; ++t) {
    Step(a, t, host, 2, nullptr);
    EXPECT_EQ(fs_step_begin(b, t), FS_OK);
    if (t != 4) graph.Replay(stream);
    EXPECT_EQ(fs_step_end(b), FS_OK);
  }
  const Recording want = a.Close(), got = b.Close();
  graph.Replay(stream);  // the graph outlives the run
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(got.frames.size(), 6u);
  for (size_t t = 0; t < 6; ++t) {
    if (t == 4) {
      EXPECT_EQ(AttentionSeries(got.frames[t]), 0) << "not replayed: missing, not an earlier step's";
    } else {
      EXPECT_EQ(ExpectSameFrame(got.frames[t], want.frames[t]), 2 * 16);
    }
  }
  EXPECT_TRUE(got.events.empty());
}

TEST(DeviceAttentionTest, AGraphCapturedTooEarlyIsUnmonitored) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape(20));
  const Activations gpu(model, FS_BF16, true);
  const Stream stream;
  OpenRun run(dir / "run.fsk");
  run.AddLayers(model);
  const fs_attention forward = gpu.Forward(stream);
  const Graph graph(stream, [&] { EXPECT_EQ(fs_attention_forward(run, 0, &forward), FS_OK); });
  EXPECT_EQ(graph.nodes(), 0u);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  const Recording recording = run.Close();
  std::vector<std::string> said;
  for (const auto& item : recording.hellos[0].unmonitored) said.push_back(item.name + ": " + item.reason);
  EXPECT_THAT(said, Contains("layer 0 attention: recorded into a CUDA graph before the first step"));
}

}  // namespace
}  // namespace foreshock::testing
