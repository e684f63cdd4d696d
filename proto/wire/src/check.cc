#include "foreshock/wire/check.h"

#include <set>

#include "foreshock/wire/codec.h"
#include "utf8.h"

namespace foreshock::wire {
namespace {

Status Invalid(const std::string& message) { return Status(Code::kInvalidArgument, message); }

Status CheckLayer(const Layer& layer) {
  const std::string where = "model.layers[" + std::to_string(layer.layer) + "]";
  if (layer.query_heads > kMaxHeads) {
    return Invalid(where + ".query_heads: " + std::to_string(layer.query_heads) + ", at most " +
                   std::to_string(kMaxHeads));
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
  for (size_t i = 0; i < name.size();) {
    const size_t length = Utf8Length(std::string_view(name).substr(i));
    const auto byte = static_cast<uint8_t>(name[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      return Invalid(std::string(field) + ": byte " + std::to_string(byte) + " at position " +
                     std::to_string(i) + ", must be printable UTF-8");
    }
    i += length;
  }
  return OkStatus();
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
