#include "post.h"

#include "foreshock/base/logging.h"
#include "foreshock/server/http/client.h"

namespace foreshock::notify {

PostOutcome Post(const Target& target, const std::string& url, const std::string& body) {
  http::ClientOptions options;
  if (!target.token.empty()) options.headers["Authorization"] = "Bearer " + target.token;
  const auto answer =
      body.empty() ? http::Get(url, options) : http::Post(url, body, "application/json", options);
  if (!answer.ok()) {
    LogWarning("server/notify", "no answer", {{"target", target.name}, {"error", answer.status()}});
    return PostOutcome::kTryAgain;
  }
  if (answer->code >= 200 && answer->code < 300) return PostOutcome::kDelivered;
  LogWarning("server/notify", "not accepted",
             {{"target", target.name}, {"http_code", answer->code}, {"answer", answer->body.substr(0, 200)}});
  const bool final = answer->code >= 300 && answer->code < 500 && answer->code != 408 && answer->code != 429;
  return final ? PostOutcome::kRefused : PostOutcome::kTryAgain;
}

}  // namespace foreshock::notify
