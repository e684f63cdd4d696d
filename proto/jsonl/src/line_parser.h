// One line of a text recording as a wire message.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/wire/recording.h"

namespace foreshock::jsonl {

// What the lines after a header need to know of it.
struct Shape {
  wire::Hello hello;
  bool null_is_nan = false;  // the older format
};

bool IsHeader(const nlohmann::json& line);
Result<Shape> ParseHeader(const nlohmann::json& line);
Result<wire::Frame> ParseFrame(const nlohmann::json& line, const Shape& shape);
// An Event or a Goodbye.
Result<wire::RecordingItem> ParseEvent(const nlohmann::json& line);

}  // namespace foreshock::jsonl
