// Certificates and keys from PEM files, checked when they are read, for whoever terminates TLS itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

struct ssl_st;         // OpenSSL's SSL
struct x509_store_st;  // OpenSSL's X509_STORE

namespace foreshock {

// One end's certificate with its chain and private key. Immutable; any number of threads.
class TlsIdentity {
 public:
  // kInvalidArgument naming `cert_field` or `key_field`, the file and what is wrong: cannot be read, no PEM,
  // an encrypted key, a key of another certificate. An expired certificate is no error here.
  static Result<std::shared_ptr<const TlsIdentity>> Load(std::string_view cert_field,
                                                         const std::string& cert_file,
                                                         std::string_view key_field,
                                                         const std::string& key_file);
  virtual ~TlsIdentity() = default;
  virtual std::string subject() const = 0;  // "CN = node-7, O = lab"
  virtual std::string issuer() const = 0;
  virtual int64_t expires_unix_s() const = 0;
  virtual bool expired() const = 0;  // by the system's clock
  // Makes one connection present it. False without memory.
  virtual bool UseIn(ssl_st* ssl) const = 0;
};

// Roots that the other end's certificate must lead to. Immutable; any number of threads.
class TlsRoots {
 public:
  // kInvalidArgument naming `field` and the file: cannot be read, or holds no certificate.
  static Result<std::shared_ptr<const TlsRoots>> Load(std::string_view field, const std::string& ca_file);
  virtual ~TlsRoots() = default;
  virtual x509_store_st* store() const = 0;  // owned by this
};

// "2026-11-30 01:02:03 UTC"
std::string UtcText(int64_t unix_s);

}  // namespace foreshock
