// Weights on a GPU through the C interface: the recording says what it says for the same weights in host
// memory.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "device_fixture.h"
#include "foreshock/base/catalogue.h"
#include "foreshock/sdk/cuda/device_buffer.h"
#include "recording_support.h"

namespace foreshock::testing {
namespace {

// The toy model's weights in device memory.
class OnDevice {
 public:
  explicit OnDevice(const ToyModel& model) {
    for (const auto* side : {&model.wq, &model.wk}) {
      for (const auto& w : *side) {
        auto made = cuda::DeviceBuffer::Make(0, w.size() * sizeof(float));
        EXPECT_TRUE(made.ok());
        buffers_.push_back(std::move(made).value());
      }
    }
    Send(model);
  }
  void Send(const ToyModel& model) {
    size_t at = 0;
    for (const auto* side : {&model.wq, &model.wk}) {
      for (const auto& w : *side) {
        EXPECT_EQ(
            cudaMemcpy(buffers_[at++].data(), w.data(), w.size() * sizeof(float), cudaMemcpyHostToDevice),
            cudaSuccess);
      }
    }
  }
  fs_status Register(const ToyModel& model, fs_run* run) const {
    for (int l = 0; l < model.s.layers; ++l) {
      fs_weights q = model.Weights(l, false), k = model.Weights(l, true);
      q.data = buffers_[static_cast<size_t>(l)].data();
      k.data = buffers_[static_cast<size_t>(model.s.layers + l)].data();
      fs_layer layer = model.Layer(l);
      layer.wq = &q;
      layer.wk = &k;
      const fs_status status = fs_add_layer(run, &layer);
      if (status != FS_OK) return status;
    }
    return FS_OK;
  }

 private:
  std::vector<cuda::DeviceBuffer> buffers_;
};

ToyShape Shape() {
  ToyShape shape;
  shape.dim = 16;
  shape.model = 96;
  return shape;
}

struct Cadence {
  uint32_t spectra, projections;  // every so many steps
};

Recording Record(const std::string& path, bool device, int steps, const Cadence& cadence) {
  const std::string address = "file:" + path;
  fs_options options = TestOptions(address);
  options.attention_every_steps = 0;
  options.spectra_every_steps = cadence.spectra;
  options.projections_every_steps = cadence.projections;
  fs_run* run = nullptr;
  EXPECT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model(Shape());
  std::unique_ptr<OnDevice> gpu;
  cudaStream_t stream = nullptr;
  if (device) {
    gpu = std::make_unique<OnDevice>(model);
    EXPECT_EQ(gpu->Register(model, run), FS_OK);
    EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    EXPECT_EQ(fs_set_stream(run, 0, stream), FS_OK);
  } else {
    EXPECT_EQ(model.Register(run), FS_OK);
  }
  for (int t = 0; t < steps; ++t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_loss(run, 1.0, 10), FS_OK);
    EXPECT_EQ(fs_scalar(run, FS_LEARNING_RATE, 0.01 + 0.01 * (t % 4)), FS_OK);  // each step's own
    if (t % 7 == 3) {
      EXPECT_EQ(fs_step_skipped(run), FS_OK);
    } else {
      model.Move();
      if (gpu) {
        cudaDeviceSynchronize();  // the copy is not on the run's stream
        gpu->Send(model);
      }
    }
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  if (stream != nullptr) cudaStreamDestroy(stream);
  return ReadRecording(path);
}

class DeviceCadence : public ::testing::TestWithParam<Cadence> {};

TEST_P(DeviceCadence, RecordsWhatHostMemoryWouldHaveGiven) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  const Recording host = Record(dir / "host.fsk", false, 41, GetParam()),
                  device = Record(dir / "device.fsk", true, 41, GetParam());
  ASSERT_EQ(host.frames.size(), 41u);
  ASSERT_EQ(device.frames.size(), 41u);
  int compared = 0;
  for (size_t f = 0; f < host.frames.size(); ++f) {
    const wire::Frame &a = host.frames[f], &b = device.frames[f];
    EXPECT_EQ(a.step, b.step) << "frames go out in order";
    // Only a device takes device time.
    const auto timed = std::count_if(b.series.begin(), b.series.end(),
                                     [](const auto& series) { return series.signal == kProbeDeviceSeconds; });
    ASSERT_EQ(a.series.size() + static_cast<size_t>(timed), b.series.size()) << "step " << a.step;
    std::map<std::pair<uint16_t, std::optional<uint32_t>>, const wire::Series*> by_name;
    for (const auto& series : b.series) by_name[{series.signal, series.layer}] = &series;
    for (const auto& want : a.series) {
      const SignalInfo* info = FindSignal(static_cast<uint16_t>(want.signal));
      ASSERT_NE(info, nullptr);
      if (info->scope == SignalScope::kScalar) continue;
      const auto found = by_name.find({want.signal, want.layer});
      ASSERT_NE(found, by_name.end()) << info->name;
      const wire::Series& got = *found->second;
      ASSERT_EQ(got.values.size(), want.values.size()) << info->name;
      const bool sign = std::string_view(info->name).find("sign_mean") != std::string_view::npos;
      for (size_t h = 0; h < want.values.size(); ++h) {
        // Sums of c lie below 0.1 here; a sign may flip where c is as small as rounding.
        EXPECT_NEAR(got.values[h], want.values[h],
                    sign ? 2.0 : 2e-5 * std::max(1.0, std::abs(double(want.values[h]))))
            << info->name << " step " << a.step << " head " << h;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, GetParam().projections == 1 ? 500 : 100);
}
INSTANTIATE_TEST_SUITE_P(DeviceTest, DeviceCadence,
                         ::testing::Values(Cadence{10, 1}, Cadence{1, 1}, Cadence{3, 1}, Cadence{4, 2},
                                           Cadence{3, 5}),
                         [](const auto& cadence) {
                           return "Every" + std::to_string(cadence.param.spectra) + "And" +
                                  std::to_string(cadence.param.projections);
                         });

TEST(DeviceTest, MovedWeightsAreReadWhereTheyAre) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model(Shape());
  const OnDevice first(model), second(model);
  ASSERT_EQ(first.Register(model, run), FS_OK);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  // Weights stay on their kind of memory.
  fs_weights q = model.Weights(0, false), k = model.Weights(0, true);
  EXPECT_EQ(fs_layer_set_weights(run, 0, &q, &k), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run), ::testing::HasSubstr("device"));
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
}

// What a run told: events' details, and what its Hello calls unmonitored.
std::vector<std::string> Told(const Recording& recording) {
  std::vector<std::string> told;
  for (const auto& event : recording.events) told.push_back(event.detail);
  for (const auto& hello : recording.hellos) {
    for (const auto& item : hello.unmonitored) told.push_back(item.name + ": " + item.reason);
  }
  return told;
}

// Weights whose tables no device has room for: they go unmonitored, with the reason, and training goes on.
TEST(DeviceTest, NoRoomForTheWeightsTablesIsTold) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  Device memory;
  const float word = 1;
  fs_weights q;
  fs_weights_init(&q);
  q.data = memory.Copy(&word, sizeof word);  // nobody reads it
  q.row_stride = 1;
  q.col_stride = int64_t{1} << 20;
  q.head_stride = 16 * q.col_stride;
  fs_layer layer;
  fs_layer_init(&layer);
  layer.model_dim = 1 << 20;
  layer.query_heads = layer.kv_heads = 8192;  // whose u alone are 206 GB
  layer.head_dim = 16;
  layer.wq = &q;
  ASSERT_EQ(fs_add_layer(run, &layer), FS_OK) << fs_last_error(run);
  for (int64_t t = 0; t < 3; ++t) {
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_loss(run, 1.0, 10), FS_OK);
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_EQ(recording.frames.size(), 3u);
  EXPECT_THAT(
      Told(recording),
      ::testing::Contains(::testing::HasSubstr("weights on CUDA device 0: cudaMalloc: out of memory")));
}

