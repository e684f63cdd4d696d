#include "foreshock/trainer/data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLeastBytes = 4096;

bool wanted_file(const fs::path& path) {
  constexpr std::array<std::string_view, 9> kEndings = {".cc",    ".h",     ".c",  ".cu", ".py",
                                                        ".cmake", ".proto", ".md", ".txt"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

bool skipped_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".") || name.starts_with("build");
}

bool append_file(const fs::path& path, Corpus* corpus, std::string* error) {
  std::ifstream in(path, std::ios::binary);
  corpus->bytes.insert(corpus->bytes.end(), std::istreambuf_iterator<char>(in),
                       std::istreambuf_iterator<char>());
  if (!in) {
    *error = "cannot read " + path.string();
    return false;
  }
  ++corpus->files;
  return true;
}

bool append_folder(const fs::path& folder, Corpus* corpus, std::string* error) {
  std::vector<fs::path> files;
  std::error_code code;
  fs::recursive_directory_iterator it(folder, code);
  for (; !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    if (it->is_directory(code)) {
      if (skipped_folder(it->path())) it.disable_recursion_pending();
    } else if (it->is_regular_file(code) && wanted_file(it->path())) {
      files.push_back(it->path().lexically_relative(folder));
    }
  }
  if (code) {
    *error = "cannot list " + folder.string() + ": " + code.message();
    return false;
  }
  std::sort(files.begin(), files.end());
  return std::all_of(files.begin(), files.end(),
                     [&](const fs::path& file) { return append_file(folder / file, corpus, error); });
}

}  // namespace

bool load_corpus(const std::vector<std::string>& paths, Corpus* corpus, std::string* error) {
  for (const std::string& path : paths) {
    std::error_code code;
    const bool folder = fs::is_directory(path, code);
    if (!(folder ? append_folder(path, corpus, error) : append_file(path, corpus, error))) return false;
  }
  if (corpus->bytes.size() < kLeastBytes) {
    *error = "only " + std::to_string(corpus->bytes.size()) + " bytes of text found, at least " +
             std::to_string(kLeastBytes) + " are needed";
    return false;
  }
  return true;
}

Sampler::Sampler(const Corpus& corpus, int batch, int context, std::uint64_t seed)
    : corpus_(corpus),
      context_(static_cast<std::size_t>(context)),
      random_(seed),
      inputs_(static_cast<std::size_t>(batch) * context_),
      targets_(inputs_.size()) {}

void Sampler::draw() {
  const std::size_t places = corpus_.bytes.size() - context_;
  for (std::size_t at = 0; at < inputs_.size(); at += context_) {
    const auto from = corpus_.bytes.begin() + static_cast<std::ptrdiff_t>(random_.below(places));
    std::copy_n(from, context_, inputs_.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy_n(from + 1, context_, targets_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace foreshock::trainer
