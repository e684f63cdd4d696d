// Archives of runs as files, for export, import and move. Private.
#pragma once

#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include "common.h"
#include "foreshock/archive/entry.h"
#include "foreshock/archive/reader.h"
#include "foreshock/base/file.h"

namespace foreshock::cli {

// A line on a terminal about long work, rewritten twice a second; nothing elsewhere.
class Progress {
 public:
  Progress(std::ostream& err, std::string what);
  ~Progress() { End(); }
  void Add(uint64_t bytes);
  // Clears the line. Say what came of it afterwards.
  void End();

 private:
  std::ostream& err_;
  const std::string what_;
  const bool terminal_;
  bool shown_ = false;
  uint64_t bytes_ = 0;
  std::chrono::steady_clock::time_point next_;
};

// False also when it cannot be read: whoever reads it says why.
bool IsArchive(const std::string& path);

// An archive being written beside its name, looked through as it comes.
class ArchiveFile {
 public:
  // kAlreadyExists when there is such a file.
  static Result<std::unique_ptr<ArchiveFile>> Create(const std::string& path);
  ~ArchiveFile();  // without Finish: nothing is left
  Status Write(std::string_view bytes);
  // Whole and durable under its name.
  Status Finish();
  const archive::Counts& counts() const { return reader_.counts(); }
  uint64_t bytes() const { return reader_.bytes(); }

 private:
  explicit ArchiveFile(std::string path);
  const std::string path_, part_;
  std::unique_ptr<AppendFile> file_;
  archive::Reader reader_;
  bool finished_ = false;
};

// Looks the file through first, then sends it: a damaged one changes nothing on the server.
Result<v1::ImportRunReply> SendArchive(const std::string& path, Client& client, Progress* progress);

void PrintImported(Context& context, const v1::ImportRunReply& reply);

}  // namespace foreshock::cli
