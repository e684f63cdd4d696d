#include "device_weights.h"

#include <algorithm>
#include <utility>

#include "weight_columns.h"

namespace foreshock::sdk {

using kernels::kPairs;

namespace {

kernels::HeadSpectrum ToSpectrum(const cuda::DeviceSpectrum& in) {
  kernels::HeadSpectrum out;
  std::copy_n(in.sigma, kPairs, out.sigma);
  out.stable_rank = in.stable_rank;
  out.frobenius = in.frobenius;
  out.pairs = in.pairs;
  out.has_stable_rank = in.has_stable_rank != 0;
  out.finite = in.finite != 0;
  return out;
}

kernels::UpdateSums ToSums(const cuda::DeviceUpdates& in, uint32_t n, uint32_t skipped) {
  kernels::UpdateSums out;
  for (int i = 0; i < kPairs; ++i) {
    out.sum_c[i] = in.sum_c[i];
    out.sum_abs_c[i] = in.sum_abs_c[i];
    out.sum_sign[i] = in.sum_sign[i];
    out.nonzero[i] = in.nonzero[i];
    out.rotated[i] = in.rotated[i] != 0;
  }
  out.n = n;
  out.skipped = skipped;
  return out;
}

}  // namespace

int32_t DeviceWeights::AddHead(const Head& head, const kernels::WeightView& view, double weight_decay) {
  heads_.push_back(head);
  device_heads_.push_back({view, weight_decay});
  return static_cast<int32_t>(heads_.size()) - 1;
}

Status DeviceWeights::Make() {
  FS_ASSIGN_OR_RETURN(probe_, cuda::WeightProbe::Make(device_, std::move(device_heads_), pairs_));
  for (Ticket& ticket : tickets_) {
    FS_ASSIGN_OR_RETURN(ticket.host, cuda::PinnedBuffer::Make(device_, probe_->HostBytes()));
    FS_ASSIGN_OR_RETURN(ticket.copied, cuda::DeviceEvent::Make(device_, false));
    for (cuda::DeviceEvent& time : ticket.times) {
      FS_ASSIGN_OR_RETURN(time, cuda::DeviceEvent::Make(device_, true));
    }
  }
  return OkStatus();
}

bool DeviceWeights::Check(const Status& status) noexcept {
  if (status.ok()) return true;
  if (failure_.empty()) failure_ = status.message();
  return false;
}

void DeviceWeights::SetView(int32_t head, const kernels::WeightView& view) {
  probe_->SetView(head, view);
  views_changed_ = true;
}

// Times go to a ticket that is free now: the one that Report will most likely take.
void DeviceWeights::Mark(int which) noexcept {
  if (timing_ == nullptr) return;
  if (!Check(timing_->times[static_cast<size_t>(which)].Record(stream_))) timing_ = nullptr;
}

// A graph that is being recorded would do what is enqueued now at each of its replays, to memory that may be gone
// by then: such a step goes without, and what would have ended in it is not counted.
bool DeviceWeights::LeftOut() noexcept {
  if (!cuda::IsCapturing(stream_)) return false;
  tracking_ = spectra_now_ = false;
  if (closing_) --n_;
  closing_ = open_ = false;
  timing_ = nullptr;
  return true;
}

void DeviceWeights::BeginStep(bool spectra, bool track) noexcept {
  tracking_ = track;
  spectra_now_ = spectra;
  if (!failure_.empty() || LeftOut()) return;
  if (views_changed_) {
    views_changed_ = false;
    if (!Check(probe_->Upload(stream_))) return;
  }
  timing_ = nullptr;
  if (spectra) {
    const auto free = std::find_if(tickets_.begin(), tickets_.end(), [](const Ticket& t) { return !t.used; });
    timing_ = free == tickets_.end() ? nullptr : &*free;
    if (timing_ != nullptr) timing_->timed_spectra = timing_->timed_projection = false;
    Mark(0);
    if (!Check(closing_ ? probe_->SpectraAndStep(stream_, closing_rate_) : probe_->Spectra(stream_))) return;
    closing_ = false;
    Mark(1);
    if (timing_ != nullptr) timing_->timed_spectra = true;
    next_waiting_ = true;
    if (!has_pairs_) {
      probe_->Adopt();
      has_pairs_ = true;
      next_waiting_ = open_ = false;
    }
  }
  if (closing_) {
    closing_ = false;
    if (!Check(probe_->Step(stream_, closing_rate_))) return;
  }
  if (!track || !has_pairs_ || open_) return;
  if (!Check(probe_->Start(stream_))) return;
  open_ = true;
}

void DeviceWeights::EndStep(bool skipped, double learning_rate) noexcept {
  if (!failure_.empty() || !has_pairs_) return;
  if (LeftOut()) {
    if (std::exchange(next_waiting_, false)) probe_->Adopt();
    return;
  }
  const bool counted = tracking_ && open_ && !skipped;
  if (skipped) {
    if (tracking_) ++skipped_;
  } else if (!counted) {
    open_ = false;
  }
  if (!next_waiting_) {
    if (!counted) return;
    ++n_;
    if (!spectra_now_) {
      closing_ = true;
      closing_rate_ = learning_rate;
      return;
    }
    Mark(2);
    if (!Check(probe_->Step(stream_, learning_rate))) return;
  } else {
    next_waiting_ = false;
    if (!counted) {
      probe_->Adopt();
      open_ = false;
      return;
    }
    Mark(2);
    if (!Check(probe_->Refresh(stream_, learning_rate))) return;
    ++n_;
  }
  Mark(3);
  if (timing_ != nullptr) timing_->timed_projection = true;
}

void DeviceWeights::Invalidate() noexcept {
  has_pairs_ = next_waiting_ = open_ = closing_ = false;
  n_ = skipped_ = 0;
  if (failure_.empty()) Check(probe_->Clear(stream_, true));
}

bool DeviceWeights::Free(int index) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  if (ticket.abandoned && Ready(index)) ticket.used = ticket.abandoned = false;
  return !ticket.used;
}

