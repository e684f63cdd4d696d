// Puts rows together to frames by step. Private.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "foreshock/cli/import.h"
#include "rows.h"
#include "signal_names.h"

namespace foreshock::cli {

class RecordingBuilder {
 public:
  RecordingBuilder(std::string run, ImportOptions options, SignalNames names)
      : run_(std::move(run)), options_(std::move(options)), names_(std::move(names)) {}

  Status Take(Row row);
  // kInvalidArgument when no row held a signal.
  Result<Imported> Finish();

 private:
  struct Step {
    std::map<Target, float> values;
    uint64_t time_unix_ns = 0;
  };
  struct Attempt {
    std::map<int64_t, Step> steps;
  };

  // The row's step; nothing where the row has none (then it holds no signal either, or it is an error).
  Result<std::optional<int64_t>> StepOf(const Row& row);
  Status Put(const Row& row, const Cell& cell, const Target& target, int64_t step);
  wire::Hello HelloOf(size_t attempt) const;
  wire::Frame FrameOf(int64_t step, const Step& values, uint64_t seq) const;

  const std::string run_;
  const ImportOptions options_;
  const SignalNames names_;
  std::vector<Attempt> attempts_ = std::vector<Attempt>(1);
  int64_t last_step_ = -1;
  std::set<std::string> used_, left_out_;
  std::set<std::string> step_columns_;
  int64_t twice_ = 0, without_step_ = 0;
  std::map<uint32_t, uint32_t> heads_;  // layer -> heads seen
  Imported imported_;
};

}  // namespace foreshock::cli
