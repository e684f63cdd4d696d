#include "collect.h"

#include <filesystem>
#include <memory>

#include "foreshock/cli/player.h"
#include "references.h"

namespace foreshock::cli {
namespace {

void Note(const std::vector<std::unique_ptr<Reference>>& references, const detect::StepSample& sample,
          std::vector<Scores>* scores) {
  for (size_t i = 0; i < references.size(); ++i) {
    if (scores->size() == i) scores->push_back({references[i]->name(), references[i]->threshold(), {}});
    if (const auto score = references[i]->Score(sample)) (*scores)[i].points.push_back({sample.step, *score});
  }
}

}  // namespace

Result<LabelledRun> Collect(const std::string& path, const std::map<std::string, Truth>& labels,
                            const detect::UserRulesPtr& rules, std::vector<std::string>* warnings) {
  LabelledRun run;
  detect::DetectorOptions options;
  options.user_rules = rules;
  const auto on_event = [&](const alert::AlertEvent& event) {
    run.events.push_back(event);
    run.events.back().alert.evidence.clear();
  };
  Player player(options, on_event,
                [&](const std::string& warning) { warnings->push_back(path + ": " + warning); });
  std::vector<std::unique_ptr<Reference>> references;
  player.SetOnSample([&](const detect::RunInfo& info, const detect::StepSample& sample) {
    if (references.empty()) references = MakeReferences(info);
    Note(references, sample, &run.scores);
  });
  std::vector<std::string> reading;
  const Status status = ReadRecording(path, &player, &reading);
  player.Finish();
  for (const std::string& warning : reading) warnings->push_back(path + ": " + warning);
  if (!status.ok()) return status.Annotate(path);
  const std::string stem = std::filesystem::path(path).stem().string();
  const auto truth = labels.contains(player.run()) ? labels.find(player.run()) : labels.find(stem);
  if (truth == labels.end()) {
    return Status(Code::kNotFound, path + ": the labels have no run " + player.run() + ", nor " + stem);
  }
  run.run = truth->first;
  run.truth = truth->second;
  if (references.empty()) Note(MakeReferences({}), {}, &run.scores);
  return run;
}

}  // namespace foreshock::cli
