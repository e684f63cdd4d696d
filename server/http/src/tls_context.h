// What the listener shows its clients, and whom it lets in; changes while connections stand. Private.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "foreshock/base/tls_identity.h"

struct ssl_ctx_st;

namespace foreshock::http {

struct TlsFiles {
  std::string cert_file, key_file;
  std::string client_ca_file;  // empty: clients need no certificate
};

// Thread-safe.
class TlsContext {
 public:
  // kInvalidArgument naming http_cert_file, http_key_file or http_client_ca_file.
  static Result<std::unique_ptr<TlsContext>> Create(const TlsFiles& files);
  ~TlsContext();

  // A server's end over a connected, non-blocking socket; null without memory. The caller frees it.
  ssl_st* NewSession(int fd) const;
  // Reads the files again, all or nothing: later connections use them.
  Status Reload();

 private:
  explicit TlsContext(TlsFiles files) : files_(std::move(files)) {}
  Status MakeContext();
  static int ChooseCertificate(ssl_st* ssl, void* self);

  const TlsFiles files_;
  ssl_ctx_st* context_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const TlsIdentity> identity_;
  std::shared_ptr<const TlsRoots> client_roots_;
};

}  // namespace foreshock::http
