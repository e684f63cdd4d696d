#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "foreshock/cli/program.h"

namespace {

int Columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string SelfFolder() {
  std::error_code code;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", code);
  return code ? "." : path.parent_path().string();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace foreshock::cli;
  // gRPC would put lines of its own to stderr, e.g. for every handshake that fails.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  Context context{std::cout, std::cerr,
                  StyleFor(terminal, std::getenv("NO_COLOR"), std::getenv("TERM"), Columns()), SelfFolder()};
  const int exit = RunProgram(argc, argv, context);
  std::cout.flush();
  return exit;
}
