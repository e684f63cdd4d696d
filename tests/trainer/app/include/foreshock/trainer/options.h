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
  std::string resume;  // checkpoint file, or a folder whose newest step is taken

  std::string foreshock;  // address of Foreshock; empty: FORESHOCK_ADDR says, else not watched
  std::string run;        // name of the run; empty: FORESHOCK_RUN says, else "run"
  std::string agent;      // absolute path of the agent to start when none listens; empty: none
  std::vector<std::string> agent_arguments;  // further arguments for it
  std::int64_t row_every = 8;                // one attention row in so many
  std::int64_t snapshot_bytes = 0;           // memory for copies of W_Q and W_K; 0: none
  double budget = 1;     // share of step time Foreshock may take; 1: sampling never stretches
  bool guard = false;    // let the guard switch QK normalization on
  bool qk_norm = false;  // QK normalization in every layer from the start
  bool help = false;
};

// Reads the command line. False and a sentence in `error` for an unknown option, a missing or malformed
// value, or one out of its bounds; the sentence names option, value and limit.
bool parse_options(int argc, const char* const* argv, Options* options, std::string* error);

const char* help_text();

}  // namespace foreshock::trainer
