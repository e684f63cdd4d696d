// The whole agent, to be embedded in a binary or a test: socket, spool and forwarding with one life.
//
//   auto agent = Agent::New(PosixFileSystem(), options);    // checks the options
//   (*agent)->Start();                                      // all or nothing
//   ... (*agent)->WriteStatus() about once a second ...
//   (*agent)->Stop();                                       // everything received is synced
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/agent/device.h"
#include "foreshock/agent/forward.h"
#include "foreshock/agent/receive.h"
#include "foreshock/agent/relay.h"
#include "foreshock/agent/spool.h"
#include "foreshock/base/clock.h"
#include "foreshock/base/file.h"
#include "foreshock/base/result.h"

namespace foreshock::agent {

struct AgentOptions {
  std::string socket_path;  // trainers connect here; SOCKET.lock is beside it
  std::string spool_dir;
  std::string status_path;  // empty: SOCKET.status.json
  std::string version;      // for the status
  SpoolOptions spool;
  ReceiverOptions receiver;    // socket_path and clock are filled in
  ForwarderOptions forwarder;  // address empty: nothing is forwarded, everything spooled
  RelayOptions relay;          // address empty: no agents are taken
  DeviceOptions device;
  Clock* clock = &SystemClock::Instance();
};

struct AgentStats {
  SpoolStats spool;
  ReceiverStats receiver;
  ForwarderStats forwarder;
  RelayStats relay;
  int relay_port = 0;  // 0: no relay
  DeviceHealth device;
  std::string server;  // empty: none configured
  std::string health;  // "ok", or what is wrong in one line
};

class Agent {
 public:
  // kInvalidArgument for options that make no sense. The file system must outlive the agent.
  static Result<std::unique_ptr<Agent>> New(FileSystem& fs, AgentOptions options);
  ~Agent();  // stops

  // Takes the lock, opens the spool, listens, forwards. On failure nothing is left running.
  // kFailedPrecondition: another agent holds the socket's lock or the spool. A server address that cannot be
  // used is no failure: it is logged, and records stay in the spool.
  Status Start();
  // Stops listening, lets what was received be synced, ends the streams. The status file then says "stopped".
  void Stop();

  AgentStats Stats() const;
  // No trainer is connected and nothing waits for the server (without a server: no trainer is connected).
  // Records of sources that the server refuses do not wait: the next start tries them again.
  bool Idle() const;
  // Replaces the status file. What cannot be written is not fatal.
  Status WriteStatus() const;

 private:
  Agent(FileSystem& fs, AgentOptions options);
  Status StartParts();
  void StopParts();
  Status WriteStatus(const std::string& state) const;

  FileSystem& fs_;
  const AgentOptions options_;
  std::string forward_problem_;  // why nothing is forwarded
  int64_t started_unix_ns_ = 0;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<DeviceWatch> device_;
  std::unique_ptr<Forwarder> forwarder_;
};

// The status file's contents (docs/formats/agent_status.md).
std::string StatusJson(const AgentStats& stats, const AgentOptions& options, const std::string& state,
                       int64_t started_unix_ns);

}  // namespace foreshock::agent
