// What a Watch call sends: gathers from the store and the alert service into a bounded queue.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/base/blocking_queue.h"
#include "foreshock/server/query/queries.h"

namespace foreshock::query {

// Registers in the constructor, leaves in the destructor. The store's and the alert service's threads fill
// it, one thread (the call's) empties it. A reader that is too slow loses scalars of steps; of alerts and
// events it loses none silently: overflow() turns true.
class WatchFeed final : public store::Observer, public alert::AlertListener {
 public:
  WatchFeed(const QueryOptions& options, std::string run, std::vector<uint16_t> signals);

  // nullopt when nothing came within the time.
  std::optional<v1::WatchUpdate> Next(std::chrono::milliseconds timeout) { return queue_.WaitPop(timeout); }
  bool overflow() const { return overflow_; }
  // Of the newest frame that came since the start, -1 before it.
  int64_t last_step() const { return last_step_; }

 private:
  void OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                     bool amended) override;
  void OnEvent(const store::Origin& origin, const std::shared_ptr<const wire::Event>& event) override;
  void OnAlert(const alert::AlertRecord& record) override;
  void PushOrOverflow(v1::WatchUpdate update);

  static constexpr size_t kCapacity = 4096;
  const std::string run_;
  const alert::Silences* const silences_;
  const std::vector<uint16_t> signals_;
  BlockingQueue<v1::WatchUpdate> queue_{kCapacity};
  std::atomic<bool> overflow_{false};
  std::atomic<int64_t> last_step_{-1};
  std::unique_ptr<store::Subscription> frames_, alerts_;
};

}  // namespace foreshock::query
