#include "foreshock/base/file.h"

namespace foreshock {

Result<std::string> ReadWholeFile(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  FS_ASSIGN_OR_RETURN(auto file, fs.OpenRead(path));
  FS_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > max_bytes) {
    return Status(Code::kResourceExhausted,
                  path + ": " + std::to_string(size) + " bytes, at most " + std::to_string(max_bytes));
  }
  std::string contents;
  FS_RETURN_IF_ERROR(file->ReadAt(0, size, &contents));
  return contents;
}

Status CreateDirs(FileSystem& fs, const std::string& path) {
  if (fs.IsDir(path)) return OkStatus();
  const std::string parent = ParentPath(path);
  if (parent != path) FS_RETURN_IF_ERROR(CreateDirs(fs, parent));
  const Status created = fs.CreateDir(path);
  // Somebody else may have been faster.
  if (!created.ok() && !(created.code() == Code::kAlreadyExists && fs.IsDir(path))) return created;
  return fs.SyncDir(parent);
}

Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view contents) {
  const std::string temporary = path + ".tmp";
  const Status removed = fs.Remove(temporary);  // left by a crash
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  FS_ASSIGN_OR_RETURN(auto file, fs.OpenAppend(temporary));
  Status written = file->Append(contents);
  if (written.ok()) written = file->Sync();
  if (written.ok()) written = file->Close();
  if (written.ok()) written = fs.Rename(temporary, path);
  if (!written.ok()) {
    file.reset();
    fs.Remove(temporary).IgnoreError();
    return written;
  }
  return fs.SyncDir(ParentPath(path));
}

std::string JoinPath(std::string_view dir, std::string_view name) {
  std::string joined(dir);
  if (!joined.empty() && joined.back() != '/') joined += '/';
  return joined.append(name);
}

std::string ParentPath(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

}  // namespace foreshock
