// JSON of alerts and of an engine's state. nlohmann stays behind alert_json.cc.
#pragma once

#include <string>
#include <string_view>

#include "alert_book.h"
#include "foreshock/base/result.h"

namespace foreshock::alert {

struct SavedState {
  std::string run, attempt;
  BookState book;
};

std::string StateToJson(const AlertBook& book);
Result<SavedState> StateFromJson(std::string_view json);

}  // namespace foreshock::alert
