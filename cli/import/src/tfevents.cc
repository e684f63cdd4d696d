// TensorBoard's event files: records of {u64 length, masked CRC-32C of it, bytes, masked CRC-32C of them},
// all little endian, each an Event message. Read by field number, without TensorFlow's schema:
//
//   Event    1 wall_time (double)  2 step (int64)  5 summary (Summary)
//   Summary  1 value (repeated Value)
//   Value    1 tag  2 simple_value (float)  8 tensor (TensorProto)
//   TensorProto  1 dtype  4 tensor_content (bytes)  5 float_val  6 double_val
#include <cmath>
#include <cstring>
#include <optional>
#include <protozero/pbf_reader.hpp>

#include "foreshock/base/crc32c.h"
#include "rows.h"

namespace foreshock::cli {
namespace {

constexpr size_t kHeader = 12, kFooter = 4;
constexpr uint64_t kMostBytes = 1u << 30;
constexpr int kFloat = 1, kDouble = 2;  // TensorFlow's DataType

// Fields are told apart by number and wire type together: protozero takes a field of another type for a
// mistake of the program's, not of the file's.
constexpr uint32_t Field(uint32_t number, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr auto kFixed32 = protozero::pbf_wire_type::fixed32;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

bool ChecksumHolds(std::string_view bytes, std::string_view stored) {
  return Masked(Crc32c(bytes)) == LittleEndian(stored);
}

std::string Text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// A tensor of one number; nothing for others.
std::optional<double> Scalar(protozero::pbf_reader tensor) {
  int type = 0;
  std::string content;
  std::vector<double> values;
  while (tensor.next()) {
    switch (tensor.tag_and_type()) {
      case Field(1, kVarint):
        type = tensor.get_enum();
        break;
      case Field(4, kBytes):
        content = tensor.get_string();
        break;
      case Field(5, kBytes):
        for (const float value : tensor.get_packed_float()) values.push_back(value);
        break;
      case Field(5, kFixed32):
        values.push_back(tensor.get_float());
        break;
      case Field(6, kBytes):
        for (const double value : tensor.get_packed_double()) values.push_back(value);
        break;
      case Field(6, kFixed64):
        values.push_back(tensor.get_double());
        break;
      default:
        tensor.skip();
    }
  }
  if (values.size() == 1) return values[0];
  if (type == kFloat && content.size() == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, content.data(), sizeof value);
    return value;
  }
  if (type == kDouble && content.size() == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, content.data(), sizeof value);
    return value;
  }
  return std::nullopt;
}

void AddValue(protozero::pbf_reader value, Row* row) {
  std::string tag;
  std::optional<double> number;
  while (value.next()) {
    switch (value.tag_and_type()) {
      case Field(1, kBytes):
        tag = value.get_string();
        break;
      case Field(2, kFixed32):
        number = value.get_float();
        break;
      case Field(8, kBytes):
        number = Scalar(value.get_message());
        break;
      default:
        value.skip();
    }
  }
  if (number && !tag.empty()) row->cells.push_back({tag, Text(*number)});
}

Row ToRow(std::string_view payload) {
  Row row;
  int64_t step = 0;
  protozero::pbf_reader event(payload.data(), payload.size());
  while (event.next()) {
    switch (event.tag_and_type()) {
      case Field(1, kFixed64): {
        const double seconds = event.get_double();
        if (seconds > 0 && seconds < 1e10) row.time_unix_ns = static_cast<uint64_t>(seconds * 1e9);
        break;
      }
      case Field(2, kVarint):
        step = event.get_int64();
        break;
      case Field(5, kBytes): {
        protozero::pbf_reader summary = event.get_message();
        while (summary.next(1, kBytes)) AddValue(summary.get_message(), &row);
        break;
      }
      default:
        event.skip();
    }
  }
  if (!row.cells.empty()) row.cells.push_back({"step", std::to_string(step)});
  return row;
}

}  // namespace

bool LooksLikeTfevents(std::string_view bytes) {
  return bytes.size() >= kHeader && ChecksumHolds(bytes.substr(0, 8), bytes.substr(8, 4));
}

Status ReadTfevents(std::string_view bytes, const OnRow& each, std::vector<std::string>* warnings) {
  const size_t size = bytes.size();
  for (size_t record = 0; !bytes.empty(); ++record) {
    const std::string place =
        "record " + std::to_string(record) + " at byte " + std::to_string(size - bytes.size());
    const auto bad = [&](const std::string& what) {
      return Status(Code::kInvalidArgument, place + ": " + what);
    };
    if (bytes.size() >= kHeader && !ChecksumHolds(bytes.substr(0, 8), bytes.substr(8, 4))) {
      return bad("the checksum of its length does not hold: not an event file, or damaged");
    }
    const uint64_t length = bytes.size() >= kHeader ? LittleEndian(bytes.substr(0, 8)) : 0;
    if (length > kMostBytes)
      return bad(std::to_string(length) + " bytes, at most " + std::to_string(kMostBytes));
    if (bytes.size() < kHeader || bytes.size() - kHeader - kFooter < length ||
        bytes.size() < kHeader + kFooter) {
      warnings->push_back(place + ": torn, left out");
      return OkStatus();
    }
    const std::string_view payload = bytes.substr(kHeader, length);
    if (!ChecksumHolds(payload, bytes.substr(kHeader + length, kFooter)))
      return bad("its checksum does not hold");
    Row row;
    try {
      row = ToRow(payload);
    } catch (const protozero::exception& error) {
      return bad(std::string("not an Event message: ") + error.what());
    }
    row.place = place;
    if (!row.cells.empty()) FS_RETURN_IF_ERROR(each(std::move(row)));
    bytes.remove_prefix(kHeader + length + kFooter);
  }
  return OkStatus();
}

}  // namespace foreshock::cli
