// One maker a command. Private.
#pragma once

#include <memory>

#include "foreshock/cli/command.h"

namespace foreshock::cli {

std::unique_ptr<Command> MakeUp();
std::unique_ptr<Command> MakeRuns();
std::unique_ptr<Command> MakeShow();
std::unique_ptr<Command> MakeSeries();
std::unique_ptr<Command> MakeHeads();
std::unique_ptr<Command> MakeAlerts();
std::unique_ptr<Command> MakeWatch();
std::unique_ptr<Command> MakeSummary();
std::unique_ptr<Command> MakeReplay();
std::unique_ptr<Command> MakeAct();
std::unique_ptr<Command> MakeActions();
std::unique_ptr<Command> MakeDelete();
std::unique_ptr<Command> MakeBackup();
std::unique_ptr<Command> MakeExport();
std::unique_ptr<Command> MakeMove();
std::unique_ptr<Command> MakeSilence();
std::unique_ptr<Command> MakeAcknowledge();
std::unique_ptr<Command> MakeAudit();
std::unique_ptr<Command> MakeReport();
std::unique_ptr<Command> MakeRules();
std::unique_ptr<Command> MakeImport();
std::unique_ptr<Command> MakeTune();
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeCatalogue();
std::unique_ptr<Command> MakeToken();

}  // namespace foreshock::cli
