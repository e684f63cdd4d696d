// Where records go, and which attempt of a run this process belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::sdk {

enum class LinkKind : uint8_t { kNone, kUnix, kFile, kGrpc };

struct Address {
  LinkKind kind = LinkKind::kNone;
  std::string target;       // a path, or host:port and options (grpc_target.h)
  bool tls = false;         // grpcs://, which is grpc:// with the option tls=1
  bool json_lines = false;  // kFile with a path ending in .jsonl

  std::string ToString() const;
};

// "" is kNone. kInvalidArgument for an unknown scheme, an empty target, a unix path that does not fit, or an
// unknown option of grpc://.
Result<Address> ParseAddress(std::string_view text);

// Value of an environment variable, "" when unset.
using Environment = std::function<std::string(const char* name)>;
Environment ProcessEnvironment();

struct Attempt {
  std::string name;  // empty: the agent mints one
  wire::AttemptSource source = wire::AttemptSource::kUnspecified;
};

// FORESHOCK_ATTEMPT (or the option), else torchelastic's run id and restart count, else Slurm's job id and
// restart count, else, on several nodes, "unknown", else minted: by the agent on unix:, here on file: and
// grpc://. torchrun's default run id "none" names no run and counts as absent.
Attempt DiscoverAttempt(const std::string& option, const Environment& environment, LinkKind link,
                        uint32_t world_size, uint32_t local_world_size, uint64_t incarnation);

}  // namespace foreshock::sdk
