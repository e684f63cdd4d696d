#include "foreshock/trainer/report.h"

#include <array>
#include <cinttypes>
#include <cmath>

namespace foreshock::trainer {
namespace {

struct Worst {
  int layer = 0;
  int head = 0;
  float logit = 0;
};

Worst worst_head(const Model& model) {
  Worst worst{0, 0, model.attention(0).largest_logit(0)};
  for (int layer = 0; layer < model.shape().layers; ++layer) {
    for (int head = 0; head < model.shape().heads; ++head) {
      const float logit = model.attention(layer).largest_logit(head);
      if (logit > worst.logit || (std::isnan(logit) && !std::isnan(worst.logit)))
        worst = {layer, head, logit};
    }
  }
  return worst;
}

// A JSON number, or null for what JSON has no number for.
struct JsonNumber {
  explicit JsonNumber(double value) {
    if (std::isfinite(value)) {
      std::snprintf(text.data(), text.size(), "%.9g", value);
    } else {
      std::snprintf(text.data(), text.size(), "\"%s\"",
                    std::isnan(value) ? "NaN"
                    : value > 0       ? "Infinity"
                                      : "-Infinity");
    }
  }
  const char* str() const { return text.data(); }
  std::array<char, 32> text;
};

}  // namespace

void Report::begin(const Corpus& corpus, const Training& training) {
  if (!text()) return;
  const ModelShape& shape = training.model().shape();
  std::fprintf(out_, "%d layers, %d heads of %d, %zu parameters, %s kernels; %zu files, %zu bytes of text\n",
               shape.layers, shape.heads, shape.head_dim, training.model().weights().size(), kernels().name,
               corpus.files, corpus.bytes.size());
  if (training.step() > 0) std::fprintf(out_, "resumed at step %" PRId64 "\n", training.step());
  std::fflush(out_);
}

void Report::step(const Training& training, const Outcome& outcome, bool fault_active) {
  const StepResult& r = training.result();
  if (options_.jsonl && r.step % options_.sample_every == 0) {
    const Worst worst = worst_head(training.model());
    std::fprintf(out_,
                 "{\"step\":%" PRId64
                 ",\"loss\":%s,\"smoothed_loss\":%s,\"grad_norm\":%s,\"learning_rate\":%s,\"logit_max\":%s,"
                 "\"layer\":%d,\"head\":%d,\"fault\":%s}\n",
                 r.step, JsonNumber(r.loss).str(), JsonNumber(outcome.smoothed()).str(),
                 JsonNumber(r.grad_norm).str(), JsonNumber(r.learning_rate).str(),
                 JsonNumber(static_cast<double>(worst.logit)).str(), worst.layer, worst.head,
                 fault_active ? "true" : "false");
    std::fflush(out_);
  }
  if (text() && r.step % options_.log_every == 0) {
    const Worst worst = worst_head(training.model());
    std::fprintf(
        out_,
        "step %5" PRId64
        "  loss %6.3f  smoothed %6.3f  grad_norm %8.3f  largest logit %9.1f (layer %d head %d)%s%s\n",
        r.step, r.loss, outcome.smoothed(), r.grad_norm, static_cast<double>(worst.logit), worst.layer,
        worst.head, fault_active ? "  fault on" : "", r.skipped ? "  skipped" : "");
    std::fflush(out_);
  }
}

void Report::checkpoint(std::int64_t step, const char* path) {
  if (options_.jsonl) std::fprintf(out_, "{\"event\":\"checkpoint\",\"step\":%" PRId64 "}\n", step);
  if (text()) std::fprintf(out_, "step %5" PRId64 "  checkpoint %s\n", step, path);
  std::fflush(out_);
}

void Report::qk_norm(std::int64_t step, int layer) {
  if (options_.jsonl) {
    std::fprintf(out_, "{\"event\":\"qk_norm\",\"step\":%" PRId64 ",\"layer\":%d}\n", step, layer);
  }
  if (text()) std::fprintf(out_, "step %5" PRId64 "  QK normalization on in layer %d\n", step, layer);
  std::fflush(out_);
}

void Report::action(std::int64_t step, const fs_action& action, bool taken) {
  const char* state = taken ? "taken" : "refused";
  if (options_.jsonl) {
    std::fprintf(out_, "{\"event\":\"action\",\"step\":%" PRId64 ",\"kind\":\"%s\",\"state\":\"%s\"}\n", step,
                 action.kind, state);
  }
  if (text()) {
    std::fprintf(out_, "step %5" PRId64 "  action %s from %s: %s\n", step, action.kind, action.issuer, state);
  }
  std::fflush(out_);
}

void Report::watched(const fs_stats& stats) {
  const double milliseconds = static_cast<double>(stats.own_nanos) * 1e-6;
  if (options_.jsonl) {
    std::fprintf(out_,
                 "{\"event\":\"foreshock\",\"steps\":%" PRIu64 ",\"sampled_steps\":%" PRIu64
                 ",\"sent\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"own_ms\":%.3f,\"guard_layers\":%" PRIu32
                 "}\n",
                 stats.steps, stats.sampled_steps, stats.sent, stats.queue_dropped + stats.window_dropped,
                 milliseconds, stats.guard_layers);
  }
  if (text() && stats.steps > 0) {
    std::fprintf(out_,
                 "Foreshock: %" PRIu64 " steps, %" PRIu64 " sampled, %" PRIu64 " records sent, %" PRIu64
                 " dropped, %.2f ms a step%s%s\n",
                 stats.steps, stats.sampled_steps, stats.sent, stats.queue_dropped + stats.window_dropped,
                 milliseconds / static_cast<double>(stats.steps), stats.not_recording[0] != 0 ? "; " : "",
                 stats.not_recording);
  }
}

void Report::end(const Training& training, const Outcome& outcome, double milliseconds_per_step) {
  const auto collapse = outcome.collapse_step();
  if (options_.jsonl) {
    std::fprintf(out_,
                 "{\"event\":\"end\",\"steps\":%" PRId64
                 ",\"smoothed_loss\":%s,\"minimum\":%s,\"collapse_step\":",
                 training.step(), JsonNumber(outcome.smoothed()).str(), JsonNumber(outcome.minimum()).str());
    if (collapse) {
      std::fprintf(out_, "%" PRId64 "}\n", *collapse);
    } else {
      std::fprintf(out_, "null}\n");
    }
  }
  if (text()) {
    std::fprintf(out_, "%" PRId64 " steps, smoothed loss %.3f (lowest %.3f), ", training.step(),
                 outcome.smoothed(), outcome.minimum());
    if (collapse) {
      std::fprintf(out_, "collapsed at step %" PRId64, *collapse);
    } else {
      std::fprintf(out_, "no collapse");
    }
    std::fprintf(out_, "; %.1f ms a step\n", milliseconds_per_step);
  }
  std::fflush(out_);
}

}  // namespace foreshock::trainer
