// The version of a folder's format.
#pragma once

#include "database.h"

namespace foreshock::store {

// True: the one that this version writes; false: an older one that it takes over. kNotFound: a new folder.
// kFailedPrecondition: another version; the message names all.
Result<bool> CheckFormat(const Database& db);

}  // namespace foreshock::store
