#include "foreshock/cli/import.h"

#include <filesystem>
#include <ostream>

#include "foreshock/base/file.h"
#include "foreshock/json/writer.h"
#include "foreshock/wire/record.h"
#include "recording_builder.h"

namespace foreshock::cli {
namespace {

constexpr int kOk = 0, kRefused = 1, kBadInput = 2, kUnreachable = 3;

constexpr std::pair<std::string_view, LogFormat> kFormats[] = {{"auto", LogFormat::kAuto},
                                                               {"csv", LogFormat::kCsv},
                                                               {"jsonl", LogFormat::kJsonl},
                                                               {"trainer_state", LogFormat::kTrainerState},
                                                               {"tfevents", LogFormat::kTfevents}};

// By the first bytes: an event file has checksums, JSON begins with '{', all else is a table.
LogFormat Guess(std::string_view bytes) {
  if (LooksLikeTfevents(bytes)) return LogFormat::kTfevents;
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{') return LogFormat::kCsv;
  const std::string_view line = bytes.substr(first, bytes.find('\n', first) - first);
  const bool many_lines = line.find('}') != std::string_view::npos && !line.starts_with("{\"log_history\"");
  if (!many_lines && bytes.find("\"log_history\"") != std::string_view::npos) return LogFormat::kTrainerState;
  return LogFormat::kJsonl;
}

Status Read(LogFormat format, std::string_view bytes, RecordingBuilder* builder,
            std::vector<std::string>* warnings) {
  const OnRow each = [builder](Row row) { return builder->Take(std::move(row)); };
  switch (format) {
    case LogFormat::kTfevents:
      return ReadTfevents(bytes, each, warnings);
    case LogFormat::kTrainerState:
      return ReadTrainerState(bytes, each, warnings);
    case LogFormat::kJsonl:
      return ReadJsonRows(bytes, each, warnings);
    default:
      return ReadCsv(bytes, each, warnings);
  }
}

std::string Joined(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

}  // namespace

Result<LogFormat> ParseLogFormat(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (known == name) return format;
  }
  return Status(Code::kInvalidArgument,
                "format: '" + std::string(name) + "': expected auto, csv, jsonl, trainer_state or tfevents");
}

Result<Imported> ReadLog(std::string_view bytes, const std::string& file_name, const ImportOptions& options) {
  FS_ASSIGN_OR_RETURN(SignalNames names, SignalNames::Create(options.map));
  std::string run = options.run;
  if (run.empty()) run = std::filesystem::path(file_name).stem().string();
  if (run.empty() || run.size() > 200) {
    return Status(Code::kInvalidArgument, "run: " + std::to_string(run.size()) + " bytes, expected 1 to 200");
  }
  RecordingBuilder builder(run, options, std::move(names));
  const LogFormat format = options.format == LogFormat::kAuto ? Guess(bytes) : options.format;
  std::vector<std::string> warnings;
  FS_RETURN_IF_ERROR(Read(format, bytes, &builder, &warnings));
  FS_ASSIGN_OR_RETURN(Imported imported, builder.Finish());
  imported.warnings.insert(imported.warnings.end(), warnings.begin(), warnings.end());
  return imported;
}

std::string ToRecording(const Imported& imported, std::string_view path) {
  const bool text = path.ends_with(".jsonl");
  std::string out;
  wire::Hello hello;
  for (const wire::RecordingItem& item : imported.items) {
    if (const auto* next = std::get_if<wire::Hello>(&item)) {
      hello = *next;
      if (text) {
        out += wire::JsonlHeader(hello);
      } else {
        wire::AppendRecord(wire::RecordType::kHello, wire::Encode(hello), &out);
      }
    } else if (const auto* frame = std::get_if<wire::Frame>(&item)) {
      if (text) {
        out += wire::JsonlLine(hello, *frame);
      } else {
        wire::AppendRecord(wire::RecordType::kFrame, wire::Encode(*frame), &out);
      }
    }
  }
  return out;
}

namespace {

std::string RunOf(const Imported& imported) { return std::get<wire::Hello>(imported.items.front()).run; }

void PrintTaken(const std::string& to, const Imported& imported, std::ostream& out) {
  out << (to.empty() ? "run " + RunOf(imported) : to) << ": " << imported.frames
      << " frames\n  taken: " << Joined(imported.columns_used) << '\n';
  if (!imported.columns_left_out.empty()) out << "  left out: " << Joined(imported.columns_left_out) << '\n';
}

void PrintTakenAsJson(const std::string& to, const Imported& imported, std::ostream& out) {
  json::Writer writer;
  const auto texts = [&](std::string_view key, const std::vector<std::string>& list) {
    writer.Key(key).BeginArray();
    for (const std::string& text : list) writer.String(text);
    writer.EndArray();
  };
  writer.BeginObject().Key("run").String(RunOf(imported)).Key("recording");
  if (to.empty()) {
    writer.Null();
  } else {
    writer.String(to);
  }
  writer.Key("frames").Int(imported.frames);
  texts("taken", imported.columns_used);
  texts("left_out", imported.columns_left_out);
  texts("warnings", imported.warnings);
  writer.EndObject();
  out << writer.Take() << '\n';
}

}  // namespace

int RunImport(const std::string& from, const std::string& to, const ImportOptions& options,
              const SendImported& send, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const std::string& file, const Status& status) {
    err << "foreshock import: " << file << ": " << status.message() << '\n';
    return kBadInput;
  };
  const auto bytes = ReadWholeFile(PosixFileSystem(), from);
  if (!bytes.ok()) return fail(from, bytes.status());
  const auto imported = ReadLog(*bytes, from, options);
  if (!imported.ok()) return fail(from, imported.status());
  if (!to.empty()) {
    const Status written = WriteFileAtomically(PosixFileSystem(), to, ToRecording(*imported, to));
    if (!written.ok()) return fail(to, written);
  }
  if (send) {
    const Status sent = send(*imported);
    if (!sent.ok()) {
      (void)fail(from, sent);
      return sent.code() == Code::kUnavailable ? kUnreachable : kRefused;
    }
  }
  if (options.json) {
    PrintTakenAsJson(to, *imported, out);
    return kOk;
  }
  for (const std::string& warning : imported->warnings) err << from << ": " << warning << '\n';
  PrintTaken(to, *imported, out);
  return kOk;
}

}  // namespace foreshock::cli
