// A run from one server's parts into another's: alerts go on firing, silences and the trail come along.
#include "foreshock/server/move/run_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "foreshock/tests/history.h"

namespace foreshock::move {
namespace {

constexpr int64_t kNow = 1'700'000'000'000'000'000;

class Heard final : public alert::AlertListener {
 public:
  void OnAlert(const alert::AlertRecord& record) override { records.push_back(record); }
  std::vector<alert::AlertRecord> records;
};

// One server, without its doors.
struct Side {
  Side() {
    alert::AlertOptions options;
    options.tick_interval = std::chrono::hours(1);
    options.listener = &heard;
    alerts = *alert::AlertService::Start(options, &history.store(), &history.clock());
    audit = *alert::AuditLog::Open(&history.store(), &history.clock());
    silences = *alert::Silences::Start({&history.store(), alerts.get(), audit.get(), &history.clock()});
    mover = RunMover::Create({.store = &history.store(),
                              .silences = silences.get(),
                              .audit = audit.get(),
                              .clock = &history.clock(),
                              .made_by = "test",
                              .most_at_once = 2});
  }
  std::string Export(const std::string& run) {
    std::string bytes;
    const Status status = mover->Export(run, "ann", [&](std::string_view piece) {
      EXPECT_LE(piece.size(), size_t{1} << 20);
      bytes += piece;
      return OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return bytes;
  }
  Result<ImportOutcome> Import(std::string_view bytes) {
    FS_ASSIGN_OR_RETURN(const auto import,
                        mover->StartImport("bob", [](const std::string&) { return OkStatus(); }));
    FS_RETURN_IF_ERROR(import->Feed(bytes));
    return import->Finish();
  }
  std::vector<std::string> Trail() {
    std::vector<std::string> lines;
    for (const alert::AuditEntry& entry : *audit->Read("", 100))
      lines.push_back(entry.who + " " + entry.what);
    return lines;
  }

  tests::History history;
  Heard heard;
  std::unique_ptr<alert::AlertService> alerts;
  std::unique_ptr<alert::AuditLog> audit;
  std::unique_ptr<alert::Silences> silences;
  std::unique_ptr<RunMover> mover;
};

// A run in which non_finite fires: its loss is NaN from step 20 on.
store::SourceId Sick(Side& side, int64_t steps) {
  const store::SourceId source = side.history.Hello("gpt");
  for (int64_t step = 0; step < steps; ++step) {
    wire::Frame frame;
    frame.step = step;
    frame.series = {tests::Scalar(kLoss, step < 20 ? 2.0f : std::numeric_limits<float>::quiet_NaN())};
    side.history.Put(source, std::move(frame));
  }
  side.alerts->Flush();
  return source;
}

TEST(RunMover, AlertsSilencesAndTheTrailComeAlong) {
  Side a, b;
  Sick(a, 60);
  ASSERT_EQ(a.alerts->Firing().size(), 1u);
  const alert::AlertRecord before = a.alerts->Firing()[0];
  ASSERT_TRUE(a.silences->Acknowledge({.run = "gpt", .author = "eve", .comment = "looking"}).ok());
  alert::Silence other;
  other.run = "other*";
  other.ends_unix_ns = kNow + 1'000'000'000'000;
  ASSERT_TRUE(a.silences->Create(other).ok());

  const std::string bytes = a.Export("gpt");
  const auto outcome = b.Import(bytes);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->run, "gpt");
  EXPECT_EQ(outcome->attempts, 1u);
  EXPECT_EQ(outcome->added.frames, 60u);
  b.alerts->Flush();
  ASSERT_EQ(b.alerts->Firing().size(), 1u);
  const alert::AlertRecord after = b.alerts->Firing()[0];
  EXPECT_EQ(after.alert.id, before.alert.id);
  EXPECT_EQ(after.fired_unix_ns, before.fired_unix_ns);
  EXPECT_EQ(after.alert.first_evidence_step, before.alert.first_evidence_step);
  // Listeners hear of it, and that it has an acknowledgement; silences of other runs stayed behind.
  ASSERT_EQ(b.heard.records.size(), 1u);
  EXPECT_EQ(b.heard.records[0].alert.id, before.alert.id);
  ASSERT_EQ(b.silences->Of(after.alert).size(), 1u);
  EXPECT_EQ(b.silences->Of(after.alert)[0].author, "eve");
  EXPECT_EQ(b.silences->List(true).size(), 1u);
  EXPECT_EQ(b.Trail(), (std::vector<std::string>{"bob run_imported", "eve alert_acknowledged"}));
  EXPECT_EQ(a.Trail().front(), "ann run_exported");

  // Again: nothing fires twice, nothing is doubled.
  const auto again = b.Import(bytes);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->added.frames + again->added.notes, 0u);
  b.alerts->Flush();
  EXPECT_EQ(b.alerts->Firing().size(), 1u);
  EXPECT_EQ(b.silences->List(true).size(), 1u);
  EXPECT_EQ(b.Trail().size(), 3u);  // that it was imported again
  EXPECT_EQ(b.mover->counters().imports, 2u);
}

TEST(RunMover, JudgingGoesOnWhereItStood) {
  Side a, b;
  const store::SourceId here = Sick(a, 60);
  ASSERT_TRUE(b.Import(a.Export("gpt")).ok());
  b.alerts->Flush();
  const auto hello = b.history.store().GetRun("gpt")->newest().lead()->hello;
  const store::SourceId there = b.history.Hello(*hello);
  EXPECT_EQ(b.history.store().GetSource(there)->durable_seq, 60u);
  // The same goes on at both: what is judged is the same.
  const auto go_on = [](Side& side, const store::SourceId& source) {
    for (int64_t step = 60; step < 200; ++step) {
      wire::Frame frame;
      frame.step = step;
      frame.series = {tests::Scalar(kLoss, 2.0f)};
      side.history.Put(source, std::move(frame));
    }
    side.alerts->Flush();
    std::vector<std::tuple<std::string, std::string, alert::AlertState, int64_t>> judged;
    const auto records = side.alerts->OfRun("gpt");
    for (const alert::AlertRecord& record : *records)
      judged.emplace_back(record.alert.id, record.alert.rule, record.alert.state, record.fired_unix_ns);
    std::sort(judged.begin(), judged.end());
    return judged;
  };
  const auto judged = go_on(a, here);
  EXPECT_GE(judged.size(), 1u);
  EXPECT_EQ(go_on(b, there), judged);
}

TEST(RunMover, WhoMayNotAndWhatIsTornChangeNothing) {
  Side a, b;
  Sick(a, 30);
  const std::string bytes = a.Export("gpt");
  std::string asked;
  {
    const auto import = *b.mover->StartImport("", [&](const std::string& run) {
      asked = run;
      return Status(Code::kPermissionDenied, "no");
    });
    EXPECT_EQ(import->Feed(bytes).code(), Code::kPermissionDenied);
  }
  EXPECT_EQ(asked, "gpt");
  EXPECT_EQ(b.history.store().CountRuns(), 0u);
  EXPECT_EQ(b.Import(bytes.substr(0, 10)).status().code(), Code::kDataLoss);
  EXPECT_EQ(b.Import("log,of,something").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(b.history.store().CountRuns(), 0u);
  EXPECT_EQ(b.Import(std::string_view(bytes).substr(0, bytes.size() - 1)).status().code(), Code::kDataLoss);
  EXPECT_EQ(b.mover->counters().failures, 4u);
  EXPECT_EQ(a.mover->Export("nobody", "", [](std::string_view) { return OkStatus(); }).code(),
            Code::kNotFound);
}

TEST(RunMover, OneImportOfARunAndFewAtATime) {
  Side a, b;
  Sick(a, 30);
  const std::string bytes = a.Export("gpt");
  const auto may = [](const std::string&) { return OkStatus(); };
  {
    const auto one = *b.mover->StartImport("", may);
    ASSERT_TRUE(one->Feed(std::string_view(bytes).substr(0, 200)).ok());
    const auto two = *b.mover->StartImport("", may);
    EXPECT_EQ(two->Feed(bytes).code(), Code::kFailedPrecondition);
    EXPECT_EQ(b.mover->StartImport("", may).status().code(), Code::kResourceExhausted);
    ASSERT_TRUE(one->Feed(std::string_view(bytes).substr(200)).ok());
    EXPECT_TRUE(one->Finish().ok());
  }
  EXPECT_TRUE(b.Import(bytes).ok());
}

}  // namespace
}  // namespace foreshock::move
