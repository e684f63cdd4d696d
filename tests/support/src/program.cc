#include "foreshock/tests/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace foreshock::tests {

Program::Program(const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::vector<char*> arguments;
  for (const std::string& arg : argv) arguments.push_back(const_cast<char*>(arg.c_str()));
  arguments.push_back(nullptr);
  const int error = ::posix_spawnp(&pid_, argv[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  pipe_ = ends[0];
  if (error != 0) {
    ::close(pipe_);
    throw std::runtime_error(argv[0] + " cannot be started; is its package installed?");
  }
  reader_ = std::thread([this] { Read(); });
}

Program::~Program() {
  if (!waited_) {
    ::kill(pid_, SIGTERM);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [this] { return ended_; })) ::kill(pid_, SIGKILL);
    lock.unlock();
    Wait();
  }
  reader_.join();
  ::close(pipe_);
}

void Program::Read() {
  std::string rest;
  char bytes[4096];
  for (;;) {
    const ssize_t n = ::read(pipe_, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.append(bytes, static_cast<size_t>(n));
    std::lock_guard lock(mutex_);
    for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
      lines_.push_back(rest.substr(0, end));
    }
    changed_.notify_all();
  }
  std::lock_guard lock(mutex_);
  if (!rest.empty()) lines_.push_back(rest);
  ended_ = true;
  changed_.notify_all();
}

std::string Program::WaitForLine(const std::string& text, std::chrono::seconds timeout) {
  std::unique_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + timeout;
  size_t next = 0;
  for (;;) {
    for (; next < lines_.size(); ++next) {
      if (lines_[next].find(text) != std::string::npos) return lines_[next];
    }
    if (ended_ || changed_.wait_until(lock, end) == std::cv_status::timeout) {
      std::string all;
      for (const std::string& line : lines_) all += line + "\n";
      throw std::runtime_error("no line with \"" + text + "\" in:\n" + all);
    }
  }
}

int Program::Wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  waited_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Program::output() {
  std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) all += line + "\n";
  return all;
}

int PortOf(const std::string& line) {
  const size_t colon = line.rfind(':');
  return std::stoi(line.substr(colon + 1));
}

}  // namespace foreshock::tests
