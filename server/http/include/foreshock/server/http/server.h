// A small HTTP/1.1 server. The library that does the work stays behind server.cc.
#pragma once

#include <memory>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                     // 0: any free one
  size_t threads = 8;               // requests answered at the same time; more wait
  size_t max_body_bytes = 1 << 20;  // of a request; more is answered with 413
};

class Server {
 public:
  // Listens and answers at once. kUnavailable when the address cannot be had, e.g. the port is taken.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Routes routes);
  virtual ~Server() = default;  // stops
  virtual int port() const = 0;
  // Takes no more requests and waits for running ones (idle connections: up to a second). May be called
  // twice.
  virtual void Stop() = 0;
};

}  // namespace foreshock::http
