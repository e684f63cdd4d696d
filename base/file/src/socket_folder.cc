#include "foreshock/base/socket_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "foreshock/base/file.h"

namespace foreshock {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

Status Refused(const std::string& folder, const std::string& why) {
  return Status(Code::kPermissionDenied,
                "socket folder: " + folder + " " + why +
                    ", must be a folder of this user or root that only they write to");
}

std::string Octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

}  // namespace

Status CheckSocketFolder(const std::string& folder) {
  struct stat parent {
  }, info{};
  if (::stat(ParentPath(folder).c_str(), &parent) != 0 || ::lstat(folder.c_str(), &info) != 0) {
    return OkStatus();  // nothing there that could mislead; using it fails by itself
  }
  if ((parent.st_mode & S_IWOTH) == 0) return OkStatus();
  if (S_ISLNK(info.st_mode)) return Refused(folder, "is a link");
  if (!S_ISDIR(info.st_mode)) return Refused(folder, "is no folder");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return Refused(folder, "belongs to user " + std::to_string(info.st_uid));
  }
  const bool sticky = (info.st_mode & S_ISVTX) != 0;
  if ((info.st_mode & kWritableByOthers) != 0 && !sticky) {
    return Refused(folder, "has mode " + Octal(info.st_mode));
  }
  return OkStatus();
}

Status MakeSocketFolder(const std::string& folder) {
  const std::string parent = ParentPath(folder);
  if (parent != folder) FS_RETURN_IF_ERROR(CreateDirs(PosixFileSystem(), parent));
  const mode_t mode = ::geteuid() == 0 ? 0755 : 0700;
  if (::mkdir(folder.c_str(), mode) != 0 && errno != EEXIST) {
    const int error = errno;
    const bool denied = error == EACCES || error == EPERM || error == EROFS;
    return Status(denied ? Code::kPermissionDenied : Code::kIo,
                  "socket folder: mkdir " + folder + ": " + std::system_category().message(error));
  }
  return CheckSocketFolder(folder);
}

}  // namespace foreshock
