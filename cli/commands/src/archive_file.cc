#include "archive_file.h"

#include <unistd.h>

#include <algorithm>

#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

constexpr size_t kPiece = 1u << 20;
constexpr std::chrono::milliseconds kBetween{500};

Status EachPiece(const std::string& path, const std::function<Status(std::string_view)>& each) {
  FS_ASSIGN_OR_RETURN(const auto file, PosixFileSystem().OpenRead(path));
  FS_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    FS_RETURN_IF_ERROR(file->ReadAt(at, static_cast<size_t>(std::min<uint64_t>(kPiece, size - at)), &piece));
    if (piece.empty()) return Status(Code::kDataLoss, path + ": became shorter while it was read");
    FS_RETURN_IF_ERROR(each(piece));
  }
  return OkStatus();
}

}  // namespace

Progress::Progress(std::ostream& err, std::string what)
    : err_(err),
      what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kBetween) {}

void Progress::Add(uint64_t bytes) {
  bytes_ += bytes;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + kBetween;
  shown_ = true;
  err_ << "\r\x1b[K" << what_ << " " << bytes_ / 1'000'000 << " MB" << std::flush;
}

void Progress::End() {
  if (shown_) err_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

bool IsArchive(const std::string& path) {
  const auto file = PosixFileSystem().OpenRead(path);
  std::string begin;
  return file.ok() && (*file)->ReadAt(0, 12, &begin).ok() && archive::LooksLikeArchive(begin);
}

ArchiveFile::ArchiveFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {}

Result<std::unique_ptr<ArchiveFile>> ArchiveFile::Create(const std::string& path) {
  FileSystem& files = PosixFileSystem();
  if (files.Size(path).ok() || files.IsDir(path))
    return Status(Code::kAlreadyExists, "archive: " + path + " is there already");
  std::unique_ptr<ArchiveFile> file(new ArchiveFile(path));
  if (files.Size(file->part_).ok()) FS_RETURN_IF_ERROR(files.Remove(file->part_));
  FS_ASSIGN_OR_RETURN(file->file_, files.OpenAppend(file->part_));
  return file;
}

ArchiveFile::~ArchiveFile() {
  if (finished_ || file_ == nullptr) return;
  file_->Close().IgnoreError();
  PosixFileSystem().Remove(part_).IgnoreError();
}

Status ArchiveFile::Write(std::string_view bytes) {
  FS_RETURN_IF_ERROR(reader_.Feed(bytes, [](archive::Entry) { return OkStatus(); }));
  return file_->Append(bytes);
}

Status ArchiveFile::Finish() {
  FS_RETURN_IF_ERROR(reader_.Finish());
  FS_RETURN_IF_ERROR(file_->Sync());
  FS_RETURN_IF_ERROR(file_->Close());
  FS_RETURN_IF_ERROR(PosixFileSystem().Rename(part_, path_));
  finished_ = true;
  return PosixFileSystem().SyncDir(ParentPath(path_));
}

Result<v1::ImportRunReply> SendArchive(const std::string& path, Client& client, Progress* progress) {
  archive::Reader reader;
  FS_RETURN_IF_ERROR(EachPiece(path, [&](std::string_view bytes) {
    return reader.Feed(bytes, [](archive::Entry) { return OkStatus(); });
  }));
  FS_RETURN_IF_ERROR(reader.Finish());
  const auto stream = client.StartImport(UserName());
  bool refused = false;
  const Status read = EachPiece(path, [&](std::string_view bytes) {
    const Status status = stream->Write(bytes);
    refused = !status.ok();
    progress->Add(bytes.size());
    return status;
  });
  if (!read.ok() && !refused) return read;
  return stream->Finish();
}

void PrintImported(Context& context, const v1::ImportRunReply& reply) {
  const auto line = [](const v1::ImportCounts& c) {
    return std::to_string(c.frames()) + " frames, " + std::to_string(c.merged_frames()) + " merged, " +
           std::to_string(c.events()) + " events, " + std::to_string(c.quarantined()) + " quarantined, " +
           std::to_string(c.notes()) + " alerts and notes";
  };
  context.out << "imported " << Printable(reply.run()) << ": " << reply.attempts() << " attempts, "
              << reply.processes() << " processes\n  new:   " << line(reply.added())
              << "\n  there: " << line(reply.known()) << "\n";
}

}  // namespace foreshock::cli
