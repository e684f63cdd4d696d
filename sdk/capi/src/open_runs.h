// The handles of this process that are open, so that a trainer that ends by exit() loses nothing that it
// could have sent. Crashes and _exit are not covered: then the last few milliseconds are lost.
#pragma once

struct fs_run;

namespace foreshock::sdk {

// Both allocate or lock for a moment; neither is on the step path.
void RememberOpen(fs_run* run);
void ForgetOpen(fs_run* run) noexcept;

}  // namespace foreshock::sdk
