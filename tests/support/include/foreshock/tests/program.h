// Runs a real program beside a test, reads what it prints, and stops it by its pid.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace foreshock::tests {

class Program {
 public:
  // argv[0] is a path, or a name that PATH leads to. Throws when it cannot be started.
  explicit Program(const std::vector<std::string>& argv);
  ~Program();  // SIGTERM, after five seconds SIGKILL
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The first line of stdout or stderr that holds `text`, waiting for it; throws with all output after
  // `timeout`, or when the program ends without it.
  std::string WaitForLine(const std::string& text, std::chrono::seconds timeout = std::chrono::seconds(120));
  // Waits for the end; the exit status, or 128 + signal.
  int Wait();
  std::string output();

 private:
  void Read();

  int pid_ = -1;
  int pipe_ = -1;
  bool waited_ = false;
  std::mutex mutex_;  // guards lines_ and ended_
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  std::thread reader_;
};

// The port in a line like: msg="Listening on" address=127.0.0.1:42895
int PortOf(const std::string& line);

}  // namespace foreshock::tests
