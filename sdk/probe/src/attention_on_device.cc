// The part of AttentionWatch that deals with tensors on CUDA devices.
#include <algorithm>
#include <cmath>

#include "attention_columns.h"
#include "device_attention.h"
#include "foreshock/sdk/attention_watch.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/cuda/rounding_probe.h"

namespace foreshock::sdk {

using kernels::KernelStatus;

namespace {

double RoundingWork(const kernels::RoundingProblem& p) {
  const kernels::AttentionProblem& a = p.attention;
  const auto sequences =
      static_cast<double>(a.cu_seqlens_q == nullptr ? 1 : std::max<int64_t>(a.n_sequences, 1));
  const double rows =
      static_cast<double>(a.q.batch * a.q.seq) / a.sampling.row_every / a.sampling.sequence_every;
  const double keys = static_cast<double>(a.k.seq) / sequences * (a.causal ? 0.5 : 1);
  return rows * keys * static_cast<double>(a.q.heads) * static_cast<double>(std::max(a.q.dim, p.v.dim));
}

}  // namespace

// A device that cannot be set up stays in the list, with its reason: it is not tried at every call.
DeviceAttention* AttentionWatch::OnDevice(int device) {
  for (auto& known : devices_) {
    if (known->device() == device) return known.get();
  }
  devices_.push_back(std::make_unique<DeviceAttention>(device, layers_, kTickets));
  devices_.back()->Make();
  devices_.back()->SetTimed(timed_);
  for (const auto& [known, stream] : streams_) {
    if (known == device) devices_.back()->SetStream(stream);
  }
  return devices_.back().get();
}

int AttentionWatch::TakeTicket() noexcept {
  for (int ticket = 0; ticket < kTickets; ++ticket) {
    TicketUse& use = tickets_[static_cast<size_t>(ticket)];
    if (use == TicketUse::kAbandoned && TicketReady(ticket)) FreeTicket(ticket);
    if (use != TicketUse::kFree) continue;
    use = TicketUse::kWaits;
    return ticket;
  }
  return -1;
}

bool AttentionWatch::TicketReady(int ticket) noexcept {
  return std::all_of(devices_.begin(), devices_.end(),
                     [ticket](auto& device) { return device->Ready(ticket); });
}

void AttentionWatch::FreeTicket(int ticket) noexcept {
  for (auto& device : devices_) device->Clear(ticket);
  tickets_[static_cast<size_t>(ticket)] = TicketUse::kFree;
}

bool AttentionWatch::RoundingFits(size_t layer, const kernels::RoundingProblem& problem) {
  const int64_t dim = std::max(problem.attention.q.dim, problem.v.dim);
  if (dim <= cuda::kMaxRoundingDimOnDevice) return true;
  if (!state_[layer].rounding_told) {
    failures_.push_back({"layer " + std::to_string(layers_[layer].layer) + " rounding",
                         "head size " + std::to_string(dim) + ", on a GPU at most " +
                             std::to_string(cuda::kMaxRoundingDimOnDevice)});
  }
  state_[layer].rounding_told = true;
  return false;
}

Status AttentionWatch::ProbeOnDevice(size_t layer, bool backward, const AttentionCall& call,
                                     const kernels::RoundingProblem& problem, bool rounding,
                                     FrameSlot* slot) {
  const LayerSpec& spec = layers_[layer];
  DeviceAttention* device = nullptr;
  try {
    device = OnDevice(call.device);
    if (rounding) turns_.SetWork(layer, RoundingWork(problem));
    rounding = rounding && turns_.Has(layer) && spec.dropout <= 0 && RoundingFits(layer, problem);
  } catch (const std::exception&) {
    return Status(Code::kResourceExhausted, "attention on a device: no memory");
  }
  if (slot->attention_ticket < 0) slot->attention_ticket = TakeTicket();
  KernelStatus status = KernelStatus::kOk;
  // No ticket: the device is so far behind that this sample is left out.
  if (slot->attention_ticket >= 0 && (!backward || rounding)) {
    status =
        device->Probe(slot->attention_ticket, layer, backward, problem, {!backward, rounding}, call.stream);
    call_was_hidden_ = device->was_behind();
  }
  FS_RETURN_IF_ERROR(FromKernel(spec, status));
  if (backward) return OkStatus();
  state_[layer].forward_done = true;
  state_[layer].micro_batch = call.micro_batch;
  return OkStatus();
}

Status AttentionWatch::Capture(size_t layer, bool backward, const AttentionCall& call) {
  if (!backward && (!call.grad_enabled || call.recompute)) return OkStatus();
  const LayerSpec& spec = layers_[layer];
  FS_RETURN_IF_ERROR(CheckShapes(spec, call.problem, backward));
  if (!ever_sampled_) {
    return Status(Code::kFailedPrecondition, "recorded into a CUDA graph before the first sampled step");
  }
  const kernels::RoundingProblem problem = ProblemOf(spec, call, backward);
  KernelStatus status = KernelStatus::kOk;
  try {
    const bool rounding = (backward || (!state_[layer].calls_backward && problem.v.data != nullptr &&
                                        problem.o.data != nullptr)) &&
                          spec.dropout <= 0 && RoundingFits(layer, problem);
    if (backward && !rounding) return OkStatus();
    if (rounding) turns_.SetWork(layer, RoundingWork(problem));
    status = OnDevice(call.device)
                 ->Capture(cuda::CaptureOf(call.stream), layer, backward, problem, {!backward, rounding},
                           call.stream);
  } catch (const std::exception&) {
    return Status(Code::kResourceExhausted, "attention on a device: no memory");
  }
  return FromKernel(spec, status);
}

void AttentionWatch::SetStream(int device, void* stream) {
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(),
                                [device](const auto& entry) { return entry.first == device; }),
                 streams_.end());
  streams_.emplace_back(device, stream);
  for (auto& known : devices_) {
    if (known->device() == device) known->SetStream(stream);
  }
}

