#include "foreshock/wire/check.h"

#include <cmath>
#include <set>

#include "foreshock/wire/codec.h"
#include "utf8.h"

namespace foreshock::wire {
namespace {

Status Invalid(const std::string& message) { return Status(Code::kInvalidArgument, message); }

Status CheckBytes(const std::string& field, const std::string& value, size_t limit) {
  if (value.size() <= limit) return OkStatus();
  return Invalid(field + ": " + std::to_string(value.size()) + " bytes, at most " + std::to_string(limit));
}

Status CheckCount(const char* field, size_t count, size_t limit) {
  if (count <= limit) return OkStatus();
  return Invalid(std::string(field) + ": " + std::to_string(count) + ", at most " + std::to_string(limit));
}

Status CheckPrintable(const std::string& field, const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(std::string_view(text).substr(i));
    const auto byte = static_cast<uint8_t>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      return Invalid(field + ": byte " + std::to_string(byte) + " at position " + std::to_string(i) +
                     ", must be printable UTF-8");
    }
    i += length;
  }
  return OkStatus();
}

// Lists and texts that the server keeps for every process.
Status CheckDescription(const Hello& hello) {
  FS_RETURN_IF_ERROR(CheckCount("labels", hello.labels.size(), kMaxLabels));
  for (const auto& [key, value] : hello.labels) FS_RETURN_IF_ERROR(CheckLabel(key, value));
  FS_RETURN_IF_ERROR(CheckCount("allowed_actions", hello.allowed_actions.size(), kMaxAllowedActions));
  for (const std::string& action : hello.allowed_actions) {
    FS_RETURN_IF_ERROR(CheckBytes("allowed_actions", action, kMaxNameBytes));
  }
  FS_RETURN_IF_ERROR(CheckCount("unmonitored", hello.unmonitored.size(), kMaxUnmonitored));
  for (const Unmonitored& item : hello.unmonitored) {
    FS_RETURN_IF_ERROR(CheckBytes("unmonitored", item.name, kMaxTextBytes));
    FS_RETURN_IF_ERROR(CheckBytes("unmonitored", item.reason, kMaxTextBytes));
  }
  FS_RETURN_IF_ERROR(CheckBytes("host", hello.host, kMaxTextBytes));
  FS_RETURN_IF_ERROR(CheckBytes("sdk_version", hello.sdk_version, kMaxTextBytes));
  FS_RETURN_IF_ERROR(CheckBytes("framework", hello.framework, kMaxTextBytes));
  return CheckBytes("model.name", hello.model.name, kMaxTextBytes);
}

Status CheckLayer(const Layer& layer) {
  const std::string where = "model.layers[" + std::to_string(layer.layer) + "]";
  if (layer.query_heads > kMaxHeads) {
    return Invalid(where + ".query_heads: " + std::to_string(layer.query_heads) + ", at most " +
                   std::to_string(kMaxHeads));
  }
  FS_RETURN_IF_ERROR(CheckBytes(where + ".name", layer.name, kMaxTextBytes));
  if (!std::isfinite(layer.scale)) {
    return Invalid(where + ".scale: " + std::to_string(layer.scale) + ", must be finite");
  }
  if (!(layer.softcap >= 0) || std::isinf(layer.softcap)) {
    return Invalid(where + ".softcap: " + std::to_string(layer.softcap) + ", must be finite and at least 0");
  }
  if (layer.kv_heads > layer.query_heads) {
    return Invalid(where + ".kv_heads: " + std::to_string(layer.kv_heads) + ", at most query_heads, " +
                   std::to_string(layer.query_heads));
  }
  if (layer.kv_heads != 0 && layer.query_heads % layer.kv_heads != 0) {
    return Invalid(where + ".kv_heads: " + std::to_string(layer.kv_heads) + ", must divide query_heads, " +
                   std::to_string(layer.query_heads));
  }
  return OkStatus();
}

}  // namespace

Status CheckName(const char* field, const std::string& name) {
  if (name.empty()) return Invalid(std::string(field) + ": empty");
  if (name.size() > kMaxNameBytes) {
    return Invalid(std::string(field) + ": " + std::to_string(name.size()) + " bytes, at most " +
                   std::to_string(kMaxNameBytes));
  }
  if (name.front() == '/') return Invalid(std::string(field) + ": '" + name + "' begins with '/'");
  return CheckPrintable(field, name);
}

Status CheckLabel(const std::string& key, const std::string& value) {
  if (key.empty()) return Invalid("labels: empty");
  FS_RETURN_IF_ERROR(CheckBytes("labels", key, kMaxLabelBytes));
  FS_RETURN_IF_ERROR(CheckPrintable("labels", key));
  return CheckBytes("labels[" + key + "]", value, kMaxLabelValueBytes);
}

Status CheckSeq(uint64_t seq) {
  if (seq == 0) return Invalid("seq: 0, counts from 1");
  if (seq <= kMaxSeq) return OkStatus();
  return Invalid("seq: " + std::to_string(seq) + ", at most " + std::to_string(kMaxSeq));
}

Status CheckHello(const Hello& hello) {
  if (hello.wire_version != 1) {
    return Invalid("wire_version: " + std::to_string(hello.wire_version) + ", this receiver speaks 1");
  }
  FS_RETURN_IF_ERROR(CheckName("run", hello.run));
  if (!hello.attempt.empty()) FS_RETURN_IF_ERROR(CheckName("attempt", hello.attempt));
  if (hello.incarnation == 0) return Invalid("incarnation: 0, must be a random number other than 0");
  if (hello.world_size == 0 || hello.world_size > kMaxWorldSize) {
    return Invalid("world_size: " + std::to_string(hello.world_size) + ", must be 1 to " +
                   std::to_string(kMaxWorldSize));
  }
  if (hello.rank >= hello.world_size) {
    return Invalid("rank: " + std::to_string(hello.rank) + ", must be less than world_size, " +
                   std::to_string(hello.world_size));
  }
  FS_RETURN_IF_ERROR(CheckDescription(hello));
  std::set<uint32_t> layers;
  for (const Layer& layer : hello.model.layers) {
    if (!layers.insert(layer.layer).second) {
      return Invalid("model.layers: layer " + std::to_string(layer.layer) + " is there twice");
    }
    FS_RETURN_IF_ERROR(CheckLayer(layer));
  }
  return OkStatus();
}

}  // namespace foreshock::wire
