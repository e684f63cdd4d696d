// The server's answers as text for a person. Pure: message and style in, lines out (each ends in '\n'). Text
// that came from trainers is made safe for terminals.
#pragma once

#include <optional>
#include <string>

#include "foreshock/cli/style.h"
#include "foreshock/v1/control.pb.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

std::string RenderRuns(const v1::ListRunsReply& reply, const Style& style);
std::string RenderRun(const v1::Run& run, const Style& style);

// A table of alerts, newest first as the server gives them; "no alerts" when there are none. `with_run` adds
// the run's column.
std::string RenderAlerts(const v1::ListAlertsReply& reply, bool with_run, const Style& style);
// One alert with evidence, checkpoint and advice, over a few lines.
std::string RenderAlertDetail(const v1::Alert& alert, const Style& style);
// One line: "CRITICAL  step 1180  qk_runaway  layer 1 head 3  ...".
std::string AlertLine(const v1::Alert& alert, const Style& style);

// One signal over steps. With `head`, or for a scalar: a column of values; otherwise smallest, median and
// largest head of each layer and step. A sparkline above it on a terminal.
std::string RenderSeries(const v1::SeriesPoints& points, std::optional<uint32_t> head, const Style& style);

// Layers x heads of one signal at one step: blocks with colour, numbers otherwise.
std::string RenderHeads(const v1::StepReply& reply, const std::string& signal, const Style& style);

std::string RenderSilences(const v1::ListSilencesReply& reply, const Style& style);
std::string RenderAudit(const v1::ListAuditReply& reply, const Style& style);
std::string RenderActions(const v1::ListActionsReply& reply, const Style& style);
std::string EventLine(const v1::Event& event, const Style& style);
std::string RenderStatus(const v1::ServerStatus& status, const Style& style);
std::string RenderCatalogue(const Style& style);

// Names of enumerations: "running", "critical", "no_effect".
std::string StateName(v1::RunState state);
std::string SeverityName(v1::Severity severity);

// "layer 1 head 3", "layer 1", or "" of an alert about the whole run.
std::string Place(const v1::Alert& alert);

}  // namespace foreshock::cli
