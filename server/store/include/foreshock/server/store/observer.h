// Who wants to hear of records once they are durable.
#pragma once

#include <memory>
#include <string>

#include "foreshock/server/store/types.h"

namespace foreshock::store {

// Where a record belongs.
struct Origin {
  SourceId source;  // of merged frames: rank kMerged, incarnation 0
  std::string run;
  std::string attempt;
};

// Called on the writer's thread, one call at a time, in the order of durability. Return soon (queue the work)
// and do not write to the store from within. Reading it is allowed.
class Observer {
 public:
  virtual ~Observer() = default;
  // A source was opened: a new process, or a known one that connected again.
  virtual void OnSource(const Origin&, const wire::Hello&) {}
  // A rank's frame, or a part of it.
  virtual void OnFrame(const Origin&, const std::shared_ptr<const wire::Frame>&) {}
  // A step's frame over all ranks, by rising step within an attempt's life. `amended`: it replaces one given
  // before, because a rank came late.
  virtual void OnMergedFrame(const Origin&, const std::shared_ptr<const wire::Frame>&, bool amended) {
    (void)amended;
  }
  virtual void OnEvent(const Origin&, const std::shared_ptr<const wire::Event>&) {}
  virtual void OnGoodbye(const Origin&, const std::shared_ptr<const wire::Goodbye>&) {}
  // Records of the run came from an archive, of the past: read the store. Its sources are not told of otherwise.
  virtual void OnRunImported(const std::string& run) { (void)run; }
  virtual void OnRunDeleted(const std::string& run) { (void)run; }
};

// Ends with its destruction.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

}  // namespace foreshock::store
