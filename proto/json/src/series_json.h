// The JSON forms of Series and Frame.
#pragma once

#include "foreshock/json/writer.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::json {

void WriteSeries(const v1::Series& series, Writer* out);
void WriteFrame(const v1::Frame& frame, Writer* out);

}  // namespace foreshock::json
