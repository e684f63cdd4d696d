#include "foreshock/trainer/run.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "foreshock/trainer/outcome.h"
#include "foreshock/trainer/report.h"

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".ckpt";

std::int64_t step_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  std::int64_t step = -1;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto [at, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && at == end ? step : -1;
}

// A write to no file: fails at once, does nothing, and stands in a system call trace.
void mark(bool on, const char* what, std::int64_t step) {
  if (!on) return;
  char text[48];
  const int length = std::snprintf(text, sizeof(text), "step %s %" PRId64, what, step);
  [[maybe_unused]] const auto failed = ::write(-1, text, static_cast<std::size_t>(length));
}

class Run {
 public:
  Run(const Options& options, const Corpus& corpus)
      : options_(options), training_(options.training, corpus), report_(options, stdout), corpus_(corpus) {}

  bool prepare(std::string* error) {
    if (!options_.checkpoint_dir.empty()) {
      std::error_code code;
      fs::create_directories(options_.checkpoint_dir, code);
      if (code) {
        *error = "cannot make folder " + options_.checkpoint_dir + ": " + code.message();
        return false;
      }
    }
    if (options_.qk_norm) {
      for (int layer = 0; layer < training_.model().shape().layers; ++layer) {
        training_.model().attention(layer).set_qk_norm(true);
      }
    }
    if (options_.resume.empty()) return true;
    const std::string path = find_checkpoint(options_.resume);
    if (path.empty()) {
      *error = "no checkpoint in " + options_.resume;
      return false;
    }
    return training_.restore(path, error);
  }

  bool train(std::string* error) {
    report_.begin(corpus_, training_);
    const std::int64_t first = training_.step();
    const auto start = std::chrono::steady_clock::now();
    while (training_.step() < options_.steps) {
      step();
      if (!maybe_checkpoint(error)) return false;
    }
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    const auto steps = static_cast<double>(training_.step() - first);
    report_.end(training_, outcome_, steps > 0 ? spent.count() / steps : 0);
    return true;
  }

 private:
  void step() {
    const std::int64_t at = training_.step();
    mark(options_.mark_steps, "begin", at);
    training_.compute();
    const bool fault = training_.fault_active();
    training_.update();
    mark(options_.mark_steps, "end", at);
    if (at % options_.sample_every == 0) outcome_.add(at, training_.result().loss);
    report_.step(training_, outcome_, fault);
  }

  bool maybe_checkpoint(std::string* error) {
    if (options_.checkpoint_dir.empty() || training_.step() % options_.checkpoint_every != 0) return true;
    const std::string path =
        (fs::path(options_.checkpoint_dir) / ("step-" + std::to_string(training_.step()) + ".ckpt")).string();
    if (!training_.save(path, error)) return false;
    report_.checkpoint(training_.step(), path.c_str());
    return true;
  }

  const Options& options_;
  Training training_;
  Outcome outcome_;
  Report report_;
  const Corpus& corpus_;
};

}  // namespace

std::string find_checkpoint(const std::string& resume) {
  std::error_code code;
  if (!fs::is_directory(resume, code)) return resume;
  std::int64_t newest = -1;
  std::string path;
  for (fs::directory_iterator it(resume, code); !code && it != fs::directory_iterator(); it.increment(code)) {
    const std::int64_t step = step_of(it->path().filename().string());
    if (step <= newest) continue;
    newest = step;
    path = it->path().string();
  }
  return path;
}

bool run(const Options& options, std::string* error) {
  Corpus corpus;
  if (!load_corpus(options.data, &corpus, error)) return false;
  Run one(options, corpus);
  return one.prepare(error) && one.train(error);
}

}  // namespace foreshock::trainer
