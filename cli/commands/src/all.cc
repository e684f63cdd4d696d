#include "commands.h"

namespace foreshock::cli {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make :
       {MakeUp,          MakeRuns,   MakeShow,      MakeSeries, MakeHeads,  MakeAlerts,  MakeSilence,
        MakeAcknowledge, MakeWatch,  MakeSummary,   MakeReport, MakeAct,    MakeActions, MakeAudit,
        MakeReplay,      MakeRules,  MakeImport,    MakeTune,   MakeExport, MakeMove,    MakeDelete,
        MakeBackup,      MakeDoctor, MakeCatalogue, MakeToken}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace foreshock::cli
