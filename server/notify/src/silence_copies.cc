#include "silence_copies.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "foreshock/base/logging.h"
#include "foreshock/base/percent.h"
#include "foreshock/json/writer.h"
#include "foreshock/server/http/client.h"

namespace foreshock::notify {
namespace {

using alert::Silence;
using alert::SilenceState;
using json::Writer;

constexpr char kCopyActive[] = "active ", kCopyWaiting[] = "waiting", kCopyEnded[] = "ended";

http::ClientOptions HttpOptions(const Target& target) {
  http::ClientOptions options;
  if (!target.token.empty()) options.headers["Authorization"] = "Bearer " + target.token;
  return options;
}

bool Good(const http::ClientResponse& answer) { return answer.code >= 200 && answer.code < 300; }

bool Final(const http::ClientResponse& answer) {
  return answer.code >= 300 && answer.code < 500 && answer.code != 408 && answer.code != 429;
}

// Stands in the comment there, so that a copy is found again.
std::string Mark(const std::string& id) { return "[foreshock " + id + "]"; }

void PutMatcher(const std::string& name, const std::string& value, bool regex, Writer* out) {
  out->BeginObject().Key("name").String(name).Key("value").String(value);
  out->Key("isRegex").Bool(regex).Key("isEqual").Bool(true).EndObject();
}

void PutPattern(const std::string& name, const std::string& pattern, bool exact, Writer* out) {
  if (pattern.empty() || pattern == "*") return;
  const bool regex = !exact && pattern.find_first_of("*?") != std::string::npos;
  PutMatcher(name, regex ? PatternToRegex(pattern) : pattern, regex, out);
}

// Empty where there is no such text: what comes from outside may be anything.
std::string TextOf(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

// Name, value, regex, equal.
using Matchers = std::set<std::tuple<std::string, std::string, bool, bool>>;

bool FlagOf(const nlohmann::json& object, const char* key, bool usual) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() ? it->get<bool>() : usual;
}

// What a silence covers there.
Matchers MatchersOf(const nlohmann::json& silence) {
  Matchers matchers;
  if (!silence.is_object() || !silence.contains("matchers") || !silence["matchers"].is_array())
    return matchers;
  for (const auto& one : silence["matchers"]) {
    if (!one.is_object()) continue;
    matchers.emplace(TextOf(one, "name"), TextOf(one, "value"), FlagOf(one, "isRegex", false),
                     FlagOf(one, "isEqual", true));
  }
  return matchers;
}

std::string IdThere(const Silence& silence, const std::string& target) {
  const auto it = silence.copies.find(target);
  const bool active = it != silence.copies.end() && it->second.starts_with(kCopyActive);
  return active ? it->second.substr(sizeof kCopyActive - 1) : "";
}

}  // namespace

std::string PatternToRegex(const std::string& pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '*') {
      out += ".*";
    } else if (c == '?') {
      out += '.';
    } else {
      if (std::string_view("\\.+^$()[]{}|").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string SilencePayload(const Silence& s) {
  Writer out;
  out.BeginObject().Key("matchers").BeginArray();
  PutMatcher("source", "foreshock", false, &out);
  PutPattern("run", s.run, s.acknowledgement, &out);
  PutPattern("alertname", s.rule, s.acknowledgement, &out);
  if (s.acknowledgement) PutMatcher("attempt", s.attempt, false, &out);
  if (s.severity) PutMatcher("severity", std::string(detect::SeverityName(*s.severity)), false, &out);
  if (s.layer) PutMatcher("layer", std::to_string(*s.layer), false, &out);
  if (s.head) PutMatcher("head", std::to_string(*s.head), false, &out);
  out.EndArray();
  out.Key("startsAt")
      .String(json::Rfc3339(s.starts_unix_ns))
      .Key("endsAt")
      .String(json::Rfc3339(s.ends_unix_ns));
  out.Key("createdBy").String(s.author);
  out.Key("comment").String((s.comment.empty() ? "" : s.comment + " ") + Mark(s.id)).EndObject();
  return out.Take();
}

SilenceCopies::SilenceCopies(const Target& target, alert::Silences* silences, const Clock* clock)
    : target_(target),
      silences_(silences),
      clock_(clock),
      root_(target.url + (target.url.ends_with('/') ? "" : "/") + "api/v2/") {}

bool SilenceCopies::Sync() {
  if (silences_ == nullptr) return true;
  const uint64_t version = silences_->version();
  if (synced_ && version == synced_version_) return true;
  bool all = true;
  for (const Silence& silence : silences_->List(true)) {
    const auto known = silence.copies.find(target_.name);
    const std::string there = IdThere(silence, target_.name);
    const bool over = alert::StateOf(silence, clock_->WallNanos()) == SilenceState::kExpired;
    if (!over && (known == silence.copies.end() || known->second == kCopyWaiting)) {
      all = Create(silence) && all;
    } else if (over && !there.empty()) {
      all = Delete(silence, there) && all;
    }
  }
  synced_ = all;
  synced_version_ = version;
  return all;
}

bool SilenceCopies::Create(const Silence& silence) {
  const auto found = FindCopy(silence);
  if (!found.ok()) {
    silences_->SetCopy(silence.id, target_.name, kCopyWaiting);
    return false;
  }
  if (!found->empty()) {
    silences_->SetCopy(silence.id, target_.name, kCopyActive + *found);
    return true;
  }
  const auto answer =
      http::Post(root_ + "silences", SilencePayload(silence), "application/json", HttpOptions(target_));
  if (!answer.ok() || (!Good(*answer) && !Final(*answer))) {
    silences_->SetCopy(silence.id, target_.name, kCopyWaiting);
    return false;
  }
  const std::string there = TextOf(nlohmann::json::parse(answer->body, nullptr, false), "silenceID");
  if (Good(*answer) && !there.empty()) {
    silences_->SetCopy(silence.id, target_.name, kCopyActive + there);
    return true;
  }
  LogWarning("server/notify", "a silence is not taken by an Alertmanager; it holds here alone",
             {{"target", target_.name}, {"silence", silence.id}, {"answer", answer->body.substr(0, 200)}});
  silences_->SetCopy(silence.id, target_.name, "refused: " + answer->body.substr(0, 200));
  return true;
}

bool SilenceCopies::Delete(const Silence& silence, const std::string& there) {
  // What ended by its time ended there, too.
  if (!silence.ended_by.empty()) {
    const auto answer = http::Delete(root_ + "silence/" + PercentEncode(there), HttpOptions(target_));
    // One that is gone there, or over, is as good.
    if (!answer.ok() || (!Good(*answer) && !Final(*answer) && answer->code != 500)) return false;
  }
  silences_->SetCopy(silence.id, target_.name, kCopyEnded);
  return true;
}

Result<std::string> SilenceCopies::FindCopy(const Silence& silence) const {
  const auto answer = http::Get(root_ + "silences", HttpOptions(target_));
  if (!answer.ok()) return answer.status();
  const auto list = nlohmann::json::parse(answer->body, nullptr, false);
  if (!Good(*answer) || !list.is_array()) return std::string();
  // The mark alone is not enough: an id that came in an archive may be another silence's.
  const Matchers matchers = MatchersOf(nlohmann::json::parse(SilencePayload(silence), nullptr, false));
  for (const auto& one : list) {
    const bool ours =
        TextOf(one, "comment").find(Mark(silence.id)) != std::string::npos && MatchersOf(one) == matchers;
    const bool over =
        one.is_object() && one.contains("status") && TextOf(one["status"], "state") == "expired";
    if (ours && !over) return TextOf(one, "id");
  }
  return std::string();
}

bool SilenceCopies::Withheld(const alert::Alert& alert) const {
  if (silences_ == nullptr) return false;
  const auto covering = silences_->Of(alert);
  if (covering.empty()) return false;
  for (const Silence& silence : covering) {
    if (!IdThere(silence, target_.name).empty()) return false;
  }
  return true;
}

}  // namespace foreshock::notify
