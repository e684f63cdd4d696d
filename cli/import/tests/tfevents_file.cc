#include "tfevents_file.h"

#include <cstring>
#include <protozero/pbf_writer.hpp>

#include "foreshock/base/crc32c.h"

namespace foreshock::cli::test {
namespace {

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string MaskedChecksum(const std::string& bytes) {
  const uint32_t crc = Crc32c(bytes);
  return Bytes<uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

std::string Tensor(const Scalar& scalar) {
  std::string bytes;
  protozero::pbf_writer tensor(bytes);
  const bool is_float = scalar.form == Scalar::Form::kFloatVal || scalar.form == Scalar::Form::kFloatContent;
  tensor.add_enum(1, is_float ? 1 : 2);
  tensor.add_message(2, std::string());
  const float narrow = static_cast<float>(scalar.value);
  switch (scalar.form) {
    case Scalar::Form::kFloatVal:
      tensor.add_packed_float(5, &narrow, &narrow + 1);
      break;
    case Scalar::Form::kDoubleVal:
      tensor.add_double(6, scalar.value);
      break;
    case Scalar::Form::kFloatContent:
      tensor.add_bytes(4, Bytes(narrow));
      break;
    default:
      tensor.add_bytes(4, Bytes(scalar.value));
  }
  return bytes;
}

}  // namespace

std::string Record(const std::string& payload) {
  const std::string length = Bytes<uint64_t>(payload.size());
  return length + MaskedChecksum(length) + payload + MaskedChecksum(payload);
}

std::string VersionEvent() {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(1, 1.7e9);
  event.add_string(3, "brain.Event:2");
  return Record(bytes);
}

std::string ScalarEvent(int64_t step, double wall_time, const std::vector<Scalar>& scalars) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(1, wall_time);
  event.add_int64(2, step);
  protozero::pbf_writer summary(event, 5);
  for (const Scalar& scalar : scalars) {
    protozero::pbf_writer value(summary, 1);
    value.add_string(1, scalar.tag);
    if (scalar.form == Scalar::Form::kSimple) {
      value.add_float(2, static_cast<float>(scalar.value));
    } else {
      value.add_message(8, Tensor(scalar));
    }
    value.add_message(9, std::string());  // metadata, as current writers add
  }
  summary.commit();
  return Record(bytes);
}

}  // namespace foreshock::cli::test
