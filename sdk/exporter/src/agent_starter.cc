#include "agent_starter.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "foreshock/base/file.h"
#include "foreshock/base/socket_folder.h"

extern char** environ;

namespace foreshock::sdk {
namespace {

// Owns what posix_spawn wants prepared.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  int Fill() {
    int error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0) {
      error = posix_spawnattr_setflags(&attributes,
                                       POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    return error;
  }
};

}  // namespace

AgentStarter::~AgentStarter() {
  Reap();
  if (lock_fd_ >= 0) close(lock_fd_);
}

Status AgentStarter::Start(const std::string& socket_path) {
  if (!options_.start) return Status(Code::kFailedPrecondition, "starting an agent is not allowed");
  if (options_.path.empty() || options_.path[0] != '/') {
    return Status(Code::kInvalidArgument, "agent_path: '" + options_.path + "', must be absolute");
  }
  Reap();
  if (pid_ > 0) return OkStatus();
  FS_RETURN_IF_ERROR(MakeSocketFolder(ParentPath(socket_path)));
  const std::string lock_path = socket_path + ".start.lock";
  if (lock_fd_ < 0) lock_fd_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0660);
  if (lock_fd_ < 0) return Status(Code::kIo, "open " + lock_path + ": " + std::strerror(errno));
  // Held while the agent this process started lives, so that other ranks do not start more.
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) return OkStatus();
  return Spawn(socket_path);
}

Status AgentStarter::Spawn(const std::string& socket_path) {
  std::vector<std::string> words = {options_.path, "--listen", "unix:" + socket_path};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  SpawnSetup setup;
  int error = setup.Fill();
  pid_t pid = -1;
  if (error == 0) {
    error = posix_spawn(&pid, options_.path.c_str(), &setup.actions, &setup.attributes, argv.data(), environ);
  }
  if (error != 0) {
    flock(lock_fd_, LOCK_UN);
    return Status(Code::kIo, "start " + options_.path + ": " + std::strerror(error));
  }
  pid_ = pid;
  return OkStatus();
}

void AgentStarter::Reap() noexcept {
  if (pid_ <= 0) return;
  int state = 0;
  if (waitpid(pid_, &state, WNOHANG) != pid_) return;
  pid_ = -1;
  if (lock_fd_ >= 0) flock(lock_fd_, LOCK_UN);
}

}  // namespace foreshock::sdk
