// A file: recording holds, bit for bit, what was computed; both formats agree; a disk that fails is said
// once.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bit>
#include <csignal>
#include <cstring>
#include <map>

#include "foreshock/base/catalogue.h"
#include "foreshock/sdk/frame_encoder.h"
#include "foreshock/sdk/step_sampler.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

Recording Record(const std::string& path, int steps, bool json) {
  const std::string address = "file:" + path;
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  EXPECT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  EXPECT_EQ(model.Register(run), FS_OK);
  for (int t = 0; t < steps; ++t) model.Step(run, t);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  return json ? Recording() : ReadRecording(path);
}

TEST(RecordingTest, FramedHoldsWhatTheSamplerComputed) {
  TempDir dir;
  const Recording recording = Record(dir / "run.fsk", 11, false);
  // The same calls on the sampler itself, in another object.
  ToyModel model;
  std::vector<sdk::LayerSpec> layers;
  for (int l = 0; l < model.s.layers; ++l) {
    sdk::LayerSpec spec;
    spec.layer = static_cast<uint32_t>(l);
    spec.model_dim = 24;
    spec.query_heads = spec.local_query_heads = 4;
    spec.kv_heads = spec.local_kv_heads = 2;
    spec.head_dim = 8;
    spec.scale = 1 / std::sqrt(8.0f);
    for (const bool key_side : {false, true}) {
      sdk::ProjectionSpec projection;
      projection.data = (key_side ? model.wk : model.wq)[static_cast<size_t>(l)].data();
      projection.row_stride = 1;
      projection.col_stride = 24;
      projection.weight_decay = 0.1;
      for (int64_t h = 0; h < (key_side ? 2 : 4); ++h) projection.head_offsets.push_back(h * 8 * 24);
      (key_side ? spec.wk : spec.wq) = projection;
    }
    layers.push_back(spec);
  }
  sdk::SamplerOptions options;
  options.budget = 1;
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a of the run's name is the seed of row sampling
  for (const char c : std::string("test-run")) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  options.seed = hash;
  sdk::StepSampler sampler(layers, options, SystemClock::Instance());
  for (int t = 0; t < 11; ++t) {
    sampler.Begin(t);
    const auto view = [&](const std::vector<float>& data, int heads) {
      return kernels::Bshd(data.data(), kernels::DType::kFp32, 2, 12, heads, 8);
    };
    sdk::AttentionCall call;
    call.problem.attention.q = view(model.q, 4);
    call.problem.attention.k = view(model.k, 2);
    call.problem.v = view(model.v, 2);
    call.problem.o = view(model.o, 4);
    for (size_t l = 0; l < 2; ++l) ASSERT_TRUE(sampler.Forward(l, call).ok());
    sampler.Loss(3.0 - 1e-3 * t, 24);
    call.problem.d_o = view(model.d_o, 4);
    call.problem.dq = view(model.dq, 4);
    for (size_t l = 0; l < 2; ++l) ASSERT_TRUE(sampler.Backward(l, call).ok());
    sampler.Scalar(kGradNorm, 1.25);
    sampler.Scalar(kLearningRate, 1e-3);
    model.Move();
    const wire::Frame expected = sdk::ToFrame(sampler.layout(), sampler.Finish(0));
    sampler.Publish();
    const wire::Frame& got = recording.frames[static_cast<size_t>(t)];
    ASSERT_EQ(got.series.size(), expected.series.size()) << t;
    for (size_t i = 0; i < expected.series.size(); ++i) {
      const wire::Series &a = expected.series[i], &b = got.series[i];
      if (a.signal == kStepSeconds || a.signal == kProbeHostSeconds) continue;
      ASSERT_EQ(a.signal, b.signal);
      ASSERT_EQ(a.heads, b.heads);
      const auto bits = [](const std::vector<float>& values, const wire::Series& series, size_t per_head) {
        std::vector<uint32_t> out;
        for (size_t k = 0; k < values.size(); ++k) {
          if (series.has(k / per_head)) out.push_back(std::bit_cast<uint32_t>(values[k]));
        }
        return out;
      };
      EXPECT_EQ(bits(a.values, a, 1), bits(b.values, b, 1)) << FindSignal(a.signal)->name;
      EXPECT_EQ(bits(a.weights, a, 1), bits(b.weights, b, 1)) << FindSignal(a.signal)->name;
      EXPECT_EQ(bits(a.moments, a, 4), bits(b.moments, b, 4)) << FindSignal(a.signal)->name;
    }
  }
}

TEST(RecordingTest, TextHoldsTheSameNumbers) {
  TempDir dir;
  const Recording framed = Record(dir / "run.fsk", 11, false);
  Record(dir / "run.jsonl", 11, true);
  std::istringstream lines(ReadFile(dir / "run.jsonl"));
  std::string header, line;
  ASSERT_TRUE(std::getline(lines, header));
  EXPECT_THAT(header, ::testing::HasSubstr("\"run\":\"test-run\""));
  for (const wire::Frame& frame : framed.frames) {
    ASSERT_TRUE(std::getline(lines, line));
    wire::Frame comparable = frame;
    std::string expected = wire::JsonlLine(framed.hellos[0], comparable);
    // Times differ between the two runs.
    const auto without_times = [](std::string text) {
      for (const char* key : {"\"step_seconds\":", "\"probe_host_seconds\":"}) {
        const size_t at = text.find(key);
        if (at != std::string::npos) text.erase(at, text.find(',', at) - at);
      }
      return text;
    };
    EXPECT_EQ(without_times(line + "\n"), without_times(expected));
  }
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_THAT(line, ::testing::HasSubstr("goodbye"));
}

TEST(RecordingTest, AFolderThatIsNotThereIsSaidOnceAndTrainingGoesOn) {
  std::vector<std::string> lines;
  fs_options options = TestOptions("");
  options.address = "file:/nonexistent/run.fsk";
  options.log_context = &lines;
  options.log = [](void* context, fs_log_level level, const char* text) {
    if (level >= FS_LOG_WARNING) static_cast<std::vector<std::string>*>(context)->push_back(text);
  };
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int t = 0; t < 5; ++t) model.Step(run, t);
  fs_close(run, FS_FINISHED);
  ASSERT_EQ(lines.size(), 2u) << "one that nothing is recorded, one at the end";
  EXPECT_THAT(lines[0], ::testing::HasSubstr("open /nonexistent/run.fsk: No such file or directory"));
}

// A disk that is full for a while, stood in for by a limit on the file's size: no torn record, the gap
// declared or nothing lost, and the same line once.
TEST(RecordingTest, AFullDiskLeavesNoTornRecordAndRecordingGoesOn) {
  TempDir dir;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 5000;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  fs_stats stats;
  fs_stats_init(&stats);
  for (int t = 0; t < 30; ++t) model.Step(run, t);
  do {
    fs_get_stats(run, &stats);
  } while (std::string(stats.not_recording).empty());
  EXPECT_THAT(stats.not_recording, ::testing::HasSubstr("File too large"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  for (int t = 30; t < 40; ++t) model.Step(run, t);
  fs_close(run, FS_FINISHED);
  std::signal(SIGXFSZ, old);
  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_THAT(recording.warnings, ::testing::IsEmpty());
  EXPECT_EQ(recording.hellos.size(), 1u);
  ASSERT_EQ(recording.frames.size(), 40u);
  for (size_t t = 0; t < 40; ++t) {
    EXPECT_EQ(recording.frames[t].step, static_cast<int64_t>(t));
    EXPECT_EQ(recording.frames[t].dropped_before, 0u);
  }
}

}  // namespace
}  // namespace foreshock::testing
