#include "foreshock/trainer/run.h"

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "actions.h"
#include "checkpoints.h"
#include "foreshock/trainer/outcome.h"
#include "foreshock/trainer/report.h"
#include "watch.h"

namespace foreshock::trainer {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

// A write to no file: fails at once, does nothing, and stands in a system call trace.
void mark(bool on, const char* what, std::int64_t step) {
  if (!on) return;
  char text[48];
  const int length = std::snprintf(text, sizeof(text), "step %s %" PRId64, what, step);
  [[maybe_unused]] const auto failed = ::write(-1, text, static_cast<std::size_t>(length));
}

class Run : private ActionTarget {
 public:
  Run(const Options& options, const Corpus& corpus)
      : options_(options),
        training_(options.training, corpus),
        watch_(options, training_),
        report_(options, stdout),
        corpus_(corpus) {}

  bool prepare(std::string* error) {
    if (!watch_.guard_refusal().empty()) {
      *error = "--guard: " + watch_.guard_refusal();
      return false;
    }
    for (int layer = 0; options_.qk_norm && layer < training_.model().shape().layers; ++layer) {
      training_.model().attention(layer).set_qk_norm(true);
    }
    if (!make_checkpoint_folder(options_.checkpoint_dir, error)) return false;
    return options_.resume.empty() || resume(error);
  }

  bool train(std::string* error) {
    report_.begin(corpus_, training_);
    const std::int64_t first = training_.step();
    const auto start = std::chrono::steady_clock::now();
    while (training_.step() < options_.steps && !stop_ && stop_requested == 0) {
      step();
      take_actions(watch_.handle(), training_, *this);
      const bool due = !options_.checkpoint_dir.empty() && training_.step() % options_.checkpoint_every == 0;
      if (due && !checkpoint(error)) return false;
    }
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    const auto steps = static_cast<double>(training_.step() - first);
    report_.watched(watch_.stats());
    watch_.close(training_.step() < options_.steps ? FS_STOPPED : FS_FINISHED);
    report_.end(training_, outcome_, steps > 0 ? spent.count() / steps : 0);
    return true;
  }

 private:
  void step() {
    const std::int64_t at = training_.step();
    if (!fault_told_ && options_.training.fault.active(at)) {
      watch_.note(at, "fault " + describe(options_.training.fault));
      fault_told_ = true;
    }
    mark(options_.mark_steps, "begin", at);
    watch_.begin(at);
    watch_.apply_guard([&](int layer) { report_.qk_norm(at, layer); });
    training_.compute();
    watch_.measured();
    const bool fault = training_.fault_active();
    training_.update();
    watch_.end();
    mark(options_.mark_steps, "end", at);
    if (at % options_.sample_every == 0) outcome_.add(at, training_.result().loss);
    report_.step(training_, outcome_, fault);
  }

  bool resume(std::string* error) {
    const std::string path = find_checkpoint(options_.resume);
    if (path.empty()) {
      *error = "no checkpoint in " + options_.resume;
      return false;
    }
    if (!training_.restore(path, error)) return false;
    // A guard's state that is missing is Foreshock's to complain about: the checkpoint may be older than the
    // guard.
    if (watch_.guarded() && std::filesystem::exists(guard_path(path)) &&
        !watch_.restore_guard(guard_path(path), error)) {
      return false;
    }
    watch_.resumed(training_.step(), path);
    return true;
  }

  void enable_qk_norm(int layer) override {
    // With the guard on, Foreshock switches the layer at the next step by itself.
    if (watch_.guarded() || training_.model().attention(layer).qk_norm()) return;
    training_.model().attention(layer).set_qk_norm(true);
    report_.qk_norm(training_.step(), layer);
  }

  bool checkpoint(std::string* error) override {
    if (options_.checkpoint_dir.empty()) {
      *error = "no --checkpoint-dir was given";
      return false;
    }
    const std::string path = checkpoint_path(options_.checkpoint_dir, training_.step());
    if (!training_.save(path, error)) return false;
    if (watch_.guarded() && !watch_.save_guard(guard_path(path))) {
      *error = "cannot write the guard's state " + guard_path(path);
      return false;
    }
    watch_.checkpoint(training_.step(), path);
    report_.checkpoint(training_.step(), path.c_str());
    return true;
  }

  void stop() override { stop_ = true; }

  void action_seen(const fs_action& action, bool taken) override {
    report_.action(training_.step(), action, taken);
  }

  const Options& options_;
  Training training_;
  Watch watch_;
  Outcome outcome_;
  Report report_;
  const Corpus& corpus_;
  bool stop_ = false;
  bool fault_told_ = false;
};

}  // namespace

void stop_on_signal(int) { stop_requested = 1; }

bool run(const Options& options, std::string* error) {
  Corpus corpus;
  if (!load_corpus(options.data, &corpus, error)) return false;
  Run one(options, corpus);
  return one.prepare(error) && one.train(error);
}

}  // namespace foreshock::trainer
