#include "checkpoints.h"

#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".ckpt";

std::int64_t step_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  std::int64_t step = -1;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto [at, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && at == end ? step : -1;
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / (std::string(kPrefix) + std::to_string(step) + std::string(kSuffix))).string();
}

std::string guard_path(const std::string& checkpoint) {
  return fs::path(checkpoint).replace_extension(".guard").string();
}

std::string find_checkpoint(const std::string& resume) {
  std::error_code code;
  if (!fs::is_directory(resume, code)) return resume;
  std::int64_t newest = -1;
  std::string path;
  for (fs::directory_iterator it(resume, code); !code && it != fs::directory_iterator(); it.increment(code)) {
    const std::int64_t step = step_of(it->path().filename().string());
    if (step <= newest) continue;
    newest = step;
    path = it->path().string();
  }
  return path;
}

bool make_checkpoint_folder(const std::string& folder, std::string* error) {
  if (folder.empty()) return true;
  std::error_code code;
  fs::create_directories(folder, code);
  if (!code) return true;
  *error = "cannot make folder " + folder + ": " + code.message();
  return false;
}

}  // namespace foreshock::trainer
