// Prometheus remote_write 1.0: the body of a request. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "foreshock/server/remote_write/relabel.h"

namespace foreshock::remote_write {

// The label fields of a TimeSeries message; `labels` sorted by name. Made once a series.
std::string EncodeLabels(const Labels& labels);
// Appends a WriteRequest's time series with one sample. Milliseconds since the Unix epoch.
void AppendSample(std::string_view encoded_labels, double value, int64_t unix_ms, std::string* request);
// What is sent: the request in snappy's block format.
std::string Compressed(const std::string& request);

}  // namespace foreshock::remote_write
