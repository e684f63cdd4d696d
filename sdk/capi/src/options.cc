#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <random>

#include <unistd.h>

#include "foreshock/wire/check.h"
#include "run.h"

namespace foreshock::sdk {
namespace {

std::string Text(const char* option) { return option == nullptr ? "" : option; }

std::string TextOr(const char* option, const Environment& environment, const char* variable) {
  return option != nullptr ? option : environment(variable);
}

// The option, else the first variable that holds a number of at least 0, else `otherwise`.
uint32_t NumberOr(int32_t option, const Environment& environment, const char* first, const char* second,
                  uint32_t otherwise) {
  if (option >= 0) return static_cast<uint32_t>(option);
  for (const char* variable : {first, second}) {
    const std::string text = environment(variable);
    if (text.empty() ||
        !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); })) {
      continue;  // Slurm writes "4(x2)" for nodes of different size: not a number, not used
    }
    if (text.size() < 9) return static_cast<uint32_t>(std::stoul(text));
  }
  return otherwise;
}

uint64_t RandomNumber() {
  std::random_device device;
  const uint64_t number = (static_cast<uint64_t>(device()) << 32) ^ device();
  return number == 0 ? 1 : number;
}

uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

Status Bad(const std::string& field, const std::string& value, const std::string& limit) {
  return Status(Code::kInvalidArgument, field + ": " + value + ", " + limit);
}

Status ReadLabels(const fs_options& in, std::map<std::string, std::string>* labels) {
  for (uint32_t i = 0; i < in.label_count && in.labels != nullptr; ++i) {
    const std::string text = Text(in.labels[i]);
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return Bad("labels", "'" + text + "'", "must be key=value");
    const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
    FS_RETURN_IF_ERROR(wire::CheckLabel(key, value));
    (*labels)[key] = value;
  }
  if (labels->size() <= wire::kMaxLabels) return OkStatus();
  return Bad("labels", std::to_string(labels->size()), "at most " + std::to_string(wire::kMaxLabels));
}

Status CheckNumbers(const fs_options& options, uint32_t rank, uint32_t world_size) {
  if (world_size == 0) return Bad("world_size", "0", "must be at least 1");
  if (rank >= world_size) {
    return Bad("rank", std::to_string(rank), "must be below world_size " + std::to_string(world_size));
  }
  if (options.replicas < 1) return Bad("replicas", std::to_string(options.replicas), "must be at least 1");
  if (options.replica < 0 || options.replica >= options.replicas) {
    return Bad("replica", std::to_string(options.replica),
               "must be 0 to below replicas " + std::to_string(options.replicas));
  }
  if (!(options.budget > 0))
    return Bad("budget", std::to_string(options.budget), "must be above 0; 1: no limit");
  constexpr uint32_t kMaxEvery = 1u << 30;
  for (const auto& [name, value] :
       {std::pair("row_every", options.row_every), {"sequence_every", options.sequence_every}}) {
    if (value < 1 || value > kMaxEvery)
      return Bad(name, std::to_string(value), "must be 1 to " + std::to_string(kMaxEvery));
  }
  if (options.queue_frames < 1 || options.queue_frames > (1u << 19)) {
    return Bad("queue_frames", std::to_string(options.queue_frames), "must be 1 to 524288");
  }
  return OkStatus();
}

}  // namespace

Result<RunOptions> ReadOptions(const fs_options& in, const Environment& environment) {
  RunOptions out;
  FS_ASSIGN_OR_RETURN(out.exporter.address, ParseAddress(TextOr(in.address, environment, "FORESHOCK_ADDR")));
  wire::Hello& hello = out.exporter.hello;
  hello.run = TextOr(in.run, environment, "FORESHOCK_RUN");
  if (hello.run.empty()) hello.run = "run";
  hello.rank = NumberOr(in.rank, environment, "RANK", "SLURM_PROCID", 0);
  hello.world_size = NumberOr(in.world_size, environment, "WORLD_SIZE", "SLURM_NTASKS", 1);
  hello.local_world_size = NumberOr(in.local_world_size, environment, "LOCAL_WORLD_SIZE",
                                    "SLURM_NTASKS_PER_NODE", hello.world_size);
  FS_RETURN_IF_ERROR(wire::CheckName("run", hello.run));
  FS_RETURN_IF_ERROR(CheckNumbers(in, hello.rank, hello.world_size));

  hello.incarnation = RandomNumber();
  const Attempt attempt = DiscoverAttempt(Text(in.attempt), environment, out.exporter.address.kind,
                                          hello.world_size, hello.local_world_size, hello.incarnation);
  if (!attempt.name.empty()) FS_RETURN_IF_ERROR(wire::CheckName("attempt", attempt.name));
  hello.attempt = attempt.name;
  hello.attempt_source = attempt.source;
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0) hello.host = host;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.sdk_version = FS_VERSION;
  hello.framework = Text(in.framework);
  hello.model.name = Text(in.model_name);
  hello.sample_every_steps = in.spectra_every_steps > 0 ? in.spectra_every_steps : in.attention_every_steps;
  for (uint32_t i = 0; i < in.allowed_action_count && in.allowed_actions != nullptr; ++i) {
    hello.allowed_actions.push_back(Text(in.allowed_actions[i]));
  }
  FS_RETURN_IF_ERROR(ReadLabels(in, &hello.labels));
  // What every receiver would refuse is refused here, where somebody reads the reason.
  FS_RETURN_IF_ERROR(wire::CheckHello(hello));

  SamplerOptions& sampler = out.sampler;
  sampler.attention_every_steps = in.attention_every_steps;
  sampler.spectra_every_steps = in.spectra_every_steps;
  sampler.projections_every_steps = in.projections_every_steps;
  sampler.row_every = in.row_every;
  sampler.sequence_every = in.sequence_every;
  sampler.budget = in.budget;
  sampler.seed = in.seed != 0 ? in.seed : Hash(hello.run);
  sampler.replica = static_cast<uint32_t>(in.replica);
  sampler.replicas = static_cast<uint32_t>(in.replicas);
  sampler.queue_frames = in.queue_frames;
  sampler.queue_bytes = in.queue_bytes;
  sampler.snapshot_bytes = in.snapshot_bytes;

  ExporterOptions& exporter = out.exporter;
  exporter.window_bytes = in.window_bytes;
  exporter.grpc_library = TextOr(in.grpc_library, environment, "FORESHOCK_GRPC_LIBRARY");
  exporter.token = TextOr(in.token, environment, "FORESHOCK_TOKEN");
  exporter.start_agent = in.start_agent != 0;
  exporter.agent_path = Text(in.agent_path);
  for (uint32_t i = 0; i < in.agent_argument_count && in.agent_arguments != nullptr; ++i) {
    exporter.agent_arguments.push_back(Text(in.agent_arguments[i]));
  }
  if (exporter.start_agent && (exporter.agent_path.empty() || exporter.agent_path[0] != '/')) {
    return Bad("agent_path", "'" + exporter.agent_path + "'", "must be absolute where start_agent is set");
  }
  out.cupti = environment("FORESHOCK_CUPTI");
  out.flush_timeout = std::chrono::milliseconds(in.flush_timeout_ms);
  out.log = in.log;
  out.log_context = in.log_context;
  return out;
}

}  // namespace foreshock::sdk
