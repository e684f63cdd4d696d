#include "validate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::control {
namespace {

constexpr size_t kMaxTextBytes = 1000;
constexpr uint32_t kMaxEverySteps = 1'000'000;
constexpr uint32_t kMaxRowStride = 65'536;

Status Invalid(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

bool HasLayer(const store::AttemptInfo& attempt, uint32_t layer) {
  for (const store::SourceInfo& source : attempt.sources) {
    for (const wire::Layer& l : source.hello->model.layers) {
      if (l.layer == layer) return true;
    }
  }
  return false;
}

Status CheckSteps(const v1::ActRequest& request, int64_t last_step) {
  if (request.effective_step() < 0) {
    return Invalid("effective_step: " + std::to_string(request.effective_step()) +
                   ", at least 0 (0: at once)");
  }
  if (request.expiry_step() < 0) {
    return Invalid("expiry_step: " + std::to_string(request.expiry_step()) + ", at least 0 (0: never)");
  }
  if (request.expiry_step() == 0) return OkStatus();
  const int64_t least = std::max(last_step, request.effective_step());
  if (request.expiry_step() <= least) {
    return Invalid("expiry_step: " + std::to_string(request.expiry_step()) + ", must be above " +
                   std::to_string(least) + ", the last step or the effective one");
  }
  return OkStatus();
}

}  // namespace

Result<store::AttemptInfo> LiveAttempt(const store::Store& store, const std::string& run,
                                       const std::string& attempt) {
  if (run.empty()) return Invalid("run: empty, name a run");
  FS_ASSIGN_OR_RETURN(const store::RunInfo info, store.GetRun(run));
  const store::AttemptInfo& newest = info.newest();
  if (!attempt.empty() && attempt != newest.attempt) {
    FS_RETURN_IF_ERROR(store.GetAttempt(run, attempt).status());
    return Status(Code::kFailedPrecondition,
                  "attempt: \"" + attempt + "\" is over, \"" + newest.attempt + "\" goes on");
  }
  const auto state = store::StateOf(newest, 0, std::numeric_limits<int64_t>::max());
  if (state != store::RunState::kRunning) {
    return Status(Code::kFailedPrecondition, "run: \"" + run + "\" has ended");
  }
  return newest;
}

Status CheckAction(const v1::ActRequest& request, const store::AttemptInfo& attempt) {
  const std::string& kind = request.kind();
  if (kind != "enable_qk_norm" && kind != "qk_clip" && kind != "checkpoint" && kind != "stop") {
    return Invalid("kind: \"" + kind + "\", one of enable_qk_norm, qk_clip, checkpoint, stop");
  }
  for (const uint32_t layer : request.layers()) {
    if (!HasLayer(attempt, layer)) return Invalid("layers: the model has no layer " + std::to_string(layer));
  }
  if (kind == "qk_clip" && !(request.value() > 0 && std::isfinite(request.value()))) {
    return Invalid("value: " + std::to_string(request.value()) +
                   ", qk_clip needs the logit to clip to, above 0");
  }
  if (kind != "qk_clip" && request.value() != 0) {
    return Invalid("value: " + std::to_string(request.value()) + ", " + kind + " takes none");
  }
  if (request.issuer().size() > kMaxTextBytes || request.reason().size() > kMaxTextBytes) {
    return Invalid(std::string(request.issuer().size() > kMaxTextBytes ? "issuer" : "reason") + ": at most " +
                   std::to_string(kMaxTextBytes) + " bytes");
  }
  return CheckSteps(request, attempt.last_step.value_or(0));
}

Status CheckSampling(const v1::Sampling& sampling) {
  const auto check = [](const char* name, uint32_t value, uint32_t most) {
    if (value <= most) return OkStatus();
    return Invalid(std::string(name) + ": " + std::to_string(value) + ", at most " + std::to_string(most));
  };
  FS_RETURN_IF_ERROR(check("attention_every_steps", sampling.attention_every_steps(), kMaxEverySteps));
  FS_RETURN_IF_ERROR(check("spectra_every_steps", sampling.spectra_every_steps(), kMaxEverySteps));
  FS_RETURN_IF_ERROR(check("projections_every_steps", sampling.projections_every_steps(), kMaxEverySteps));
  FS_RETURN_IF_ERROR(check("row_stride", sampling.row_stride(), kMaxRowStride));
  if (sampling.attention_every_steps() == 0 && sampling.spectra_every_steps() == 0 &&
      sampling.projections_every_steps() == 0 && sampling.row_stride() == 0) {
    return Invalid("sampling: nothing to change, every field is 0");
  }
  return OkStatus();
}

}  // namespace foreshock::control
