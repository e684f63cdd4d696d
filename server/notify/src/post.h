// Sends one message and sorts the answer.
#pragma once

#include <string>

#include "foreshock/base/result.h"
#include "foreshock/server/notify/notifier.h"

namespace foreshock::notify {

enum class PostOutcome {
  kDelivered,
  kTryAgain,  // no answer, 429, or the other side's trouble
  kRefused,   // the same message will always be refused
};
// An empty body makes it a GET.
PostOutcome Post(const Target& target, const std::string& url, const std::string& body);

}  // namespace foreshock::notify
