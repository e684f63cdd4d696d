#include "device_attention.h"

#include <algorithm>

#include "foreshock/sdk/cuda/attention_probe.h"
#include "foreshock/sdk/cuda/rounding_probe.h"

namespace foreshock::sdk {

using kernels::AttentionHeadStats;
using kernels::KernelStatus;
using kernels::RoundingHeadStats;

DeviceAttention::DeviceAttention(int device, const std::vector<LayerSpec>& layers, int tickets)
    : device_(device), tickets_(static_cast<size_t>(tickets)) {
  for (const LayerSpec& layer : layers) {
    first_head_.push_back(heads_);
    heads_ += layer.local_query_heads;
  }
}

void DeviceAttention::Make() { Check(MakeAll()); }

Status DeviceAttention::MakeAll() {
  // Of each head: attention, rounding in forward, rounding in backward.
  const size_t bytes = heads_ * (sizeof(AttentionHeadStats) + 2 * sizeof(RoundingHeadStats));
  for (Ticket& ticket : tickets_) {
    FS_ASSIGN_OR_RETURN(ticket.host, cuda::PinnedBuffer::Make(device_, bytes));
    ticket.calls.resize(2 * first_head_.size());
    ticket.made.reserve(ticket.calls.size());
    for (Call& call : ticket.calls) {
      FS_ASSIGN_OR_RETURN(call.begin, cuda::DeviceEvent::Make(device_, true));
      FS_ASSIGN_OR_RETURN(call.end, cuda::DeviceEvent::Make(device_, true));
    }
  }
  for (Lane& lane : lanes_) {
    FS_ASSIGN_OR_RETURN(lane.done, cuda::DeviceEvent::Make(device_, false));
  }
  return OkStatus();
}

bool DeviceAttention::Check(const Status& status) noexcept {
  if (status.ok()) return true;
  if (failure_.empty()) failure_ = status.message();
  return false;
}

AttentionHeadStats* DeviceAttention::AttentionOf(const Ticket& ticket, size_t layer) const {
  return ticket.host.as<AttentionHeadStats>() + first_head_[layer];
}

RoundingHeadStats* DeviceAttention::RoundingOf(const Ticket& ticket, size_t layer, bool backward) const {
  auto* all = reinterpret_cast<RoundingHeadStats*>(ticket.host.as<AttentionHeadStats>() + heads_);
  return all + (backward ? heads_ : 0) + first_head_[layer];
}

// The stream's own lane, else one that nobody uses, else the one used longest ago.
DeviceAttention::Lane* DeviceAttention::TakeLane(cuda::Stream stream) noexcept {
  Lane* lane = nullptr;
  for (Lane& known : lanes_) {
    if (known.last_use > 0 && known.stream == stream) {
      lane = &known;
      break;
    }
    if (lane == nullptr || known.last_use < lane->last_use) lane = &known;
  }
  if (lane->last_use > 0 && lane->stream != stream && !Check(lane->done.Await(stream))) return nullptr;
  lane->stream = stream;
  lane->last_use = ++uses_;
  return lane;
}

KernelStatus DeviceAttention::Probe(int index, size_t layer, bool backward,
                                    const kernels::RoundingProblem& problem, Wanted wanted,
                                    cuda::Stream stream) noexcept {
  if (!failure_.empty()) return KernelStatus::kOk;
  const cuda::DeviceGuard guard(device_);
  if (!guard.ok()) {
    Check(Status(Code::kUnavailable, "CUDA device " + std::to_string(device_) + " is not there"));
    return KernelStatus::kOk;
  }
  Lane* lane = TakeLane(stream);
  if (lane == nullptr) return KernelStatus::kOk;
  const size_t bytes = std::max(wanted.attention ? cuda::AttentionProbeWorkspaceBytes(problem.attention) : 0,
                                wanted.rounding ? cuda::RoundingProbeWorkspaceBytes(problem) : 0);
  if (!Check(lane->scratch.Reserve(bytes, stream))) return KernelStatus::kOk;
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  const auto at = static_cast<uint32_t>(2 * layer + (backward ? 1 : 0));
  Call& call = ticket.calls[at];
  call.done = Wanted();
  if (!Check(call.begin.Record(stream))) return KernelStatus::kOk;
  const KernelStatus status = Launch(ticket, layer, backward, problem, wanted, *lane, stream, &call);
  if (!failure_.empty() || !Check(call.end.Record(stream)) || !Check(lane->done.Record(stream))) {
    return KernelStatus::kOk;
  }
  if (call.done.attention || call.done.rounding) ticket.made.push_back(at);
  return status;
}

KernelStatus DeviceAttention::Launch(const Ticket& ticket, size_t layer, bool backward,
                                     const kernels::RoundingProblem& problem, Wanted wanted, Lane& lane,
                                     cuda::Stream stream, Call* call) noexcept {
  const kernels::Workspace scratch{lane.scratch.data(), lane.scratch.bytes()};
  if (wanted.attention) {
    const cuda::LaunchStatus launched =
        cuda::LaunchAttentionProbe(problem.attention, nullptr, AttentionOf(ticket, layer), scratch, stream);
    if (launched.status != KernelStatus::kOk) return launched.status;
    if (!Check(cuda::CudaStatus(launched.cuda_error, "attention probe"))) return KernelStatus::kOk;
    call->done.attention = true;
    call->learned_sinks = problem.attention.n_sinks > 0;
  }
  if (!wanted.rounding) return KernelStatus::kOk;
  const cuda::LaunchStatus launched =
      cuda::LaunchRoundingProbe(problem, nullptr, RoundingOf(ticket, layer, backward), scratch, stream);
  if (launched.status != KernelStatus::kOk) return launched.status;
  if (!Check(cuda::CudaStatus(launched.cuda_error, "rounding probe"))) return KernelStatus::kOk;
  call->done.rounding = true;
  call->given = {problem.d_o.data != nullptr, problem.dq.data != nullptr};
  return KernelStatus::kOk;
}

bool DeviceAttention::Ready(int index) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  for (; failure_.empty() && ticket.reached < ticket.made.size(); ++ticket.reached) {
    const Status status = ticket.calls[ticket.made[ticket.reached]].end.Reached();
    if (status.code() == Code::kUnavailable) return false;
    Check(status);
  }
  return true;
}

size_t DeviceAttention::found_count(int index) const {
  return failure_.empty() ? tickets_[static_cast<size_t>(index)].made.size() : 0;
}

DeviceAttention::Found DeviceAttention::FoundAt(int index, size_t i) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  const uint32_t at = ticket.made[i];
  const Call& call = ticket.calls[at];
  Found found;
  found.layer = at / 2;
  if (call.done.attention) found.attention = AttentionOf(ticket, found.layer);
  if (call.done.rounding) found.rounding = RoundingOf(ticket, found.layer, at % 2 == 1);
  found.learned_sinks = call.learned_sinks;
  found.given = call.given;
  return found;
}

double DeviceAttention::Nanos(int index) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  double nanos = 0;
  for (const uint32_t at : ticket.made) nanos += ticket.calls[at].end.NanosSince(ticket.calls[at].begin);
  return nanos;
}

void DeviceAttention::Clear(int index) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  ticket.made.clear();
  ticket.reached = 0;
}

}  // namespace foreshock::sdk
