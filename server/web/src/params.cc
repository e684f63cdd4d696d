#include "params.h"

#include <charconv>
#include <limits>

namespace foreshock::web {

std::string Params::Text(const std::string& name) {
  known_.insert(name);
  return request_.Query(name).value_or("");
}

std::vector<std::string> Params::List(const std::string& name) {
  known_.insert(name);
  std::vector<std::string> list;
  const auto [begin, end] = request_.query.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    std::string_view rest = it->second;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      if (!item.empty()) list.emplace_back(item);
    }
  }
  return list;
}

std::optional<int64_t> Params::Parse(const std::string& name, const std::string& text, int64_t least,
                                     int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  if (status_.ok()) {
    status_ = Status(Code::kInvalidArgument, name + ": \"" + text + "\", expected a whole number from " +
                                                 std::to_string(least) + " to " + std::to_string(most));
  }
  return std::nullopt;
}

std::optional<int64_t> Params::Int(const std::string& name, int64_t least, int64_t most) {
  known_.insert(name);
  const auto text = request_.Query(name);
  if (!text) return std::nullopt;
  return Parse(name, *text, least, most);
}

std::vector<uint32_t> Params::Uints(const std::string& name) {
  std::vector<uint32_t> values;
  for (const std::string& text : List(name)) {
    if (const auto value = Parse(name, text, 0, std::numeric_limits<uint32_t>::max())) {
      values.push_back(static_cast<uint32_t>(*value));
    }
  }
  return values;
}

bool Params::Flag(const std::string& name) {
  known_.insert(name);
  const auto text = request_.Query(name);
  if (!text || *text == "false" || *text == "0") return false;
  if (*text != "true" && *text != "1" && !text->empty() && status_.ok()) {
    status_ = Status(Code::kInvalidArgument, name + ": \"" + *text + "\", expected true or false");
  }
  return true;
}

Status Params::status() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : request_.query) {
    if (known_.contains(name)) continue;
    std::string list;
    for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
    return Status(Code::kInvalidArgument,
                  name + ": no such parameter here" + (list.empty() ? "" : ", known are " + list));
  }
  return OkStatus();
}

}  // namespace foreshock::web
