#include "foreshock/cli/tune.h"

#include <ostream>

#include "constants.h"
#include "foreshock/base/file.h"
#include "foreshock/server/rules/rules_file.h"
#include "print.h"

namespace foreshock::cli {
namespace {

constexpr int kOk = 0, kBadInput = 2;

// Takes minutes over many recordings, so it says how far it is.
Status TryConstantsOnAll(const TuneOptions& options, std::ostream& progress, TuneResult* result) {
  std::vector<std::vector<Spoke>> tried;
  for (size_t r = 0; r < result->runs.size(); ++r) {
    progress << "constants: run " << r + 1 << " of " << result->runs.size() << std::endl;
    FS_ASSIGN_OR_RETURN(std::vector<Spoke> spoke, TryConstants(options.recordings[r], result->runs[r]));
    tried.push_back(std::move(spoke));
  }
  result->constants = JudgeConstants(result->runs, tried);
  result->left_out.push_back(LeaveOneOutConstants(result->runs, tried));
  return {};
}

Result<TuneResult> Tune(const TuneOptions& options, std::vector<std::string>* warnings,
                        std::ostream& progress) {
  FS_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(PosixFileSystem(), options.labels_path));
  auto labels = ParseLabels(text);
  if (!labels.ok()) return labels.status().Annotate(options.labels_path);
  detect::UserRulesPtr rules;
  if (!options.rules_path.empty()) {
    FS_ASSIGN_OR_RETURN(rules, rules::LoadUserRules(options.rules_path));
  }
  TuneResult result;
  for (const std::string& path : options.recordings) {
    FS_ASSIGN_OR_RETURN(LabelledRun run, Collect(path, *labels, rules, warnings));
    result.runs.push_back(std::move(run));
  }
  result.rules = JudgeRules(result.runs);
  result.references = JudgeReferences(result.runs);
  result.left_out = LeaveOneOut(result.runs);
  if (options.constants) FS_RETURN_IF_ERROR(TryConstantsOnAll(options, progress, &result));
  return result;
}

}  // namespace

int RunTune(const TuneOptions& options, const Style& style, std::ostream& out, std::ostream& err) {
  std::vector<std::string> warnings;
  const auto result = Tune(options, &warnings, err);
  for (const std::string& warning : warnings) err << warning << '\n';
  if (!result.ok()) {
    err << "foreshock tune: " << result.status().message() << '\n';
    return kBadInput;
  }
  if (options.json) {
    PrintJson(*result, options, out);
  } else {
    PrintText(*result, options, style, out);
  }
  return kOk;
}

}  // namespace foreshock::cli
