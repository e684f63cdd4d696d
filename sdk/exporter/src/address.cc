#include "foreshock/sdk/address.h"

#include <sys/un.h>

#include <cstdio>
#include <cstdlib>

#include "foreshock/sdk/grpc_target.h"

namespace foreshock::sdk {
namespace {

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string Address::ToString() const {
  switch (kind) {
    case LinkKind::kNone:
      return "";
    case LinkKind::kUnix:
      return "unix:" + target;
    case LinkKind::kFile:
      return "file:" + target;
    case LinkKind::kGrpc:
      return "grpc://" + target;  // grpcs:// has become an option
  }
  return "";
}

Result<Address> ParseAddress(std::string_view text) {
  if (text.empty()) return Address{};
  std::string_view rest = text;
  Address address;
  if (TakePrefix(&rest, "unix:")) {
    address.kind = LinkKind::kUnix;
  } else if (TakePrefix(&rest, "file:")) {
    address.kind = LinkKind::kFile;
    address.json_lines = EndsWith(rest, ".jsonl");
  } else if (TakePrefix(&rest, "grpc://")) {
    address.kind = LinkKind::kGrpc;
  } else if (TakePrefix(&rest, "grpcs://")) {
    address.kind = LinkKind::kGrpc;
    address.tls = true;
  } else {
    return Status(Code::kInvalidArgument, "address: '" + std::string(text) +
                                              "', must be unix:PATH, file:PATH, grpc://host:port or "
                                              "grpcs://host:port");
  }
  if (rest.empty()) {
    return Status(Code::kInvalidArgument, "address: '" + std::string(text) + "', nothing follows the scheme");
  }
  if (address.kind == LinkKind::kGrpc) {
    FS_ASSIGN_OR_RETURN(const GrpcTarget target, ParseGrpcTarget(rest));
    if (target.host_port.rfind(':') == std::string::npos) {
      return Status(Code::kInvalidArgument, "address: '" + std::string(text) + "', has no port");
    }
  }
  constexpr size_t kMaxUnixPath = sizeof(sockaddr_un{}.sun_path) - 1;
  if (address.kind == LinkKind::kUnix && rest.size() > kMaxUnixPath) {
    return Status(Code::kInvalidArgument, "address: unix path of " + std::to_string(rest.size()) +
                                              " bytes, at most " + std::to_string(kMaxUnixPath));
  }
  address.target = std::string(rest);
  if (address.tls)
    address.target += (rest.find('?') == std::string_view::npos ? "?" : "&") + std::string("tls=1");
  return address;
}

Environment ProcessEnvironment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

Attempt DiscoverAttempt(const std::string& option, const Environment& environment, LinkKind link,
                        uint32_t world_size, uint32_t local_world_size, uint64_t incarnation) {
  using wire::AttemptSource;
  std::string name = option.empty() ? environment("FORESHOCK_ATTEMPT") : option;
  if (!name.empty()) return {name, AttemptSource::kExplicit};

  const auto or_zero = [](std::string text) { return text.empty() ? std::string("0") : text; };
  const std::string elastic = environment("TORCHELASTIC_RUN_ID");
  if (!elastic.empty() && elastic != "none") {
    return {elastic + "." + or_zero(environment("TORCHELASTIC_RESTART_COUNT")), AttemptSource::kTorchelastic};
  }
  const std::string job = environment("SLURM_JOB_ID");
  if (!job.empty()) return {job + "." + or_zero(environment("SLURM_RESTART_COUNT")), AttemptSource::kSlurm};

  if (local_world_size > 0 && world_size > local_world_size) return {"unknown", AttemptSource::kUnknown};
  if (link == LinkKind::kUnix) return {"", AttemptSource::kUnspecified};
  char minted[32];
  std::snprintf(minted, sizeof minted, "m%016llx", static_cast<unsigned long long>(incarnation));
  return {minted, AttemptSource::kMinted};
}

}  // namespace foreshock::sdk
