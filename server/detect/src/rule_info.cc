#include "foreshock/server/detect/rule_info.h"

#include <algorithm>
#include <iterator>

#include "foreshock/server/detect/finding.h"

namespace foreshock::detect {
namespace {

constexpr RuleInfo kRules[] = {
    {"non_finite", 1, 3, "the loss, the gradient norm or a head's signal is NaN or infinite",
     "Stop. Find the first module that is not finite at this step; resume from the last checkpoint."},
    {"guard_missing", 1, 1, "training resumed without the guard's state although the guard was on",
     "Stop, load guard.state_dict() beside the model's, resume."},
    {"guard_active", 1, 1, "the guard has switched QK normalization on",
     "Nothing at once: the runaway is held, at a small price in loss. Look for what drove it, and keep "
     "guard.state_dict() with every checkpoint."},
    {"two_writers", 1, 1, "two live processes send as the same rank of the attempt",
     "Stop one of them: they may write the same checkpoints, and what the rules see is a mixture of both. "
     "Give "
     "each process its own rank, or its own attempt."},
    {"rounding_bias", 1, 3,
     "the attention output is rounded to one side, or its error is larger than rounding makes",
     "Compare the attention kernel with an fp32 reference on this head; keep P*V accumulation in fp32, or "
     "use the "
     "dynamic-maximum softmax. With QK normalization on, the error has no way into the logits."},
    {"delta_error", 1, 3, "delta of the softmax backward is off to one side",
     "Check how the backward computes rowsum(dO*O): fp32, from the output as stored. Restoring the zero row "
     "sum of dS "
     "or QK normalization contains it."},
    {"qk_runaway", 1, 5, "a head's query-key weights grow away from the other heads', ever faster",
     "Switch on QK normalization for the layer now, or stop and resume from the last checkpoint with it on. "
     "Then look "
     "for the error that keeps its sign: attention kernel, accumulation type, learning rate."},
    {"update_sign_coherence", 1, 5, "a head's updates keep one sign along its leading singular direction",
     "Treat as qk_runaway: QK normalization, or the last checkpoint. Projecting the updates off the leading "
     "directions shows whether they are the cause."},
    {"logit_saturation", 3, 5, "many more rows of a head than usual put all their weight on one key",
     "Look at the head's logits and at qk_runaway. Alone it can be a head that specialises."},
    {"tied_rows_rising", 3, 5, "many more rows of a head than usual attain their maximum twice",
     "Tied maxima let bf16 rounding take one side: look at rounding_bias, or measure it if it is off."},
    {"entropy_collapse", 3, 5, "a head's attention entropy fell to a fraction of what is usual for it",
     "Look at the head's logits and at qk_runaway. Alone it can be a head that specialises."},
    {"loss_divergence", 1, 3, "the loss rose beyond noise and stays there",
     "Stop and resume from a checkpoint before the first evidence; what fired earlier says what to change."},
    {"dead_plateau", 1, 3,
     "the loss stands still: far above its best, from the start, or under saturated heads",
     "The run does not learn any more: stop it, resume from a checkpoint before that, with a smaller "
     "learning "
     "rate if no other cause is known."},
    {"loss_spike", 1, 10, "single batches with a loss far above the level",
     "Look at the batch. Nothing to do when the loss is back."},
    {"grad_norm_spike", 1, 10, "the gradient norm is far above what is usual for this run",
     "Check clipping and the batch; look at the heads when it repeats."},
    {"loss_scale_collapse", 1, 20, "dynamic loss scaling halves again and again",
     "Gradients overflow: find where (logits, loss in fp16), or train in bf16."},
    {"stalled", 1, 1, "no frame for much longer than usual, and no end was announced",
     "Look at the trainer's processes and at the agent's log."},
    {"unmonitored", 1, 3, "signals that the rules need are not there, or are broken",
     "Re-attach the probe after compiling or wrapping the model; see the reason given."},
};

}  // namespace

std::span<const RuleInfo> BuiltInRules() { return kRules; }

const RuleInfo* FindRule(std::string_view name) {
  const auto* it = std::find_if(std::begin(kRules), std::end(kRules),
                                [&](const RuleInfo& rule) { return rule.name == name; });
  return it != std::end(kRules) ? it : nullptr;
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "unknown";
}

}  // namespace foreshock::detect
