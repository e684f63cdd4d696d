#pragma once

#include <string>

#include "foreshock/trainer/options.h"

namespace foreshock::trainer {

// Trains as `options` say and reports on stdout. False and a sentence in `error` when data or a checkpoint
// cannot be read or written. Nothing that Foreshock does can make it fail.
bool run(const Options& options, std::string* error);

// The checkpoint `resume` means: the file itself, or the step-N.ckpt with the largest N of a folder; empty
// when the folder has none.
std::string find_checkpoint(const std::string& resume);

}  // namespace foreshock::trainer
