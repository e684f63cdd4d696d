#include "foreshock/sdk/send_window.h"

#include <algorithm>
#include <utility>

namespace foreshock::sdk {

void SendWindow::PopFront() {
  bytes_ -= items_.front().payload.size();
  items_.pop_front();
  if (next_ > 0) --next_;
}

void SendWindow::Add(uint64_t seq, wire::RecordType type, std::string payload) {
  bytes_ += payload.size();
  items_.push_back({seq, type, std::move(payload)});
  while (bytes_ > max_bytes_ && items_.size() > 1) {
    const bool sent = next_ > 0 || items_.front().sent_before;
    if (sent) {
      unresolved_.push_back(items_.front().seq);
    } else {
      ++dropped_;
    }
    PopFront();
  }
}

void SendWindow::Acknowledge(uint64_t durable_seq) {
  acknowledged_ = std::max(acknowledged_, durable_seq);
  while (!items_.empty() && items_.front().seq <= acknowledged_) PopFront();
  while (!unresolved_.empty() && unresolved_.front() <= acknowledged_) unresolved_.pop_front();
  last_on_link_ = std::max(last_on_link_, acknowledged_);
}

void SendWindow::Discard(uint64_t seq) {
  const auto at =
      std::find_if(items_.begin(), items_.end(), [seq](const Item& item) { return item.seq == seq; });
  if (at == items_.end()) return;
  bytes_ -= at->payload.size();
  if (static_cast<size_t>(at - items_.begin()) < next_) --next_;
  items_.erase(at);
}

void SendWindow::Rewind(uint64_t durable_seq) {
  last_on_link_ = 0;
  next_ = 0;
  Acknowledge(durable_seq);
  // The receiver lacks what was on its way, and here it is gone.
  dropped_ += unresolved_.size();
  unresolved_.clear();
}

const SendWindow::Item* SendWindow::Next(uint64_t* gap) const {
  if (next_ >= items_.size()) return nullptr;
  const Item& item = items_[next_];
  *gap = item.seq - last_on_link_ - 1;
  return &item;
}

void SendWindow::Advance() {
  Item& item = items_[next_++];
  item.sent_before = true;
  last_on_link_ = item.seq;
}

}  // namespace foreshock::sdk
