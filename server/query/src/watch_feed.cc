#include "watch_feed.h"

#include <algorithm>

#include "convert.h"

namespace foreshock::query {

WatchFeed::WatchFeed(const QueryOptions& options, std::string run, std::vector<uint16_t> signals)
    : run_(std::move(run)),
      silences_(options.silences),
      signals_(std::move(signals)),
      frames_(options.store->Subscribe(this)),
      alerts_(options.alerts->Subscribe(this)) {}

void WatchFeed::OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                              bool amended) {
  if (origin.run != run_ || amended) return;
  v1::WatchUpdate update;
  v1::StepReply& step = *update.mutable_step();
  step.set_attempt(origin.attempt);
  step.set_step(frame->step);
  v1::Frame& out = *step.mutable_frame();
  out.set_step(frame->step);
  out.set_time_unix_ns(frame->time_unix_ns);
  out.set_skipped(frame->skipped);
  for (const wire::Series& series : frame->series) {
    const bool asked = std::find(signals_.begin(), signals_.end(), series.signal) != signals_.end();
    if (asked) ToProto(series, out.add_series());
  }
  (void)queue_.TryPush(std::move(update));
  last_step_ = frame->step;
}

void WatchFeed::OnEvent(const store::Origin& origin, const std::shared_ptr<const wire::Event>& event) {
  if (origin.run != run_) return;
  v1::WatchUpdate update;
  ToProto(*event, update.mutable_event());
  PushOrOverflow(std::move(update));
}

void WatchFeed::OnAlert(const alert::AlertRecord& record) {
  if (record.alert.run != run_) return;
  v1::WatchUpdate update;
  *update.mutable_alert() = ToProto(record, silences_);
  PushOrOverflow(std::move(update));
}

void WatchFeed::PushOrOverflow(v1::WatchUpdate update) {
  if (queue_.TryPush(std::move(update)) == BlockingQueue<v1::WatchUpdate>::Outcome::kFull) overflow_ = true;
}

}  // namespace foreshock::query
