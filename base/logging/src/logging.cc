#include "foreshock/base/logging.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

namespace foreshock {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

struct SinkSlot {
  std::mutex mutex;  // guards sink
  LogSink sink;
};

// Neither is destroyed: threads may still log while the process ends.
SinkSlot& Slot() {
  static auto* slot = new SinkSlot;
  return *slot;
}

spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("foreshock", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v",
                                                                    spdlog::pattern_time_type::utc));
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

bool NeedsQuotes(std::string_view value) {
  if (value.empty()) return true;
  for (unsigned char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7F) return true;
  }
  return false;
}

// Control characters are escaped: a value cannot forge a line.
void AppendEscaped(std::string_view value, std::string* line) {
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      *line += "\\n";
    } else if (byte < ' ' || byte == 0x7F) {
      char text[5];
      std::snprintf(text, sizeof text, "\\x%02x", byte);
      *line += text;
    } else {
      if (c == '"' || c == '\\') *line += '\\';
      *line += c;
    }
  }
}

void AppendValue(std::string_view value, std::string* line) {
  if (!NeedsQuotes(value)) {
    line->append(value);
    return;
  }
  *line += '"';
  AppendEscaped(value, line);
  *line += '"';
}

void Log(LogLevel level, std::string_view component, std::string_view message, LogFields fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  std::string line(component);
  line += ": ";
  line += message;
  for (const LogField& field : fields) {
    line += ' ';
    line.append(field.key);
    line += '=';
    AppendValue(field.value, &line);
  }
  {
    SinkSlot& slot = Slot();
    std::lock_guard lock(slot.mutex);
    if (slot.sink) {
      slot.sink(level, line);
      return;
    }
  }
  Logger().log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

LogField::LogField(std::string_view k, double v) : key(k) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  value = text;
}

void LogDebug(std::string_view component, std::string_view message, LogFields fields) {
  Log(LogLevel::kDebug, component, message, fields);
}
void LogInfo(std::string_view component, std::string_view message, LogFields fields) {
  Log(LogLevel::kInfo, component, message, fields);
}
void LogWarning(std::string_view component, std::string_view message, LogFields fields) {
  Log(LogLevel::kWarning, component, message, fields);
}
void LogError(std::string_view component, std::string_view message, LogFields fields) {
  Log(LogLevel::kError, component, message, fields);
}

void SetLogLevel(LogLevel level) { g_level.store(level); }
LogLevel GetLogLevel() { return g_level.load(); }

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return Status(Code::kInvalidArgument,
                "log level: \"" + std::string(text) + "\", must be debug, info, warning, error or off");
}

void SetLogSink(LogSink sink) {
  SinkSlot& slot = Slot();
  std::lock_guard lock(slot.mutex);
  slot.sink = std::move(sink);
}

}  // namespace foreshock
