#include "browser.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace foreshock::cli {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

// Actions and attributes of posix_spawn, given back at the end.
struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

}  // namespace

Status RunProgram(const std::string& name, const std::vector<std::string>& argv, const std::string& output,
                  std::chrono::milliseconds timeout) {
  SpawnSettings settings;
  posix_spawn_file_actions_addopen(&settings.files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&settings.files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&settings.files, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setflags(&settings.attributes,
                           POSIX_SPAWN_SETPGROUP);  // so that its children can be ended too
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, words[0], &settings.files, &settings.attributes, words.data(), environ);
  if (error != 0) return Status(Code::kUnavailable, name + ": " + std::strerror(error));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ended < 0)
      return Status(Code::kUnavailable, name + ": cannot be waited for: " + std::strerror(errno));
    if (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return Status(Code::kUnavailable, name + ": not done within " + std::to_string(timeout.count()) + " ms");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return OkStatus();
  return Status(Code::kUnavailable,
                name + (WIFEXITED(status) ? ": ended with status " + std::to_string(WEXITSTATUS(status))
                                          : ": ended by signal " + std::to_string(WTERMSIG(status))));
}

}  // namespace foreshock::cli
