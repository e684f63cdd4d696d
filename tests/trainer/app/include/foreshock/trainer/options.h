#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/trainer/training.h"

namespace foreshock::trainer {

struct Options {
  TrainingConfig training;
  std::int64_t steps = 2800;
  std::vector<std::string> data;   // files and folders to train on; empty: the project's own sources and docs
  std::int64_t sample_every = 10;  // steps between samples: of the smoothed loss, and of Foreshock's signals
  std::int64_t log_every = 100;    // steps between lines of text
  bool quiet = false;              // no lines of text but errors
  bool jsonl = false;              // a JSON object a sample on stdout, and one at the end, instead of text
  bool mark_steps = false;         // write(-1, "step begin N") and "step end N" around each step, for tracing
  std::string checkpoint_dir;      // empty: no checkpoints
  std::int64_t checkpoint_every = 500;
  std::string resume;    // checkpoint file, or a folder whose newest step is taken
  bool qk_norm = false;  // QK normalization in every layer from the start
  bool help = false;
};

// Reads the command line. False and a sentence in `error` for an unknown option, a missing or malformed
// value, or one out of its bounds; the sentence names option, value and limit.
bool parse_options(int argc, const char* const* argv, Options* options, std::string* error);

const char* help_text();

}  // namespace foreshock::trainer
