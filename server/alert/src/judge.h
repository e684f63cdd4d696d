// Owns the watches of all attempts and decides when an attempt is over. One thread: the service's.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "book.h"
#include "foreshock/base/clock.h"
#include "listeners.h"
#include "watch.h"

namespace foreshock::alert {

using AttemptName = std::pair<std::string, std::string>;  // run, attempt

class Judge {
 public:
  // Once `stopping` is true, reading of the history ends at the next step, and what was not judged is judged
  // after the next start.
  Judge(const AlertOptions& options, store::Store* store, const Clock* clock, Book* book,
        Listeners* listeners, const std::atomic<bool>* stopping)
      : options_(options),
        store_(store),
        clock_(clock),
        book_(book),
        listeners_(listeners),
        stopping_(stopping) {}

  // All attempts in the store that are not closed.
  void RebuildAll();

  void OnSource(const AttemptName& name);
  void OnFrame(const AttemptName& name, const wire::Frame& frame);
  void OnEvent(const AttemptName& name, const store::SourceId& source, const wire::Event& event);
  void OnGoodbye(const AttemptName& name);
  void OnRunDeleted(const std::string& run);
  // The run came from an archive, wholly or in part: what is known of it is read anew. Its open alerts are told again,
  // to listeners that know by themselves whether somebody heard of them.
  void OnRunImported(const std::string& run);
  // Reads from the store what the queue could not hold.
  void CatchUp(const AttemptName& name);
  // Measures silence, ends what is over, saves states that have waited long enough.
  void Tick();
  // The states of all, for at most so long: who is left out is judged again from an older state.
  void SaveAll(std::chrono::milliseconds at_most);
  void SetUserRules(const detect::UserRulesPtr& rules);

  uint64_t steps() const { return steps_; }
  uint64_t fired() const { return fired_; }
  uint64_t resolved() const { return resolved_; }
  uint64_t open_attempts() const { return open_attempts_; }

 private:
  Watch* Find(const AttemptName& name);
  void Forget(const std::string& run);
  std::unique_ptr<Watch> Make(const AttemptName& name);
  void Take(Watch* watch, const std::vector<AlertEvent>& events, const std::string& because = "");
  // Writes and tells `alerts`, firing or resolved.
  void Tell(Watch& watch, std::vector<Alert> alerts, const std::string& because, store::MetaEntry state);
  void EndIfOver(const AttemptName& name);
  // Tells the watch when two live processes begin or cease to send as one rank.
  void LookForRivals(Watch* watch, const store::AttemptInfo& info) const;
  void Close(const AttemptName& name, const std::string& because);
  double QuietSeconds(const Watch& watch) const;
  store::MetaEntry OpenState(const Watch& watch) const;

  AlertOptions options_;  // of it only the user's rules change
  store::Store* const store_;
  const Clock* const clock_;
  Book* const book_;
  Listeners* const listeners_;
  const std::atomic<bool>* const stopping_;
  std::map<AttemptName, std::unique_ptr<Watch>> watches_;  // null: closed, or not readable
  int64_t last_save_nanos_ = 0;
  std::atomic<uint64_t> steps_{0}, fired_{0}, resolved_{0}, open_attempts_{0};
};

}  // namespace foreshock::alert