void DeviceWeights::Report(int index) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  ticket.used = true;
  ticket.empty = LeftOut();
  if (ticket.empty) return;  // the window goes on
  ticket.has_spectra = spectra_now_;
  ticket.n = n_;
  ticket.skipped = skipped_;
  n_ = skipped_ = 0;
  if (timing_ != &ticket) ticket.timed_spectra = ticket.timed_projection = false;
  timing_ = nullptr;
  if (!failure_.empty()) return;
  if (!Check(probe_->ReadOut(stream_, ticket.host.data()))) return;
  if (!Check(ticket.copied.Record(stream_))) return;
  Check(probe_->Clear(stream_, false));
}

bool DeviceWeights::Ready(int index) noexcept {
  if (!failure_.empty() || tickets_[static_cast<size_t>(index)].empty) return true;
  const Status status = tickets_[static_cast<size_t>(index)].copied.Reached();
  return status.code() != Code::kUnavailable ? (Check(status), true) : false;
}

void DeviceWeights::Write(int index, FrameSlot* frame) noexcept {
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  ticket.used = false;
  if (!failure_.empty() || ticket.empty) return;
  if (ticket.timed_spectra) spectra_nanos_ = ticket.times[1].NanosSince(ticket.times[0]);
  if (ticket.timed_projection) projection_nanos_ = ticket.times[3].NanosSince(ticket.times[2]);
  if (ticket.timed_spectra) frame->device_nanos += spectra_nanos_;
  if (ticket.timed_projection) frame->device_nanos += projection_nanos_;
  const cuda::DeviceResults results = probe_->ResultsIn(ticket.host.data());
  for (size_t h = 0; h < heads_.size(); ++h) {
    if (heads_[h].reported) WriteHead(heads_[h], results.spectra[h], results.updates[h], ticket, frame);
  }
  if (!ticket.has_spectra) return;
  for (size_t p = 0; p < pairs_.size(); ++p) {
    const Head& head = heads_[static_cast<size_t>(pairs_[p].q)];
    ColumnWriter(layout_, frame, static_cast<int32_t>(head.layer), kQkSigma1)
        .Set(head.head, results.qk_sigma1[p]);
  }
}

void DeviceWeights::WriteHead(const Head& head, const cuda::DeviceSpectrum& spectrum,
                              const cuda::DeviceUpdates& updates, const Ticket& ticket,
                              FrameSlot* frame) noexcept {
  const SideSignals& side = head.key_side ? kKeySide : kQuerySide;
  const auto layer = static_cast<int32_t>(head.layer);
  if (ticket.has_spectra) WriteSpectrum(layout_, frame, layer, side, head.head, ToSpectrum(spectrum));
  WriteUpdates(layout_, frame, layer, side, head.head, ToSums(updates, ticket.n, ticket.skipped));
}

}  // namespace foreshock::sdk
