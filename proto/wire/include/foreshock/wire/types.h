// What travels, as plain C++: the messages of proto/foreshock/v1/ingest.proto, decoded.
//
// Missing is its own state: a head whose `present` entry is 0 was not measured; its value slot holds 0 and
// means nothing. NaN and Inf are values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace foreshock::wire {

enum class AttemptSource : uint8_t { kUnspecified, kExplicit, kTorchelastic, kSlurm, kMinted, kUnknown };
enum class EventKind : uint8_t {
  kUnspecified,
  kCheckpoint,
  kResume,
  kPhase,
  kEval,
  kGuard,
  kNote,
  kAction,
  kUnmonitored
};
enum class ActionState : uint8_t {
  kUnspecified,
  kProposed,
  kDelivered,
  kTaken,
  kRefused,
  kExpired,
  kEffective,
  kNoEffect,
  kAcknowledged,
  kCommitted,
  kWithdrawn
};
enum class GoodbyeStatus : uint8_t { kUnspecified, kFinished, kFailed, kStopped };

struct Layer {
  uint32_t layer = 0;
  std::string name;
  uint32_t query_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  float scale = 0;
  float softcap = 0;
  bool qk_norm = false;
  bool low_resolution = false;
  bool operator==(const Layer&) const = default;
};

struct Model {
  std::string name;
  uint32_t model_dim = 0;
  std::vector<Layer> layers;
  bool operator==(const Model&) const = default;
};

struct Unmonitored {
  std::string name;
  std::string reason;
  bool operator==(const Unmonitored&) const = default;
};

struct Hello {
  uint32_t wire_version = 1;
  std::string run;
  std::string attempt;
  AttemptSource attempt_source = AttemptSource::kUnspecified;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t incarnation = 0;
  uint64_t started_unix_ns = 0;
  std::string host;
  uint32_t pid = 0;
  std::string sdk_version;
  std::string framework;
  Model model;
  std::vector<Unmonitored> unmonitored;
  std::vector<std::string> allowed_actions;
  uint32_t sample_every_steps = 0;
  std::map<std::string, std::string> labels;
  uint32_t local_world_size = 0;
  uint32_t action_protocol = 0;
  bool operator==(const Hello&) const = default;
};

// Series.flags
inline constexpr uint32_t kLowResolution = 1;
inline constexpr uint32_t kNotCausal = 2;
inline constexpr uint32_t kPartial = 4;

// Series.moments: rows, sum num^2, sum num*den, sum den^2. The standard error of the ratio R = sum num / sum
// den over m rows is sqrt(m/(m-1) * sum (num - R den)^2) / sum den.
inline constexpr size_t kMomentsPerHead = 4;

// One signal of one layer (or one scalar). Arrays run along `heads`, missing heads included.
struct Series {
  uint16_t signal = 0;
  std::optional<uint32_t> layer;  // absent for scalars
  std::vector<uint32_t> heads;    // global indices; empty for scalars, which have one value
  std::vector<uint8_t> present;   // 0 or 1 per head; empty: all present
  std::vector<float> values;      // heads.size() * values_per_head
  std::vector<float> weights;     // empty, 1 (for all) or one per head
  std::vector<float> moments;     // empty, or kMomentsPerHead per head
  uint32_t values_per_head = 1;
  std::vector<uint64_t> direction_hash;  // empty, or one per head
  uint32_t flags = 0;
  std::vector<uint32_t> step_offsets;
  std::vector<uint8_t> rotated;  // empty, or 0/1 per head
  uint32_t shard = 0;            // of partial values: which part of the parameter, 0-based
  uint32_t shards = 0;           // of how many parts that add up to the whole; 0: not told

  size_t count() const { return heads.empty() ? 1 : heads.size(); }
  bool has(size_t i) const { return present.empty() || present[i] != 0; }
  // The weight of entry i; nullopt when none travels.
  std::optional<float> weight(size_t i) const {
    if (weights.empty()) return std::nullopt;
    return weights.size() == 1 ? weights[0] : weights[i];
  }
};

struct Frame {
  uint64_t seq = 0;
  int64_t step = 0;
  uint64_t time_unix_ns = 0;
  uint64_t dropped_before = 0;
  bool skipped = false;
  uint32_t part = 0;
  uint32_t parts = 1;
  int64_t window_from = 0;
  std::vector<Series> series;

  // The series of a signal (and layer); nullptr when the frame has none.
  const Series* Find(uint16_t signal, std::optional<uint32_t> layer = std::nullopt) const;
};

struct Event {
  uint64_t seq = 0;
  int64_t step = 0;
  uint64_t time_unix_ns = 0;
  uint64_t dropped_before = 0;
  EventKind kind = EventKind::kUnspecified;
  std::string detail;
  std::vector<uint32_t> layers;
  std::string action_id;
  std::string action;
  ActionState action_state = ActionState::kUnspecified;
  std::optional<float> logit_before;
  std::optional<float> logit_after;
  bool operator==(const Event&) const = default;
};

struct Goodbye {
  uint64_t seq = 0;
  int64_t step = 0;
  uint64_t time_unix_ns = 0;
  uint64_t dropped_before = 0;
  GoodbyeStatus status = GoodbyeStatus::kUnspecified;
  std::string detail;
  bool operator==(const Goodbye&) const = default;
};

struct HelloAck {
  std::string attempt;
  AttemptSource attempt_source = AttemptSource::kUnspecified;
  uint64_t durable_seq = 0;
  uint64_t max_message_bytes = 0;
  bool operator==(const HelloAck&) const = default;
};

struct Action {
  std::string id;
  std::string kind;
  std::string attempt;
  std::string issuer;
  int64_t effective_step = 0;
  int64_t expiry_step = 0;
  std::vector<uint32_t> layers;
  double value = 0;
  std::string reason;
  bool committed = false;
  bool operator==(const Action&) const = default;
};

struct Sampling {
  uint32_t attention_every_steps = 0;
  uint32_t spectra_every_steps = 0;
  uint32_t projections_every_steps = 0;
  uint32_t row_stride = 0;
  bool operator==(const Sampling&) const = default;
};

struct IngestError {
  uint32_t code = 0;
  std::string field;
  std::string value;
  std::string limit;
  std::string message;
  uint64_t seq = 0;
  bool final = false;
  bool operator==(const IngestError&) const = default;
};

struct Reply {
  uint64_t durable_seq = 0;
  std::optional<HelloAck> hello;
  std::vector<Action> actions;
  std::optional<Sampling> sampling;
  std::optional<IngestError> error;
  uint64_t time_unix_ns = 0;
  std::vector<Action> proposals;
  bool operator==(const Reply&) const = default;
};

}  // namespace foreshock::wire
