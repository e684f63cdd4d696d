// A run from one server's parts into another's: alerts go on firing, silences and the trail come along.
#include "foreshock/server/move/run_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "foreshock/archive/reader.h"
#include "foreshock/archive/writer.h"
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
store::SourceId Sick(Side& side, int64_t steps, const std::string& run = "gpt") {
  const store::SourceId source = side.history.Hello(run);
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

// An archive of run gpt with notes as its author likes them.
std::string With(const std::string& bytes, const std::vector<archive::Note>& notes) {
  std::string out;
  archive::Writer writer(
      [&](std::string_view piece) {
        out += piece;
        return OkStatus();
      },
      7);
  archive::Reader reader;
  EXPECT_TRUE(reader.Feed(bytes, [&](archive::Entry entry) { return writer.Add(entry); }).ok());
  for (const archive::Note& note : notes) EXPECT_TRUE(writer.Add(note).ok());
  EXPECT_TRUE(writer.Finish().ok());
  return out;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Who may import one run may not speak about another.
TEST(RunMover, AnArchiveSpeaksOfItsOwnRunAlone) {
  Side a, b;
  Sick(a, 60);
  Sick(b, 60, "victim");
  ASSERT_TRUE(a.silences->Acknowledge({.run = "gpt", .author = "eve"}).ok());
  const std::string bytes = a.Export("gpt");
  ASSERT_EQ(b.alerts->Firing().size(), 1u);
  const alert::AlertRecord victim = b.alerts->Firing()[0];
  const store::MetaEntry silence = a.silences->EntriesOf("gpt")[0];
  const auto add = [&](const std::string& from, const std::string& to) {
    return b.Import(With(bytes, {{"silence", "0000000000000001", Replaced(silence.value, from, to), false}}));
  };
  // Acknowledged is an alert by its id, and an id begins with its run.
  EXPECT_EQ(add("gpt/", "victim/").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(add("\"gpt\"", "\"victim\"").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(add("\"gpt\"", "\"*\"").status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(b.silences->Of(victim.alert).empty());
  const auto trail = [&](const std::string& run, const std::string& at) {
    return b.Import(
        With(bytes,
             {{"audit", at,
               R"({"who":"x","what":"run_deleted","subject":"","detail":"","run":")" + run + "\"}", false}}));
  };
  EXPECT_EQ(trail("victim", "01700000000000000000").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(trail("", "01700000000000000000").status().code(), Code::kInvalidArgument);
  // A time far ahead would push all that follows there, and the last one over its end.
  EXPECT_EQ(trail("gpt", "09223372036854775807").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(trail("gpt", "99999999999999999999").status().code(), Code::kDataLoss);
  EXPECT_TRUE(trail("gpt", "01700000000000000000").ok());
  EXPECT_EQ(b.audit->Read("victim", 10)->size(), 0u);
  // An alert under the victim's id, of this run and of the victim's.
  const auto alerts = *a.history.store().ScanMeta("alert", "gpt");
  ASSERT_EQ(alerts.size(), 1u);
  Side c;
  Sick(c, 60, "victim");
  const std::string as_victim = Replaced(alerts[0].value, "gpt/", "victim/");
  const std::string of_victim = Replaced(as_victim, "\"gpt\"", "\"victim\"");
  ASSERT_NE(of_victim, as_victim);
  ASSERT_TRUE(c.Import(With(bytes, {{"alert", victim.alert.id, Replaced(as_victim, "critical", "info"), true},
                                    {"alert", victim.alert.id + "2", of_victim, true}}))
                  .ok());
  c.alerts->Flush();
  ASSERT_EQ(c.alerts->Firing().size(), 2u);
  for (const alert::AlertRecord& record : c.alerts->Firing())
    EXPECT_TRUE(record.alert.id.starts_with(record.alert.run + "/")) << record.alert.id;
  EXPECT_EQ(c.alerts->OfRun("victim")->size(), 1u);
  EXPECT_EQ(c.alerts->OfRun("gpt")->size(), 1u);
}

// What ingest would have refused or quarantined is no better for coming in an archive.
TEST(RunMover, WhatTheDoorRefusesIsRefused) {
  Side a, b, c;
  const store::SourceId source = a.history.Hello("gpt");
  wire::Frame fits, wild, stranger;
  fits.step = 1;
  wild.step = -5;
  stranger.step = 2;
  fits.series = wild.series = {tests::Scalar(kLoss, 2.0f)};
  stranger.series = {tests::Scalar(kLoss, 2.0f)};
  stranger.series[0].layer = 77;
  for (const wire::Frame& frame : {fits, wild, stranger}) a.history.Put(source, frame);
  const auto outcome = b.Import(a.Export("gpt"));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 1u);
  EXPECT_EQ(outcome->added.quarantined, 2u);
  c.mover = RunMover::Create({.store = &c.history.store(),
                              .silences = c.silences.get(),
                              .audit = c.audit.get(),
                              .clock = &c.history.clock(),
                              .made_by = "test",
                              .max_heads_per_run = 3});
  const wire::Hello hello = *a.history.store().GetSource(source)->hello;
  uint64_t heads = 0;
  for (const wire::Layer& layer : hello.model.layers) heads += layer.query_heads;
  EXPECT_EQ(c.Import(a.Export("gpt")).ok(), heads <= 3);
}

// A step over all ranks says no more than its ranks can have said: of the layers of all of them, at a step
// that can be.
TEST(RunMover, AMergedFrameOfNoRankIsLeftToTheMerger) {
  Side a, b;
  std::vector<store::SourceId> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    wire::Hello hello = tests::SmallHello("gpt");
    hello.rank = rank;
    hello.world_size = 2;
    hello.incarnation = 1 + rank;
    hello.model.layers.resize(1);
    hello.model.layers[0].layer = rank;  // a layer each
    ranks.push_back(a.history.Hello(hello));
  }
  const auto merged = [&](wire::Frame frame) {
    const auto shared = std::make_shared<const wire::Frame>(std::move(frame));
    ASSERT_TRUE(a.history.store().PutMerged(ranks[0], shared, false, a.history.store().Stamp()).ok());
  };
  const std::vector<float> four = {1, 2, 3, 4}, five = {1, 2, 3, 4, 5};
  for (int64_t step = 0; step < 4; ++step) {
    for (const store::SourceId& id : ranks)
      a.history.PutOfRank(id, tests::Step(step, {tests::Heads(kLogitMax, id.rank, four)}));
  }
  merged(tests::Step(0, {tests::Heads(kLogitMax, 0, four), tests::Heads(kLogitMax, 1, four)}));
  merged(tests::Step(1, {tests::Heads(kLogitMax, 2, four)}));  // of nobody's layer
  merged(tests::Step(2, {tests::Heads(kLogitMax, 0, five)}));
  merged(tests::Step(3, {tests::Heads(kLogitMax, 1, four)}));
  merged(tests::Step(1'000'000'000, {tests::Scalar(kLoss, 1)}));
  ASSERT_TRUE(a.history.store().UnmergedSteps()->empty());
  const auto outcome = b.Import(a.Export("gpt"));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.merged_frames, 2u);
  EXPECT_EQ(outcome->added.frames, 8u);
  std::vector<int64_t> left;
  for (const auto& unmerged : *b.history.store().UnmergedSteps()) left.push_back(unmerged.step);
  EXPECT_EQ(left, (std::vector<int64_t>{1, 2, 1'000'000'000}));
}

TEST(RunMover, WhoMayNotTakesNoPlace) {
  Side a, b;
  Sick(a, 30);
  const std::string bytes = a.Export("gpt");
  const auto no = [](const std::string&) { return Status(Code::kPermissionDenied, "no"); };
  const auto first = *b.mover->StartImport("", no);
  const auto second = *b.mover->StartImport("", no);
  const auto third = *b.mover->StartImport("", no);
  EXPECT_TRUE(first->Feed(std::string_view(bytes).substr(0, 20)).ok());
  EXPECT_TRUE(b.Import(bytes).ok());
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
    const auto three = *b.mover->StartImport("", may);
    EXPECT_EQ(three->Feed(bytes).code(), Code::kResourceExhausted);
    ASSERT_TRUE(one->Feed(std::string_view(bytes).substr(200)).ok());
    EXPECT_TRUE(one->Finish().ok());
  }
  EXPECT_TRUE(b.Import(bytes).ok());
}

}  // namespace
}  // namespace foreshock::move
