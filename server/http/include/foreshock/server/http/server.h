// A small HTTP/1.1 server, plain or TLS. The library that does the work stays behind server.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                     // 0: any free one
  size_t threads = 8;               // connections served at the same time; more wait
  size_t max_body_bytes = 1 << 20;  // of a request; more is answered with 413
  // Of them, connections of one address; more are closed. 0: any number. Below `threads`, so that nobody can
  // take them all.
  size_t max_connections_per_address = 0;
  // TLS when set, and clients need a certificate that leads to client_ca_file when that is set, too.
  std::string cert_file, key_file, client_ca_file;
  std::chrono::milliseconds handshake_timeout{5'000};  // of TLS
  std::chrono::milliseconds request_timeout{15'000};   // from a request's first byte to its last
  std::chrono::milliseconds answer_timeout{60'000};    // until an answer has been taken
};

class Server {
 public:
  // Listens and answers at once. kUnavailable when the address cannot be had, e.g. the port is taken;
  // kInvalidArgument naming http_cert_file, http_key_file or http_client_ca_file.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Routes routes);
  virtual ~Server() = default;  // stops
  virtual int port() const = 0;
  // Takes no more requests and waits for running ones (idle connections: up to a second). May be called
  // twice.
  virtual void Stop() = 0;
  // Reads the certificate files again, all or nothing; connections that stand keep what they have. Ok without
  // TLS. Thread-safe.
  virtual Status ReloadCertificates() = 0;

  struct Stats {
    uint64_t connections = 0;        // since the start
    uint64_t refused = 0;            // closed at once: too many of one address
    uint64_t failed_handshakes = 0;  // of TLS
  };
  virtual Stats stats() const = 0;  // thread-safe
};

}  // namespace foreshock::http
