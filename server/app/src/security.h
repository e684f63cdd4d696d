// The server's gate and its certificates: made at the start, read again when their files change.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/server/app/options.h"
#include "foreshock/server/auth/gate.h"
#include "foreshock/server/http/server.h"

namespace foreshock::app {

// Thread-safe once started.
class Security {
 public:
  // Reads control token, tokens and certificates. kInvalidArgument or what the files say.
  static Result<std::unique_ptr<Security>> Create(const AppOptions& options, const Clock& clock);
  ~Security();  // stops

  const auth::Gate& gate() const { return gate_; }

  // Looks at the files every second from now on. `http` gets its certificates reloaded; not owned.
  void Start(http::Server* http);
  void Stop();
  // Reads all of them now. The first error; what is wrong stays as it was.
  Status Reload();

  int64_t certificate_expires_unix_s() const { return expires_; }  // 0: no TLS
  uint64_t reloads() const { return reloads_; }
  uint64_t reload_failures() const { return failures_; }

 private:
  Security(const AppOptions& options, const Clock& clock, std::string control_token);
  Status ReloadTokens();
  Status ReloadCertificates();
  Status LookAtCertificate();
  std::vector<std::string> Stamps() const;
  void Watch();

  const std::string cert_file_, key_file_;
  const std::vector<std::string> files_;
  const Clock& clock_;
  auth::Gate gate_;
  http::Server* http_ = nullptr;
  std::atomic<int64_t> expires_{0};
  std::atomic<uint64_t> reloads_{0}, failures_{0};
  std::mutex reload_mutex_;  // one reload at a time
  std::mutex mutex_;         // guards what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace foreshock::app
