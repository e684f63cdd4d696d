// Gives a target every file of the folders named, and every beginning of the small ones: the kept corpus as a
// test.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

constexpr size_t kSmallBytes = 512;

void Give(const std::string& bytes) {
  // A copy of exactly this size, so that a sanitizer sees one byte too far.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::cerr << path.filename().string() << "\n";
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      Give(bytes);
      for (size_t cut = 0; bytes.size() <= kSmallBytes && cut < bytes.size(); ++cut)
        Give(bytes.substr(0, cut));
      ++inputs;
    }
  }
  if (inputs == 0) {
    std::cerr << "no corpus: a replay of nothing proves nothing\n";
    return 1;
  }
  std::cout << inputs << " inputs\n";
  return 0;
}
