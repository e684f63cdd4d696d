// The acknowledged positions of all sources, in one small file that is replaced as a whole.
#pragma once

#include <map>
#include <string>

#include "foreshock/agent/spool.h"

namespace foreshock::agent {

using AckedSeqs = std::map<SourceKey, uint64_t>;

// What the file says; empty when there is none or it cannot be read (*warning says why): records then go out
// again.
AckedSeqs ReadAckFile(FileSystem& fs, const std::string& dir, std::string* warning);
Status WriteAckFile(FileSystem& fs, const std::string& dir, const AckedSeqs& acked);

}  // namespace foreshock::agent
