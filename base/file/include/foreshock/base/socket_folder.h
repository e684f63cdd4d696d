// The folder of a unix socket. In a folder that others may write to (/tmp) anybody can put a folder of an
// expected name first, and listen there in somebody's place; both ends look before they use one.
#pragma once

#include <string>

#include "foreshock/base/result.h"

namespace foreshock {

// Whether a socket's folder can be trusted. kPermissionDenied naming folder, owner or mode, and what is
// wanted, when its parent is writable by others and the folder is a link, belongs to neither this user nor
// root, or is writable by others. A folder that others may write to itself is taken where it is sticky
// (/tmp): whoever gives such a path means it. Ok where nothing is there yet. Never blocks on anything but the
// disk.
Status CheckSocketFolder(const std::string& folder);

// Creates the folder where it is missing, mode 0700 (of root 0755: its trainers may be anybody), and its
// parents; then CheckSocketFolder.
Status MakeSocketFolder(const std::string& folder);

}  // namespace foreshock
