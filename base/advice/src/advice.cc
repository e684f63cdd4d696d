#include "foreshock/base/advice.h"

#include <unistd.h>

namespace foreshock {

std::string AdviceFor(const Status& status) {
  if (status.code() != Code::kPermissionDenied) return "";
  return "this process runs as uid " + std::to_string(::geteuid()) +
         ": name another place, or give it access to this one (ls -ld, chown, chmod, or a group)";
}

}  // namespace foreshock
