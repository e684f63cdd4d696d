#include "watch_action.h"

#include <chrono>
#include <thread>

namespace foreshock::cli {
namespace {

// Taken is not the end for actions whose effect on the logits is measured afterwards.
bool Settled(const v1::ActionRecord& record) {
  switch (record.state()) {
    case v1::ACTION_STATE_REFUSED:
    case v1::ACTION_STATE_EXPIRED:
    case v1::ACTION_STATE_EFFECTIVE:
    case v1::ACTION_STATE_NO_EFFECT:
    case v1::ACTION_STATE_WITHDRAWN:
      return true;
    case v1::ACTION_STATE_TAKEN:
      return record.action().kind() == "checkpoint" || record.action().kind() == "stop";
    default:
      return false;
  }
}

Result<v1::ActionRecord> Find(Client& client, const std::string& run, const std::string& id) {
  FS_ASSIGN_OR_RETURN(const v1::ListActionsReply reply, client.ListActions(run));
  for (const v1::ActionRecord& record : reply.actions()) {
    if (record.action().id() == id) return record;
  }
  return Status(Code::kNotFound, "action " + id + " of run " + run);
}

}  // namespace

Result<v1::ActionRecord> AwaitAction(Client& client, const std::string& run, const std::string& id,
                                     int64_t seconds) {
  constexpr std::chrono::milliseconds kPoll(100);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    FS_ASSIGN_OR_RETURN(v1::ActionRecord record, Find(client, run, id));
    if (Settled(record) || std::chrono::steady_clock::now() >= deadline) return record;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace foreshock::cli
