// The kinds of senders.
#pragma once

#include "sender.h"

namespace foreshock::notify {

std::unique_ptr<Sender> MakeWebhookSender(const NotifyOptions& options, const Target& target, uint64_t seed);
std::unique_ptr<Sender> MakeAlertmanagerSender(const NotifyOptions& options, const Target& target,
                                               uint64_t seed);
std::unique_ptr<Sender> MakeHeartbeatSender(const NotifyOptions& options, const Target& target);

}  // namespace foreshock::notify
