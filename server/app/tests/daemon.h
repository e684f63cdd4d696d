// A foreshockd in its own process, and a trainer that streams into it.
#pragma once

#include <string>
#include <vector>

#include "foreshock/rpc/ingest_client.h"
#include "foreshock/server/http/client.h"

namespace foreshock::app::test {

// Started by the constructor, which returns when it listens; killed at the end if it still runs.
class Daemon {
 public:
  // `prefix`: a command that runs the program, e.g. {"unshare", "-rm"}; `folder` gets the ready file and the
  // log.
  Daemon(const std::string& folder, std::vector<std::string> arguments, std::vector<std::string> prefix = {});
  ~Daemon();
  Daemon(const Daemon&) = delete;

  bool listens() const { return grpc_port_ != 0; }
  int grpc_port() const { return grpc_port_; }
  int pid() const { return pid_; }
  // The exit code, or minus the signal that ended it.
  int Kill(int signal);
  // What a path of its HTTP address answers, e.g. "/metrics"; Health is /healthz.
  http::ClientResponse Get(const std::string& path) const;
  http::ClientResponse Health() const { return Get("/healthz"); }
  std::string log() const;

 private:
  int pid_ = -1;
  int grpc_port_ = 0, http_port_ = 0;
  std::string folder_;
};

// The path of the program.
std::string Binary();

// Opens a stream of (run, attempt "1", rank 0, incarnation 1); nullptr when the server is away.
struct Link {
  std::unique_ptr<rpc::IngestStream> stream;
  uint64_t durable_seq = 0;  // as the HelloAck said
};
Link Connect(int port, const std::string& run);

// A frame of step seq with a loss of seq and `heads` values; different bytes each time, so that they do not
// compress.
std::string FrameOf(uint64_t seq, uint32_t heads);

}  // namespace foreshock::app::test
