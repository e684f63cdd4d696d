// When would the guard's trigger have switched on? Runs it over text recordings and prints one line a file:
//   bench_guard RUN.jsonl...
//   NAME steps S first_trigger T|none layer L head H logit X
// It only decides; the recordings show what happened without a guard.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/jsonl/text_recording.h"
#include "foreshock/sdk/saturation_trigger.h"

namespace {

using foreshock::wire::Frame;
using foreshock::wire::Hello;
using foreshock::wire::Series;

struct Replay {
  std::string run;
  uint32_t heads = 0;                                      // of a layer
  std::vector<foreshock::sdk::SaturationTrigger> trigger;  // one, once the header was read
  std::vector<foreshock::sdk::HeadReading> readings;
  std::vector<uint8_t> triggered;
  int64_t last_step = 0;
  int64_t first_trigger = -1;
  size_t first_head = 0;

  void Take(const Hello& hello) {
    run = hello.run;
    heads = hello.model.layers.empty() ? 0 : hello.model.layers[0].query_heads;
    readings.resize(hello.model.layers.size() * heads);
    triggered.resize(readings.size());
    trigger.assign(1, foreshock::sdk::SaturationTrigger(readings.size()));
  }

  void Take(const Frame& frame) {
    last_step = frame.step;
    if (trigger.empty() || first_trigger >= 0) return;
    bool any = false;
    for (auto& reading : readings) reading.present = false;
    for (const Series& series : frame.series) {
      if (!series.layer || *series.layer * heads >= readings.size()) continue;
      const bool logit = series.signal == foreshock::kLogitMax;
      if (!logit && series.signal != foreshock::kSaturatedRowFraction) continue;
      for (size_t i = 0; i < series.count(); ++i) {
        if (!series.has(i)) continue;
        auto& reading = readings[*series.layer * heads + series.heads[i]];
        if (logit) {
          reading.present = any = true;
          reading.logit_max = series.values[i];
        } else {
          reading.saturated = static_cast<double>(series.values[i]) / series.weight(i).value_or(1);
        }
      }
    }
    if (!any) return;
    trigger[0].Observe(readings, &triggered);
    for (size_t h = 0; h < triggered.size(); ++h) {
      if (!triggered[h]) continue;
      first_trigger = frame.step;
      first_head = h;
      return;
    }
  }

  void Print() const {
    if (first_trigger < 0) {
      std::printf("%s steps %lld first_trigger none\n", run.c_str(), static_cast<long long>(last_step));
      return;
    }
    std::printf("%s steps %lld first_trigger %lld layer %zu head %zu logit %.1f\n", run.c_str(),
                static_cast<long long>(last_step), static_cast<long long>(first_trigger), first_head / heads,
                first_head % heads, readings[first_head].logit_max);
  }
};

int ReplayFile(const char* path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  Replay replay;
  std::vector<std::string> warnings;
  const auto status = foreshock::jsonl::ReadTextRecording(
      text.str(),
      [&](foreshock::wire::RecordingItem item) {
        if (const auto* hello = std::get_if<Hello>(&item)) replay.Take(*hello);
        if (const auto* frame = std::get_if<Frame>(&item)) replay.Take(*frame);
      },
      &warnings);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", path, status.ToString().c_str());
    return 1;
  }
  replay.Print();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int failures = 0;
  for (int i = 1; i < argc; ++i) failures += ReplayFile(argv[i]);
  return failures == 0 ? 0 : 2;
}