void AttentionWatch::EndStep(FrameSlot* slot) noexcept {
  for (auto& device : devices_) {
    device->FinishCalls();
    if (!device->Owes()) continue;
    if (slot->attention_ticket < 0) slot->attention_ticket = TakeTicket();
    device->EndStep(slot->attention_ticket);
  }
}

bool AttentionWatch::Ready(const FrameSlot& slot) noexcept {
  return slot.attention_ticket < 0 || TicketReady(slot.attention_ticket);
}

void AttentionWatch::Complete(FrameSlot* slot, bool give_up) noexcept {
  const int ticket = slot->attention_ticket;
  if (ticket < 0) return;
  slot->attention_ticket = -1;
  if (give_up && !TicketReady(ticket)) {
    tickets_[static_cast<size_t>(ticket)] = TicketUse::kAbandoned;
    return;
  }
  double nanos = 0;
  bool timed = true;
  for (auto& device : devices_) {
    if (device->found_count(ticket) > 0) nanos += device->Nanos(ticket);
    timed = timed && device->Timed(ticket);
    WriteFound(*device, ticket, slot);
  }
  if (timed && nanos > 0) device_nanos_ = nanos;
  slot->device_nanos += timed ? nanos : device_nanos_;  // as last taken
  FreeTicket(ticket);
}

void AttentionWatch::WriteFound(DeviceAttention& device, int ticket, FrameSlot* slot) noexcept {
  for (size_t i = 0; i < device.found_count(ticket); ++i) {
    const DeviceAttention::Found found = device.FoundAt(ticket, i);
    const LayerSpec& spec = layers_[found.layer];
    const auto layer = static_cast<int32_t>(found.layer);
    if (found.attention != nullptr) {
      // How the kernels say that cu_seqlens, which only the device could read, are no offsets.
      const bool none = std::isnan(found.attention[0].rows_visited);
      if (none && found.replay && std::isnan(found.attention[0].rows)) continue;  // not replayed
      if (none) {
        state_[found.layer].bad_sequences = true;  // also where a better call comes before anyone is told
        continue;
      }
      WriteAttention(layout_, slot, layer, found.attention, spec.local_query_heads, found.learned_sinks);
      KeepLogits(found.layer, found.attention);
    }
    if (found.rounding != nullptr) {
      WriteRounding(layout_, slot, layer, found.rounding, spec.local_query_heads, found.given);
    }
  }
}

std::vector<TrackerFailure> AttentionWatch::TakeFailures() {
  std::vector<TrackerFailure> failures = std::move(failures_);
  failures_.clear();
  for (auto& device : devices_) {
    if (device->failure().empty() || device->told()) continue;
    device->SetTold();
    failures.push_back({"attention on CUDA device " + std::to_string(device->device()), device->failure()});
  }
  for (size_t l = 0; l < state_.size() && !devices_.empty(); ++l) {
    if (!state_[l].bad_sequences || state_[l].sequences_told) continue;
    state_[l].sequences_told = true;
    failures.push_back({"layer " + std::to_string(layers_[l].layer) + " attention",
                        "cu_seqlens that fall, start below 0 or end past the tensor"});
  }
  return failures;
}

}  // namespace foreshock::sdk
