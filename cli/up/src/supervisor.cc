#include "foreshock/cli/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace foreshock::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPoll(20);

sigset_t OurSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended";
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The child's side between fork and exec: only calls that are safe there.
[[noreturn]] void Become(char* const* argv, const sigset_t& mask, pid_t parent, int failure_fd) {
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  setpgid(0, 0);  // a Ctrl-C in the terminal reaches the children once, through us
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() == parent) execv(argv[0], argv);
  const int why = errno;
  [[maybe_unused]] const auto told = write(failure_fd, &why, sizeof(why));
  _exit(127);
}

}  // namespace

Supervisor::Supervisor(Options options, std::ostream& log) : options_(options), log_(log) {
  const sigset_t ours = OurSignals();
  sigprocmask(SIG_BLOCK, &ours, &old_mask_);
}

Supervisor::~Supervisor() {
  Stop();
  while (TakeSignal(milliseconds(0)) != 0) {
  }
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

Status Supervisor::Start(const ChildSpec& spec) {
  unlink(spec.ready_file.c_str());
  std::vector<char*> argv;
  for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int failure[2];  // closes on exec: end of file means that the program runs
  if (pipe2(failure, O_CLOEXEC) != 0) return Status(Code::kIo, std::string("pipe: ") + std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(argv.data(), old_mask_, parent, failure[1]);
  close(failure[1]);
  if (pid < 0) {
    close(failure[0]);
    return Status(Code::kIo, std::string("fork: ") + std::strerror(errno));
  }
  int why = 0;
  const bool failed = read(failure[0], &why, sizeof(why)) == static_cast<ssize_t>(sizeof(why));
  close(failure[0]);
  if (failed) {
    waitpid(pid, nullptr, 0);
    return Status(Code::kIo, spec.name + ": " + spec.argv[0] + ": " + std::strerror(why));
  }
  children_.push_back({spec.name, pid});

  const auto deadline = Clock::now() + options_.ready_timeout;
  while (!Exists(spec.ready_file)) {
    const int signal = TakeSignal(kPoll);
    if (signal != 0 && signal != SIGCHLD) return Status(Code::kFailedPrecondition, "stopped by a signal");
    const std::string ended = Reap();
    if (!ended.empty()) return Status(Code::kUnavailable, ended);
    if (Clock::now() >= deadline) {
      return Status(Code::kUnavailable, spec.name + ": not ready within " +
                                            std::to_string(options_.ready_timeout.count()) + " ms");
    }
  }
  return OkStatus();
}

Status Supervisor::Wait() {
  for (;;) {
    const std::string ended = Reap();
    if (!ended.empty()) return Status(Code::kUnavailable, ended);
    const int signal = TakeSignal(milliseconds(60'000));
    if (signal != 0 && signal != SIGCHLD) return OkStatus();
  }
}

void Supervisor::Stop() {
  while (!children_.empty()) {
    const Child child = children_.back();
    children_.pop_back();
    kill(child.pid, SIGTERM);
    if (Ended(child.pid, options_.stop_timeout)) continue;
    log_ << child.name << " (pid " << child.pid << ") did not stop within " << options_.stop_timeout.count()
         << " ms: killed\n";
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
}

int Supervisor::TakeSignal(milliseconds wait) {
  const sigset_t ours = OurSignals();
  timespec limit{};
  limit.tv_sec = wait.count() / 1000;
  limit.tv_nsec = wait.count() % 1000 * 1'000'000;
  const int signal = sigtimedwait(&ours, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

std::string Supervisor::Reap() {
  for (auto child = children_.begin(); child != children_.end(); ++child) {
    int status = 0;
    if (waitpid(child->pid, &status, WNOHANG) != child->pid) continue;
    const std::string text = child->name + " (pid " + std::to_string(child->pid) + ") " + HowItEnded(status);
    children_.erase(child);
    return text;
  }
  return "";
}

bool Supervisor::Ended(pid_t pid, milliseconds wait) {
  const auto deadline = Clock::now() + wait;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    TakeSignal(kPoll);
  }
  return true;
}

}  // namespace foreshock::cli
