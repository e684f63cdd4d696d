// What the page's script draws, as JSON.
#pragma once

#include <string>
#include <vector>

#include "run_data.h"

namespace foreshock::report {

// Safe inside a <script> element: no '<' in it.
std::string PageData(const ReportOptions& options, const std::vector<RunData>& runs,
                     const std::vector<HeadPanel>& panels);

}  // namespace foreshock::report
