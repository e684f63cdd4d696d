#include "foreshock/server/remote_write/encode.h"

#include <snappy.h>

#include <protozero/pbf_writer.hpp>

namespace foreshock::remote_write {
namespace {

// Field numbers of prometheus/prompb remote.proto and types.proto.
constexpr protozero::pbf_tag_type kTimeSeries = 1, kLabels = 1, kSamples = 2, kName = 1, kText = 2,
                                  kNumber = 1, kTime = 2;

}  // namespace

std::string EncodeLabels(const Labels& labels) {
  std::string out;
  protozero::pbf_writer series{out};
  for (const auto& [name, value] : labels) {
    protozero::pbf_writer label{series, kLabels};
    label.add_string(kName, name);
    label.add_string(kText, value);
  }
  return out;
}

void AppendSample(std::string_view encoded_labels, double value, int64_t unix_ms, std::string* request) {
  std::string sample;
  protozero::pbf_writer fields{sample};
  fields.add_double(kNumber, value);
  fields.add_int64(kTime, unix_ms);
  std::string series(encoded_labels);
  protozero::pbf_writer{series}.add_message(kSamples, sample);
  protozero::pbf_writer{*request}.add_message(kTimeSeries, series);
}

std::string Compressed(const std::string& request) {
  std::string out;
  snappy::Compress(request.data(), request.size(), &out);
  return out;
}

}  // namespace foreshock::remote_write
