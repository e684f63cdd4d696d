#include "device_attention.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "foreshock/sdk/cuda/rounding_probe.h"

namespace foreshock::sdk {

using kernels::AttentionHeadStats;
using kernels::KernelStatus;
using kernels::RoundingHeadStats;

namespace {

size_t ScratchBytes(const kernels::RoundingProblem& problem, DeviceAttention::Wanted wanted) {
  return std::max(wanted.attention ? cuda::AttentionProbeWorkspaceBytes(problem.attention) : 0,
                  wanted.rounding ? cuda::RoundingProbeWorkspaceBytes(problem) : 0);
}

// Where a layer's call is among a ticket's calls, and among those of graphs.
uint32_t CallAt(size_t layer, bool backward) { return static_cast<uint32_t>(2 * layer + (backward ? 1 : 0)); }

}  // namespace

DeviceAttention::DeviceAttention(int device, const std::vector<LayerSpec>& layers, int tickets)
    : device_(device), tickets_(static_cast<size_t>(tickets)) {
  for (const LayerSpec& layer : layers) {
    first_head_.push_back(heads_);
    heads_ += layer.local_query_heads;
  }
  captured_.resize(2 * layers.size());
}

void DeviceAttention::Make() {
  try {
    Check(MakeAll());
  } catch (const std::exception&) {
    failure_ = "no memory";
  }
}

Status DeviceAttention::MakeAll() {
  for (Ticket& ticket : tickets_) {
    FS_ASSIGN_OR_RETURN(ticket.host, cuda::PinnedBuffer::Make(device_, 2 * ResultBytes()));
    FS_ASSIGN_OR_RETURN(ticket.copied, cuda::DeviceEvent::Make(device_, false));
    FS_ASSIGN_OR_RETURN(ticket.finish_begins, cuda::DeviceEvent::Make(device_, true));
    FS_ASSIGN_OR_RETURN(ticket.finished, cuda::DeviceEvent::Make(device_, true));
    ticket.calls.resize(2 * first_head_.size());
    ticket.made.reserve(ticket.calls.size());
    ticket.replayed.reserve(ticket.calls.size());
    for (Call& call : ticket.calls) {
      FS_ASSIGN_OR_RETURN(call.begin, cuda::DeviceEvent::Make(device_, true));
      FS_ASSIGN_OR_RETURN(call.end, cuda::DeviceEvent::Make(device_, true));
    }
  }
  for (Lane& lane : lanes_) {
    FS_ASSIGN_OR_RETURN(lane.done, cuda::DeviceEvent::Make(device_, false));
  }
  FS_ASSIGN_OR_RETURN(flags_, cuda::DeviceBuffer::Make(device_, (1 + first_head_.size()) * sizeof(uint32_t)));
  FS_ASSIGN_OR_RETURN(graph_results_, cuda::DeviceBuffer::Make(device_, ResultBytes()));
  return OkStatus();
}

bool DeviceAttention::Check(const Status& status) noexcept {
  if (status.ok()) return true;
  if (failure_.empty()) failure_ = status.message();
  return false;
}

AttentionHeadStats* DeviceAttention::AttentionIn(void* results, size_t layer) const {
  return static_cast<AttentionHeadStats*>(results) + first_head_[layer];
}

RoundingHeadStats* DeviceAttention::RoundingIn(void* results, size_t layer, bool backward) const {
  auto* all = reinterpret_cast<RoundingHeadStats*>(static_cast<AttentionHeadStats*>(results) + heads_);
  return all + (backward ? heads_ : 0) + first_head_[layer];
}

bool DeviceAttention::Enter(const cuda::DeviceGuard& guard) noexcept {
  if (guard.ok()) return true;
  return Check(Status(Code::kUnavailable, "CUDA device " + std::to_string(device_) + " is not there"));
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
  if (lane->last != nullptr && lane->stream != stream && !Check(lane->last->Await(stream))) return nullptr;
  was_behind_ = lane->last != nullptr && lane->last->Reached().code() == Code::kUnavailable;
  lane->stream = stream;
  lane->last_use = ++uses_;
  return lane;
}

KernelStatus DeviceAttention::Probe(int index, size_t layer, bool backward,
                                    const kernels::RoundingProblem& problem, Wanted wanted,
                                    cuda::Stream stream) noexcept {
  if (!failure_.empty()) return KernelStatus::kOk;
  const cuda::DeviceGuard guard(device_);
  if (!Enter(guard)) return KernelStatus::kOk;
  Lane* lane = TakeLane(stream);
  if (lane == nullptr) return KernelStatus::kOk;
  const bool later = wanted.attention && stream == run_stream_;
  kernels::Workspace partials{nullptr, 0};
  const uint32_t at = CallAt(layer, backward);
  if (later) partials = RoomForPartials(index, at, cuda::AttentionProbeWorkspaceBytes(problem.attention));
  const size_t scratch = ScratchBytes(problem, {wanted.attention && !later, wanted.rounding});
  if (!failure_.empty() || !Check(lane->scratch.Reserve(scratch, stream))) return KernelStatus::kOk;
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  Call& call = ticket.calls[at];
  call.asked = Asked();
  // A call whose rounding was refused may come once more: another lane may know its first end.
  const bool again = std::find(ticket.made.begin(), ticket.made.end(), at) != ticket.made.end();
  if (again && !Check(call.end.Await(stream))) return KernelStatus::kOk;
  call.timed = timed_;
  if (timed_ && !Check(call.begin.Record(stream))) return KernelStatus::kOk;
  const KernelStatus status =
      Launch(ticket.host.data(), nullptr, layer, backward, problem, wanted,
             {lane->scratch.data(), lane->scratch.bytes()}, partials, stream, &call.asked);
  const bool asked = call.asked.done.attention || call.asked.done.rounding;
  // The end of a call that is not kept is not the lane's: it may be recorded anew before it was reached.
  lane->last = asked ? &call.end : &lane->done;
  if (!failure_.empty() || !Check(call.end.Record(stream)) || (!asked && !Check(lane->done.Record(stream)))) {
    return KernelStatus::kOk;
  }
  if (asked && !again) ticket.made.push_back(at);
  return status;
}

KernelStatus DeviceAttention::Launch(void* results, const uint32_t* flags, size_t layer, bool backward,
                                     const kernels::RoundingProblem& problem, Wanted wanted,
                                     kernels::Workspace scratch, kernels::Workspace partials,
                                     cuda::Stream stream, Asked* asked) noexcept {
  if (wanted.attention) {
    AttentionHeadStats* heads = AttentionIn(results, layer);
    const bool later = partials.data != nullptr;
    const cuda::LaunchStatus launched =
        later ? cuda::LaunchAttentionScores(problem.attention, flags, heads, partials, stream,
                                            &waiting_.calls[waiting_.count])
              : cuda::LaunchAttentionProbe(problem.attention, flags, heads, scratch, stream);
    if (launched.status != KernelStatus::kOk) return launched.status;
    if (!Check(cuda::CudaStatus(launched.cuda_error, "attention probe"))) return KernelStatus::kOk;
    if (later) {
      waiting_.at[waiting_.count++] = CallAt(layer, backward);
      waiting_.used += partials.bytes;
    }
    asked->done.attention = true;
    asked->learned_sinks = problem.attention.n_sinks > 0;
  }
  if (!wanted.rounding) return KernelStatus::kOk;
  const uint32_t* enabled = flags == nullptr ? nullptr : flags + 1 + layer;
  const cuda::LaunchStatus launched =
      cuda::LaunchRoundingProbe(problem, enabled, RoundingIn(results, layer, backward), scratch, stream);
  if (launched.status != KernelStatus::kOk) return launched.status;
  if (!Check(cuda::CudaStatus(launched.cuda_error, "rounding probe"))) return KernelStatus::kOk;
  asked->done.rounding = true;
  asked->given = {problem.d_o.data != nullptr, problem.dq.data != nullptr};
  return KernelStatus::kOk;
}

kernels::Workspace DeviceAttention::RoomForPartials(int ticket, uint32_t at, size_t bytes) noexcept {
  const auto end = waiting_.at.begin() + static_cast<std::ptrdiff_t>(waiting_.count);
  // One launch must not write a head's results twice: it has no order.
  const bool again = std::find(waiting_.at.begin(), end, at) != end;
  if (waiting_.ticket != ticket || waiting_.count == Waiting::kMost || again) FinishCalls();
  if (waiting_.stream != run_stream_) {
    if (waiting_.finished != nullptr && !Check(waiting_.finished->Await(run_stream_))) return {nullptr, 0};
    waiting_.stream = run_stream_;
  }
  const size_t needed = waiting_.used + bytes;
  if (needed > waiting_.partials.bytes()) {
    FinishCalls();  // they lie in what is given up
    const size_t of_step = bytes * std::min(first_head_.size(), Waiting::kMost);
    if (!Check(waiting_.partials.Reserve(std::max(needed, of_step), run_stream_))) return {nullptr, 0};
  }
  waiting_.ticket = ticket;
  return {static_cast<unsigned char*>(waiting_.partials.data()) + waiting_.used, bytes};
}

void DeviceAttention::FinishCalls() noexcept {
  if (waiting_.count == 0 || !failure_.empty()) return;
  const cuda::DeviceGuard guard(device_);
  if (!Enter(guard) || cuda::IsCapturing(run_stream_)) return;
  const size_t count = std::exchange(waiting_.count, 0);
  waiting_.used = 0;
  Ticket& ticket = tickets_[static_cast<size_t>(waiting_.ticket)];
  ticket.finish_timed = timed_;
  if ((timed_ && !Check(ticket.finish_begins.Record(run_stream_))) ||
      !Check(cuda::CudaStatus(cuda::LaunchAttentionFinish(waiting_.calls.data(), count, run_stream_),
                              "attention probe"))) {
    return;
  }
  ticket.finish_reached = false;
  ticket.has_finish = Check(ticket.finished.Record(run_stream_));
  waiting_.finished = &ticket.finished;
}

void DeviceAttention::ForgetWaiting() noexcept {
  if (waiting_.count == 0) return;
  std::vector<Call>& calls = tickets_[static_cast<size_t>(waiting_.ticket)].calls;
  // Their kernels may still be writing partials: whoever uses them on another stream waits for the last one.
  waiting_.finished = &calls[waiting_.at[waiting_.count - 1]].end;
  for (size_t i = 0; i < waiting_.count; ++i) calls[waiting_.at[i]].asked.done.attention = false;
  waiting_.count = waiting_.used = 0;
}

void DeviceAttention::SetStream(cuda::Stream stream) noexcept {
  if (stream == run_stream_) return;
  FinishCalls();
  ForgetWaiting();  // the stream is being recorded, and is about to be another's
  run_stream_ = stream;
}

KernelStatus DeviceAttention::Capture(uint64_t capture, size_t layer, bool backward,
                                      const kernels::RoundingProblem& problem, Wanted wanted,
                                      cuda::Stream stream) {
  Captured& captured = captured_[CallAt(layer, backward)];
  if (!failure_.empty() || captured.capture == capture) return KernelStatus::kOk;
  const cuda::DeviceGuard guard(device_);
  if (!Enter(guard)) return KernelStatus::kOk;
  const size_t bytes = ScratchBytes(problem, wanted);
  auto made = cuda::DeviceBuffer::Make(device_, bytes);
  if (!Check(made.status())) return KernelStatus::kOk;
  Asked asked;
  const KernelStatus status = Launch(graph_results_.data(), flags_.as<uint32_t>(), layer, backward, problem,
                                     wanted, {made.value().data(), bytes}, {nullptr, 0}, stream, &asked);
  graph_scratch_.push_back(std::move(made).value());
  if (!failure_.empty() || !(asked.done.attention || asked.done.rounding)) return status;
  captured = {capture, asked};
  has_captured_ = true;
  return status;
}

void DeviceAttention::BeginStep(size_t first, size_t count) noexcept {
  flag_up_ = false;
  if (!has_captured_ || !failure_.empty()) return;
  const cuda::DeviceGuard guard(device_);
  if (!Enter(guard) || cuda::IsCapturing(run_stream_)) return;
  // NaN rows: what no replay fills in.
  flag_up_ = Check(cuda::FillAsync(graph_results_.data(), 0xff, ResultBytes(), run_stream_)) &&
             RaiseFlags(first, count);
}

// Any byte but 0 will do.
bool DeviceAttention::RaiseFlags(size_t first, size_t count) noexcept {
  const size_t layers = first_head_.size();
  uint32_t* const of_layers = flags_.as<uint32_t>() + 1;
  const size_t before_end = std::min(count, layers - first), from_start = count - before_end;
  const auto raise = [this](uint32_t* at, size_t words) {
    return words == 0 || Check(cuda::FillAsync(at, 1, words * sizeof(uint32_t), run_stream_));
  };
  return raise(of_layers - 1, 1) && raise(of_layers + first, before_end) && raise(of_layers, from_start);
}

void DeviceAttention::EndStep(int index) noexcept {
  if (!flag_up_) return;
  flag_up_ = false;
  const cuda::DeviceGuard guard(device_);
  if (!Enter(guard) || !Check(cuda::FillAsync(flags_.data(), 0, flags_.bytes(), run_stream_))) return;
  if (index < 0) return;
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  if (!Check(cuda::CopyToHostAsync(Replayed(ticket), graph_results_.data(), ResultBytes(), run_stream_)) ||
      !Check(ticket.copied.Record(run_stream_))) {
    return;
  }
  ticket.copy_reached = false;
  for (uint32_t at = 0; at < captured_.size(); ++at) {
    if (captured_[at].capture != 0) ticket.replayed.push_back(at);
  }
}

bool DeviceAttention::Ready(int index) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  const auto reached = [this](const cuda::DeviceEvent& event) {
    const Status status = event.Reached();
    return status.code() != Code::kUnavailable && (Check(status), true);
  };
  if (failure_.empty() && !ticket.copy_reached) {
    if (!reached(ticket.copied)) return false;
    ticket.copy_reached = true;
  }
  if (failure_.empty() && waiting_.count > 0 && waiting_.ticket == index) return false;
  if (failure_.empty() && ticket.has_finish && !ticket.finish_reached) {
    if (!reached(ticket.finished)) return false;
    ticket.finish_reached = true;
  }
  for (; failure_.empty() && ticket.reached < ticket.made.size(); ++ticket.reached) {
    if (!reached(ticket.calls[ticket.made[ticket.reached]].end)) return false;
  }
  return true;
}

