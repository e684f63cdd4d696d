#pragma once

#include <cstdint>
#include <string>

namespace foreshock::trainer {

// Names in a checkpoint folder: step-N.ckpt holds the model before step N, step-N.guard the guard's state.
std::string checkpoint_path(const std::string& folder, std::int64_t step);
std::string guard_path(const std::string& checkpoint);

// The checkpoint that `resume` means: the file itself, or of a folder the step-N.ckpt with the largest N;
// empty when the folder has none.
std::string find_checkpoint(const std::string& resume);

// Empty `folder`: nothing to do. False and a sentence in `error` when it cannot be made.
bool make_checkpoint_folder(const std::string& folder, std::string* error);

}  // namespace foreshock::trainer
