// The names that a template may use.
#pragma once

#include <string>
#include <string_view>

#include "template.h"

namespace foreshock::notify {

enum class FieldScope : uint8_t { kUnknown, kGroup, kAlert, kList };
// "label.NAME" and "annotation.NAME" are of an alert.
FieldScope FindField(std::string_view name);
// All of them, for messages: "run, status, ...".
std::string KnownFields();

std::string GroupField(std::string_view name, const MessageGroup& group);
std::string AlertField(std::string_view name, const alert::AlertRecord& record);
// The records of a list.
std::vector<const alert::AlertRecord*> ListField(std::string_view name, const MessageGroup& group);

}  // namespace foreshock::notify
