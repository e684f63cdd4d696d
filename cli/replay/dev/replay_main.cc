// foreshock-replay RECORDING [--json] [--rules FILE]: what `foreshock replay` does, without the rest of the
// command line.
#include <cstring>
#include <iostream>

#include "foreshock/cli/replay.h"

int main(int argc, char** argv) {
  foreshock::cli::ReplayOptions options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      options.json = true;
    } else if (std::strcmp(argv[i], "--rules") == 0 && i + 1 < argc) {
      options.rules_path = argv[++i];
    } else {
      options.path = argv[i];
    }
  }
  return foreshock::cli::RunReplay(options, std::cout, std::cerr);
}
