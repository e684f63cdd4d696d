#include "signal_names.h"

#include <algorithm>
#include <charconv>

#include "foreshock/base/catalogue.h"

namespace foreshock::cli {
namespace {

struct CommonName {
  std::string_view name;
  uint16_t signal;
};

// Compared in lower case, with '-', ' ' and '.' as '_', and without a leading "train/" or "train_".
constexpr CommonName kCommonNames[] = {
    {"loss", kLoss},
    {"lm_loss", kLoss},
    {"training_loss", kLoss},
    {"cross_entropy", kLoss},
    {"loss/train", kLoss},
    {"grad_norm", kGradNorm},
    {"gradient_norm", kGradNorm},
    {"grad_norm_total", kGradNorm},
    {"global_grad_norm", kGradNorm},
    {"total_grad_norm", kGradNorm},
    {"learning_rate", kLearningRate},
    {"lr", kLearningRate},
    {"loss_scale", kLossScale},
    {"grad_scale", kLossScale},
    {"tokens", kTokens},
    {"step_seconds", kStepSeconds},
    {"step_time", kStepSeconds},
    {"iteration_time", kStepSeconds},
    {"elapsed_time_per_iteration", kStepSeconds},
};

std::string Plain(std::string_view column) {
  std::string plain(column);
  for (char& c : plain) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ' || c == '.') c = '_';
  }
  for (const std::string_view prefix : {"train/", "train_"}) {
    if (plain.starts_with(prefix)) return plain.substr(prefix.size());
  }
  return plain;
}

std::optional<uint32_t> Index(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 65'535) return std::nullopt;
  return value;
}

// "loss", "logit_max[3,0]".
std::optional<Target> Exact(std::string_view name) {
  const size_t open = name.find('[');
  const SignalInfo* info = FindSignal(name.substr(0, open));
  if (!info) return std::nullopt;
  const bool scalar = info->scope == SignalScope::kScalar;
  if (open == std::string_view::npos) return scalar ? std::optional(Target{info->id, {}, {}}) : std::nullopt;
  const size_t comma = name.find(',', open);
  if (scalar || comma == std::string_view::npos || name.back() != ']') return std::nullopt;
  const auto layer = Index(name.substr(open + 1, comma - open - 1));
  const auto head = Index(name.substr(comma + 1, name.size() - comma - 2));
  if (!layer || !head || *layer > 4095) return std::nullopt;
  return Target{info->id, layer, head};
}

}  // namespace

Result<SignalNames> SignalNames::Create(const std::vector<std::string>& map) {
  SignalNames names;
  for (const std::string& entry : map) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return Status(Code::kInvalidArgument, "map: '" + entry + "': expected COLUMN=SIGNAL");
    }
    const std::string column = entry.substr(0, equals), signal = entry.substr(equals + 1);
    const auto target = Exact(signal);
    if (!signal.empty() && !target) {
      return Status(Code::kInvalidArgument,
                    "map: '" + entry +
                        "': no such signal (of heads: SIGNAL[LAYER,HEAD]); `foreshock catalogue` lists all");
    }
    names.map_[column] = target;
  }
  return names;
}

std::optional<Target> SignalNames::Find(const std::string& column) const {
  if (const auto mapped = map_.find(column); mapped != map_.end()) {
    seen_[column] = true;
    return mapped->second;
  }
  if (const auto exact = Exact(column)) return exact;
  const std::string plain = Plain(column);
  for (const CommonName& common : kCommonNames) {
    if (plain == common.name) return Target{common.signal, {}, {}};
  }
  return Exact(plain);
}

std::vector<std::string> SignalNames::NeverSeen() const {
  std::vector<std::string> columns;
  for (const auto& [column, target] : map_) {
    if (!seen_.contains(column)) columns.push_back(column);
  }
  return columns;
}

int StepColumnRank(std::string_view column) {
  const std::string plain = Plain(column);
  constexpr std::string_view kNames[] = {"trainer/global_step", "_step",       "iter",
                                         "iteration",           "global_step", "step"};
  const auto* it = std::find(std::begin(kNames), std::end(kNames), plain);
  return it == std::end(kNames) ? 0 : 1 + static_cast<int>(it - std::begin(kNames));
}

}  // namespace foreshock::cli
