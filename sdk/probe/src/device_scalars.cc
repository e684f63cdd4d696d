#include "foreshock/sdk/device_scalars.h"

#include <cmath>
#include <string>

#include "foreshock/sdk/cuda/read_back.h"

namespace foreshock::sdk {

// The open step's ticket, made on its first number.
Status DeviceScalars::Open(int device) noexcept {
  if (open_ >= 0) return OkStatus();
  if (host_.data() == nullptr) {
    FS_ASSIGN_OR_RETURN(host_, cuda::PinnedBuffer::Make(device, tickets_.size() * kNumbers * sizeof(double)));
  }
  for (size_t i = 0; i < tickets_.size(); ++i) {
    // One that was given up is free when its copies are done: until then they may still write its room.
    if (tickets_[i].used || !Ready(static_cast<int>(i))) continue;
    open_ = static_cast<int>(i);
    tickets_[i].numbers = tickets_[i].sources = 0;
    return OkStatus();
  }
  return Status(Code::kUnavailable,
                "numbers on a device: " + std::to_string(tickets_.size()) + " steps wait for theirs already");
}

Result<DeviceScalars::Source*> DeviceScalars::SourceOf(Ticket& ticket, int device,
                                                       cuda::Stream stream) noexcept {
  for (size_t i = 0; i < ticket.sources; ++i) {
    if (ticket.source[i].device == device && ticket.source[i].stream == stream) return &ticket.source[i];
  }
  if (ticket.sources == kStreams) {
    return Status(Code::kResourceExhausted,
                  "numbers on devices: from at most " + std::to_string(kStreams) + " streams a step");
  }
  Source& source = ticket.source[ticket.sources];
  if (source.device != device) {
    source.device = -1;
    FS_ASSIGN_OR_RETURN(source.event, cuda::DeviceEvent::Make(device, false));
    source.device = device;
  }
  source.stream = stream;
  return &source;
}

Status DeviceScalars::Add(uint16_t signal, const void* value, kernels::DType dtype, int device,
                          cuda::Stream stream, double weight) noexcept {
  FS_RETURN_IF_ERROR(Open(device));
  Ticket& ticket = tickets_[static_cast<size_t>(open_)];
  if (ticket.numbers == kNumbers) {
    return Status(Code::kResourceExhausted,
                  "numbers on a device: at most " + std::to_string(kNumbers) + " a step");
  }
  FS_ASSIGN_OR_RETURN(Source * source, SourceOf(ticket, device, stream));
  FS_RETURN_IF_ERROR(cuda::ReadBack(RoomOf(static_cast<size_t>(open_), ticket.numbers), value,
                                    kernels::SizeOf(dtype), device, stream));
  FS_RETURN_IF_ERROR(source->event.Record(stream));
  if (source == &ticket.source[ticket.sources]) ++ticket.sources;
  ticket.number[ticket.numbers++] = {signal, dtype, weight};
  return OkStatus();
}

int DeviceScalars::Close(double loss_sum, double loss_tokens) noexcept {
  const int ticket = open_;
  open_ = -1;
  if (ticket < 0) return -1;
  Ticket& closed = tickets_[static_cast<size_t>(ticket)];
  if (closed.numbers == 0) return -1;
  closed.used = true;
  closed.loss_sum = loss_sum;
  closed.loss_tokens = loss_tokens;
  return ticket;
}

bool DeviceScalars::Ready(int index) noexcept {
  if (index < 0) return true;
  const Ticket& ticket = tickets_[static_cast<size_t>(index)];
  for (size_t i = 0; i < ticket.sources; ++i) {
    if (ticket.source[i].event.Reached().code() == Code::kUnavailable) return false;
  }
  return true;
}

void DeviceScalars::Write(int index, bool give_up, FrameSlot* frame) noexcept {
  if (index < 0) return;
  Ticket& ticket = tickets_[static_cast<size_t>(index)];
  ticket.used = false;
  if (give_up && !Ready(index)) return;
  for (size_t i = 0; i < ticket.sources; ++i) {
    if (!ticket.source[i].event.Reached().ok()) return;  // the device has failed: nothing is known
  }
  double sum = ticket.loss_sum, tokens = ticket.loss_tokens;
  bool losses = false;
  for (size_t i = 0; i < ticket.numbers; ++i) {
    const Number& number = ticket.number[i];
    const double value = kernels::LoadDouble(RoomOf(static_cast<size_t>(index), i), number.dtype, 0);
    if (number.signal == kLoss) {
      losses = true;
      sum += value * number.weight;
      tokens += number.weight;
      continue;
    }
    ColumnWriter(layout_, frame, -1, number.signal).Set(0, value);
    if (number.signal == kLearningRate && std::isfinite(value)) learning_rate_ = value;
  }
  if (losses) ColumnWriter(layout_, frame, -1, kLoss).Set(0, sum / tokens, tokens);
}

}  // namespace foreshock::sdk
