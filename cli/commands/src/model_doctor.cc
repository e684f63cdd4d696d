#include "model_doctor.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

extern char** environ;

namespace foreshock::cli {
namespace {

// A Python without torch or without the package would end `-m foreshock.doctor` with a traceback and status
// 1, which means "some layers would not be watched".
constexpr const char* kModelDoctorScript = R"(
import sys
try:
    import importlib.util, torch
    if importlib.util.find_spec("foreshock.doctor") is None:
        raise ImportError("No module named 'foreshock.doctor'")
except (ImportError, OSError) as error:
    print(f"foreshock: python: {sys.executable}: {error}: it needs torch and the package foreshock (pip install); "
          "--python or FORESHOCK_PYTHON names another", file=sys.stderr)
    sys.exit(3)
import runpy
runpy.run_module("foreshock.doctor", run_name="__main__", alter_sys=True)
)";

Result<int> AwaitPython(pid_t pid, const std::string& python) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Status(Code::kIo, std::string("waitpid: ") + std::strerror(errno));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return Status(Code::kIo, "python: " + python + ": ended by signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace

Result<int> RunModelDoctor(Context& context, const std::string& python, const std::string& model, bool json) {
  std::vector<std::string> words{python, "-c", kModelDoctorScript};
  if (json) words.push_back("--json");
  words.insert(words.end(), {"--", model});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  context.out.flush();
  context.err.flush();
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (failed != 0) {
    return Status(Code::kUnavailable,
                  "python: '" + python + "': " + std::strerror(failed) +
                      "; --python or FORESHOCK_PYTHON names one that has torch and the package foreshock");
  }
  return AwaitPython(pid, python);
}

}  // namespace foreshock::cli
