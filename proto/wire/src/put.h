// proto3 writes no field that holds its default: these do the same, so that bytes agree with the generated
// code. W: a protozero writer or a Matcher.
#pragma once

#include <bit>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <vector>

namespace foreshock::wire {

using Writer = protozero::pbf_writer;

template <typename W>
void PutUint(W& w, protozero::pbf_tag_type tag, uint64_t value) {
  if (value != 0) w.add_uint64(tag, value);
}
template <typename W>
void PutInt(W& w, protozero::pbf_tag_type tag, int64_t value) {
  if (value != 0) w.add_int64(tag, value);
}
template <typename W>
void PutFixed(W& w, protozero::pbf_tag_type tag, uint64_t value) {
  if (value != 0) w.add_fixed64(tag, value);
}
template <typename W>
void PutFloat(W& w, protozero::pbf_tag_type tag, float value) {
  if (std::bit_cast<uint32_t>(value) != 0) w.add_float(tag, value);
}
template <typename W>
void PutDouble(W& w, protozero::pbf_tag_type tag, double value) {
  if (std::bit_cast<uint64_t>(value) != 0) w.add_double(tag, value);
}
template <typename W>
void PutText(W& w, protozero::pbf_tag_type tag, std::string_view value) {
  if (!value.empty()) w.add_bytes(tag, value.data(), value.size());
}
template <typename W>
void PutUints(W& w, protozero::pbf_tag_type tag, const std::vector<uint32_t>& values) {
  if (!values.empty()) w.add_packed_uint32(tag, values.begin(), values.end());
}

}  // namespace foreshock::wire
