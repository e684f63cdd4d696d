// One way of getting records out of the process. Background thread only; no call waits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/sdk/address.h"
#include "foreshock/wire/record.h"

namespace foreshock::sdk {

class Link {
 public:
  virtual ~Link() = default;

  // Begins with a Hello. An error means that the link is down and Start may be tried again. The other side's
  // HelloAck arrives through Pump; nothing is sent before.
  virtual Status Start(const wire::Hello& hello) = 0;
  // Moves what can be moved without waiting and appends replies. An error means that the link is down;
  // kInvalidArgument that the other side refused the Hello, and will again.
  virtual Status Pump(std::vector<wire::Reply>* replies) = 0;
  // kResourceExhausted: not now, Pump first. Any other error means that the link is down.
  virtual Status Send(wire::RecordType type, std::string payload, uint64_t seq) = 0;
  // Nothing is buffered inside any more.
  virtual bool Drained() const = 0;
  virtual void Stop() = 0;
};

std::unique_ptr<Link> MakeFileLink(std::string path, bool json_lines, const Clock& clock);
std::unique_ptr<Link> MakeUnixLink(std::string path);
// library: path of libforeshock_grpc.so, "" for the loader's search.
std::unique_ptr<Link> MakeGrpcLink(std::string target, std::string library, std::string token);

}  // namespace foreshock::sdk
