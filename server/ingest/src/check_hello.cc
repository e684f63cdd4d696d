#include "check_hello.h"

#include <set>

#include "foreshock/wire/codec.h"

namespace foreshock::ingest {
namespace {

Status Invalid(const std::string& message) { return Status(Code::kInvalidArgument, message); }

// Length of the UTF-8 character at the front of `text`; 0: none, or one that is not well-formed.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

Status CheckLayer(const wire::Layer& layer) {
  const std::string where = "model.layers[" + std::to_string(layer.layer) + "]";
  if (layer.query_heads > wire::kMaxHeads) {
    return Invalid(where + ".query_heads: " + std::to_string(layer.query_heads) + ", at most " +
                   std::to_string(wire::kMaxHeads));
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
  if (name.size() > wire::kMaxNameBytes) {
    return Invalid(std::string(field) + ": " + std::to_string(name.size()) + " bytes, at most " +
                   std::to_string(wire::kMaxNameBytes));
  }
  if (name.front() == '/') return Invalid(std::string(field) + ": '" + name + "' begins with '/'");
  for (size_t i = 0; i < name.size();) {
    const size_t length = CharacterBytes(std::string_view(name).substr(i));
    const bool control = static_cast<uint8_t>(name[i]) < 0x20 || name[i] == 0x7F;
    if (length == 0 || control) {
      return Invalid(std::string(field) + ": byte " + std::to_string(static_cast<uint8_t>(name[i])) +
                     " at position " + std::to_string(i) + ", must be printable UTF-8");
    }
    i += length;
  }
  return OkStatus();
}

Status CheckHello(const wire::Hello& hello) {
  if (hello.wire_version != 1) {
    return Invalid("wire_version: " + std::to_string(hello.wire_version) + ", this server speaks 1");
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
  for (const wire::Layer& layer : hello.model.layers) {
    if (!layers.insert(layer.layer).second) {
      return Invalid("model.layers: layer " + std::to_string(layer.layer) + " is there twice");
    }
    FS_RETURN_IF_ERROR(CheckLayer(layer));
  }
  return OkStatus();
}

}  // namespace foreshock::ingest
