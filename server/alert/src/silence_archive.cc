#include "silence_archive.h"

#include <nlohmann/json.hpp>

namespace foreshock::alert {
namespace {

using nlohmann::json;

// Nanoseconds as text: readers that turn numbers into doubles would round them.
json Nanos(int64_t value) { return std::to_string(value); }
int64_t FromNanos(const json& value) { return std::stoll(value.get<std::string>()); }

std::optional<detect::Severity> SeverityFrom(const std::string& text) {
  for (const auto severity :
       {detect::Severity::kInfo, detect::Severity::kWarning, detect::Severity::kCritical}) {
    if (detect::SeverityName(severity) == text) return severity;
  }
  return std::nullopt;
}

}  // namespace

store::MetaEntry ToEntry(const Silence& s) {
  const json value = {{"acknowledgement", s.acknowledgement},
                      {"run", s.run},
                      {"rule", s.rule},
                      {"attempt", s.attempt},
                      {"severity", s.severity ? json(detect::SeverityName(*s.severity)) : json()},
                      {"layer", s.layer ? json(*s.layer) : json()},
                      {"head", s.head ? json(*s.head) : json()},
                      {"alert", s.alert},
                      {"author", s.author},
                      {"comment", s.comment},
                      {"created_unix_ns", Nanos(s.created_unix_ns)},
                      {"starts_unix_ns", Nanos(s.starts_unix_ns)},
                      {"ends_unix_ns", Nanos(s.ends_unix_ns)},
                      {"ended_by", s.ended_by},
                      {"copies", s.copies}};
  return {kSilenceKind, "", s.id, value.dump(-1, ' ', false, json::error_handler_t::replace)};
}

Result<Silence> SilenceFrom(const store::MetaEntry& entry) {
  try {
    const json in = json::parse(entry.value);
    Silence s;
    s.id = entry.key;
    s.acknowledgement = in.at("acknowledgement");
    s.run = in.at("run");
    s.rule = in.at("rule");
    s.attempt = in.at("attempt");
    if (!in.at("severity").is_null()) s.severity = SeverityFrom(in.at("severity"));
    if (!in.at("layer").is_null()) s.layer = in.at("layer").get<int32_t>();
    if (!in.at("head").is_null()) s.head = in.at("head").get<int32_t>();
    s.alert = in.at("alert");
    s.author = in.at("author");
    s.comment = in.at("comment");
    s.created_unix_ns = FromNanos(in.at("created_unix_ns"));
    s.starts_unix_ns = FromNanos(in.at("starts_unix_ns"));
    s.ends_unix_ns = FromNanos(in.at("ends_unix_ns"));
    s.ended_by = in.at("ended_by");
    s.copies = in.at("copies").get<std::map<std::string, std::string>>();
    return s;
  } catch (const std::exception& error) {
    return Status(Code::kDataLoss, "silence " + entry.key + ": " + error.what());
  }
}

std::string ScopeText(const Silence& s) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ", ") + std::string(name) + " " + value;
  };
  add("alert", s.alert);
  if (!s.alert.empty()) return text;
  add("run", s.run);
  add("rule", s.rule);
  if (s.severity) add("severity", std::string(detect::SeverityName(*s.severity)));
  if (s.layer) add("layer", std::to_string(*s.layer));
  if (s.head) add("head", std::to_string(*s.head));
  return text;
}

}  // namespace foreshock::alert
