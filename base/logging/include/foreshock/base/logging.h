// Logging for server, agent and command line; not for the SDK, which logs through a callback.
//
// One line an event on stderr: time (UTC), level, component, message, then key=value pairs (logfmt):
//   2026-11-29T14:00:00.123Z warning agent/forward: server away, keeping frames in the spool
//   address=10.0.0.1:7700
// Thread-safe. The message is constant text; what varies goes into the pairs, so that lines can be searched
// and counted. Nothing secret goes in.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// One key=value pair.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  LogField(std::string_view k, const Status& v) : key(k), value(v.ToString()) {}
  template <std::integral T>
  LogField(std::string_view k, T v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, double v);

  std::string_view key;
  std::string value;
};
using LogFields = std::initializer_list<LogField>;

void LogDebug(std::string_view component, std::string_view message, LogFields fields = {});
void LogInfo(std::string_view component, std::string_view message, LogFields fields = {});
void LogWarning(std::string_view component, std::string_view message, LogFields fields = {});
void LogError(std::string_view component, std::string_view message, LogFields fields = {});

// What is logged: this level and above. kInfo at the start.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();
// "debug", "info", "warning", "error", "off".
Result<LogLevel> ParseLogLevel(std::string_view text);

// Sends lines (without time, level and newline) here instead of to stderr; an empty function goes back to
// stderr. Called under a lock: it must not log.
using LogSink = std::function<void(LogLevel, std::string_view line)>;
void SetLogSink(LogSink sink);

}  // namespace foreshock