// A run of weights alone, with spectra every so many steps.
fs_run* OpenWeights(const std::string& path, const ToyModel& model, const OnDevice& weights,
                    uint32_t spectra_every_steps) {
  const std::string address = "file:" + path;
  fs_options options = TestOptions(address);
  options.attention_every_steps = 0;
  options.spectra_every_steps = spectra_every_steps;
  fs_run* run = nullptr;
  EXPECT_EQ(fs_open(&options, &run), FS_OK);
  EXPECT_EQ(weights.Register(model, run), FS_OK);
  return run;
}

// An error at a step ends the weights' measurements with its reason, and nothing else.
TEST(DeviceTest, AnErrorOfTheWeightsIsTold) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape());
  const OnDevice weights(model);
  fs_run* const run = OpenWeights(dir / "run.fsk", model, weights, 1);
  const Stream good, bad;
  for (int64_t t = 0; t < 5; ++t) {
    std::optional<BrokenCapture> broken;
    if (t == 2) broken.emplace(bad);
    EXPECT_EQ(fs_set_stream(run, 0, t == 2 ? bad : good), FS_OK);
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_loss(run, 1.0, 10), FS_OK);
    EXPECT_EQ(fs_step_end(run), FS_OK);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "nothing is left for the trainer to come upon";
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir / "run.fsk");
  ASSERT_EQ(recording.frames.size(), 5u);
  for (const auto& series : recording.frames[4].series) EXPECT_NE(series.signal, kQkSigma1);
  EXPECT_THAT(Told(recording), ::testing::Contains(::testing::HasSubstr("weights on CUDA device 0: ")));
}

// A trainer that captures its forward begins a step inside of the capture; what is enqueued there would be
// done at each replay.
TEST(DeviceTest, AStepInsideOfACaptureRecordsNothing) {
  FS_NEEDS_DEVICE();
  TempDir dir;
  ToyModel model(Shape());
  const OnDevice weights(model);
  fs_run* const run = OpenWeights(dir / "run.fsk", model, weights, 2);
  const Stream stream;
  EXPECT_EQ(fs_set_stream(run, 0, stream), FS_OK);
  for (int64_t t = 0; t < 9; ++t) {
    const bool captured = t == 3 || t == 6;  // behind a sampled step and behind one that is not
    if (captured) {
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    }
    EXPECT_EQ(fs_step_begin(run, t), FS_OK);
    EXPECT_EQ(fs_loss(run, 1.0, 10), FS_OK);
    EXPECT_EQ(fs_step_end(run), FS_OK);
    if (!captured) continue;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 0u) << "step " << t;
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir / "run.fsk");
  ASSERT_EQ(recording.frames.size(), 9u);
  for (size_t t = 0; t < 9; ++t) {
    int spectra = 0;
    for (const auto& series : recording.frames[t].series) spectra += series.signal == kQkSigma1;
    EXPECT_EQ(spectra > 0, t % 2 == 0 && t != 6) << "step " << t;
  }
  EXPECT_TRUE(recording.events.empty());
}

}  // namespace
}  // namespace foreshock::testing