size_t DeviceAttention::found_count(int index) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  return failure_.empty() ? ticket.replayed.size() + ticket.made.size() : 0;
}

DeviceAttention::Found DeviceAttention::FoundAt(int index, size_t i) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  const bool replay = i < ticket.replayed.size();
  const uint32_t at = replay ? ticket.replayed[i] : ticket.made[i - ticket.replayed.size()];
  const Asked& asked = replay ? captured_[at].asked : ticket.calls[at].asked;
  void* results = replay ? Replayed(ticket) : ticket.host.data();
  Found found;
  found.layer = at / 2;
  if (asked.done.attention) found.attention = AttentionIn(results, found.layer);
  if (asked.done.rounding) found.rounding = RoundingIn(results, found.layer, at % 2 == 1);
  found.replay = replay;
  found.learned_sinks = asked.learned_sinks;
  found.given = asked.given;
  return found;
}

bool DeviceAttention::Timed(int index) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  return std::all_of(ticket.made.begin(), ticket.made.end(),
                     [&](uint32_t at) { return ticket.calls[at].timed; });
}

double DeviceAttention::Nanos(int index) const {
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  double nanos = 0;
  for (const uint32_t at : ticket.made) {
    const Call& call = ticket.calls[at];
    if (call.timed) nanos += call.end.NanosSince(call.begin);
  }
  const bool timed = ticket.has_finish && ticket.finish_timed;
  return timed ? nanos + ticket.finished.NanosSince(ticket.finish_begins) : nanos;
}

bool DeviceAttention::Idle() const noexcept {
  const auto reached = [](const cuda::DeviceEvent& event) {
    return event.Reached().code() != Code::kUnavailable;
  };
  // After an error nobody knows what was enqueued.
  return failure_.empty() && !has_captured_ &&
         std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return lane.last == nullptr || reached(*lane.last); }) &&
         std::all_of(tickets_.begin(), tickets_.end(),
                     [&](const Ticket& ticket) { return !ticket.has_finish || reached(ticket.finished); });
}

void DeviceAttention::Clear(int index) noexcept {
  if (waiting_.ticket == index) ForgetWaiting();
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  ticket.made.clear();
  ticket.replayed.clear();
  ticket.reached = 0;
  ticket.copy_reached = true;
  ticket.has_finish = false;
}

}  // namespace foreshock::sdk
