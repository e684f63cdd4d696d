// What a person can do about an error that ends a program at its start. Pure but for the process's user id.
#pragma once

#include <string>

#include "foreshock/base/result.h"

namespace foreshock {

// One sentence, without a full stop; empty where the error's own text has to be enough.
// Knows kPermissionDenied (of files and sockets), which depends on who runs the program.
std::string AdviceFor(const Status& status);

}  // namespace foreshock
