// Encoded records that the other side has not acknowledged, oldest first, bounded in bytes: the oldest go.
// Background thread only.
//
// Gaps are declared when a record is sent, from the sequence numbers alone: whatever lies between what the
// other side has (or was sent on this link) and the record is lost, be it from the queue or from here.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "foreshock/wire/record.h"

namespace foreshock::sdk {

class SendWindow {
 public:
  explicit SendWindow(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // seq rises from call to call. A record larger than the whole window goes in alone.
  void Add(uint64_t seq, wire::RecordType type, std::string payload);
  // Everything up to here is durable on the other side.
  void Acknowledge(uint64_t durable_seq);
  // The other side will never take this record: it is not sent again.
  void Discard(uint64_t seq);
  // A new link, whose receiver has everything up to durable_seq: sending starts again behind that.
  void Rewind(uint64_t durable_seq);

  struct Item {
    uint64_t seq = 0;
    wire::RecordType type = wire::RecordType::kFrame;
    std::string payload;
    bool sent_before = false;  // on an earlier link
  };
  // The next record to send, nullptr when all are sent. *gap: records lost directly before it.
  const Item* Next(uint64_t* gap) const;
  // Next() was sent.
  void Advance();

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return items_.empty(); }
  bool all_sent() const { return next_ == items_.size(); }
  // Records given up that the other side does not have. Of one that had been sent, only the next
  // acknowledgement or greeting says whether it arrived: until then it is in unresolved().
  uint64_t dropped() const { return dropped_; }
  uint64_t unresolved() const { return unresolved_.size(); }

 private:
  void PopFront();

  const uint64_t max_bytes_;
  std::deque<Item> items_;
  size_t next_ = 0;  // index of the first item not sent on this link
  uint64_t bytes_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t last_on_link_ = 0;  // highest seq that the other side has or was sent on this link
  uint64_t dropped_ = 0;
  // Sequence numbers given up after they were sent. No more than fit between two acknowledgements.
  std::deque<uint64_t> unresolved_;
};

}  // namespace foreshock::sdk
