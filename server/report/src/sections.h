// The parts of the page that read without JavaScript. Pure.
#pragma once

#include <string>
#include <vector>

#include "run_data.h"

namespace foreshock::report {

std::string Summary(const std::vector<RunData>& runs);
std::string AlertTable(const std::vector<RunData>& runs);
std::string ActionTable(const std::vector<RunData>& runs);
// Headings and empty boxes that the script fills.
std::string LossSection(const std::vector<RunData>& runs);
std::string HeadSections(const std::vector<RunData>& runs, const std::vector<HeadPanel>& panels);
std::string MapSection(const std::vector<RunData>& runs);

}  // namespace foreshock::report
