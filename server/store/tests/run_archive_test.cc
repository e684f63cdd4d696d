// A run from one store into another: everything bit for bit, again without effect, in pieces and beside live
// senders.
#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <variant>

#include "foreshock/archive/entry.h"
#include "foreshock/server/store/check.h"
#include "foreshock/server/store/store.h"
#include "frames_here.h"
#include "keys.h"
#include "registry.h"
#include "run_archive_support.h"
#include "store_impl.h"
#include "store_test_support.h"

namespace foreshock::store {
namespace {

using test::AllFrames;
using test::AllSources;
using test::BeginOf;
using test::Everything;
using test::Exported;
using test::Folder;
using test::HeadSeries;
using test::HeadsFrame;
using test::HelloOf;
using test::Import;
using test::Records;

std::unique_ptr<Store> OpenAt(const Folder& folder, uint32_t seal_steps = 64) {
  StoreOptions options;
  options.folder = folder.path() + "/store";
  options.seal_steps = seal_steps;
  auto store = Store::Open(options);
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return std::move(store).value();
}

class RunArchive : public testing::Test {
 protected:
  RunArchive() : a_(OpenAt(from_)), b_(OpenAt(to_)) {}

  static SourceId Say(Store& store, const test::HelloFields& fields, const std::string& run = "gpt") {
    auto hello = HelloOf(run, fields);
    hello.host = "node";
    hello.labels["team"] = "blue";
    const auto source = store.OpenSource(hello, 100);
    EXPECT_TRUE(source.ok());
    return source->id;
  }
  static void Put(Store& store, Records&& records) {
    const auto outcome = store.AppendRecords(records.list);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  }
  // Steps [from, to) of a rank, numbered from its step on; a merged frame each where asked for.
  static void Steps(Store& store, const SourceId& id, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      wire::Frame frame = HeadsFrame(step, id.rank);
      Records one(id, static_cast<uint64_t>(step + 1));
      one.Frame(std::move(frame));
      Put(store, std::move(one));
    }
  }
  static void Merge(Store& store, const SourceId& id, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      auto frame = std::make_shared<const wire::Frame>(HeadsFrame(step, 99));
      ASSERT_TRUE(store.PutMerged(id, frame, false, store.Stamp()).ok());
    }
  }
  void ExpectSame() {
    EXPECT_EQ(AllFrames(*a_, "gpt"), AllFrames(*b_, "gpt"));
    EXPECT_EQ(AllSources(*a_, "gpt"), AllSources(*b_, "gpt"));
  }

  Folder from_, to_;
  std::unique_ptr<Store> a_, b_;
};

TEST_F(RunArchive, EverythingBitForBitAndAgainWithoutEffect) {
  std::vector<SourceId> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank)
    ranks.push_back(Say(*a_, {.rank = rank, .world_size = 4, .incarnation = 70 + rank}));
  for (const SourceId& id : ranks) Steps(*a_, id, 0, 300);
  Merge(*a_, ranks[0], 0, 290);  // ten wait to be merged
  ASSERT_TRUE(a_->Settle().ok());
  for (const SourceId& id : ranks) Steps(*a_, id, 300, 310);
  Put(*a_, std::move(Records(ranks[0], 311).Event(309, wire::EventKind::kCheckpoint, "ckpt/309")));
  // A second attempt of one rank that goes back, and is sealed in part.
  const SourceId second = Say(*a_, {.attempt = "again", .incarnation = 5});
  Steps(*a_, second, 200, 320);
  const MetaEntry alert{"alert", "gpt", "id", "{\"alert\":1}"};
  ASSERT_TRUE(a_->PutMeta({&alert, 1}).ok());
  ASSERT_GT(a_->stats().sealed_frames, 1000u);

  const auto entries = Exported(*a_, "gpt");
  const auto outcome = Import(*b_, "gpt", entries);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 4u * 310 + 120);
  EXPECT_EQ(outcome->added.merged_frames, 290u);
  EXPECT_EQ(outcome->added.events, 1u);
  EXPECT_EQ(outcome->known.frames, 0u);
  ExpectSame();
  EXPECT_EQ(*b_->GetMeta("alert", "gpt", "id"), alert.value);
  EXPECT_EQ(b_->ReadEvents("gpt", "1")->size(), 1u);
  EXPECT_EQ(b_->UnmergedSteps()->size(), a_->UnmergedSteps()->size());
  EXPECT_EQ(b_->UnmergedSteps()->size(), 20u);
  ASSERT_TRUE(b_->Settle().ok());
  ExpectSame();

  const auto again = Import(*b_, "gpt", entries);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->added.frames + again->added.merged_frames + again->added.events + again->added.notes, 0u);
  EXPECT_EQ(again->known.frames, 4u * 310 + 120);
  ExpectSame();
  EXPECT_EQ(b_->UnmergedSteps()->size(), 20u);
  // What was sealed over there is the same archive here.
  EXPECT_EQ(Exported(*b_, "gpt").size(), entries.size());

  b_.reset();
  const auto check = CheckStore({.folder = to_.path() + "/store"});
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(check->faults, 0u) << (check->first_faults.empty() ? "" : check->first_faults[0]);
  b_ = OpenAt(to_);
  ExpectSame();
}

TEST_F(RunArchive, ItsSenderIsToldWhatIsThereAndRepeatsNothing) {
  const SourceId id = Say(*a_, {.incarnation = 9});
  Steps(*a_, id, 0, 100);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  auto hello = HelloOf("gpt", {.incarnation = 9});
  const auto there = b_->OpenSource(hello, 200);
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(there->durable_seq, 100u);
  Records more(there->id, 91);  // from 91 on: ten come again
  for (int64_t step = 90; step < 130; ++step) more.Frame(HeadsFrame(step, 0));
  const auto outcomes = b_->AppendRecords(more.list);
  ASSERT_TRUE(outcomes.ok());
  EXPECT_EQ(std::count(outcomes->begin(), outcomes->end(), AppendOutcome::kDuplicate), 10);
  EXPECT_EQ(AllFrames(*b_, "gpt").size(), 2u * 130);  // as rank 0 and as merged
  EXPECT_EQ(b_->GetRun("gpt")->newest().sources[0].gaps, 0u);
}

TEST_F(RunArchive, WhatCameLaterIsAddedByALaterArchive) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 100);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  Steps(*a_, id, 100, 250);
  const auto outcome = Import(*b_, "gpt", Exported(*a_, "gpt"));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->added.frames, 150u);
  EXPECT_EQ(outcome->known.frames, 100u);
  ExpectSame();
}

// Its frames are held against what it said last, where that is what the archive has.
TEST_F(RunArchive, AProcessThatSaidAChangedHelloHasItHere) {
  wire::Hello hello = HelloOf("gpt");
  const auto add_layer = [&](uint32_t index) {
    wire::Layer& layer = hello.model.layers.emplace_back();
    layer.layer = index;
    layer.query_heads = layer.kv_heads = 4;
    layer.head_dim = 8;
  };
  add_layer(0);
  add_layer(1);
  const SourceId id = a_->OpenSource(hello, 100)->id;
  Steps(*a_, id, 0, 10);
  const auto first = Exported(*a_, "gpt");
  Store::ImportRules rules;
  rules.check_frame = [](const wire::Hello& of, const wire::Frame& frame) {
    const bool fits = frame.step < 10 || of.model.layers.size() > 2;
    return fits ? OkStatus() : Status(Code::kInvalidArgument, "layer");
  };
  const auto import = [&](const std::vector<archive::Entry>& entries) {
    auto run = *b_->StartImport(BeginOf("gpt"), 13, rules);
    Status status;
    for (const archive::Entry& entry : entries) {
      if (status.ok()) status = run->Add(entry);
    }
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto outcome = run->Finish();
    return outcome.ok() ? outcome->added : RunImport::Counts{};
  };
  EXPECT_EQ(import(first).frames, 10u);
  add_layer(2);
  hello.unmonitored.push_back({"rotary", "not told"});
  hello.world_size = 2;
  ASSERT_TRUE(a_->OpenSource(hello, 200).ok());
  Steps(*a_, id, 10, 20);
  const RunImport::Counts added = import(Exported(*a_, "gpt"));
  EXPECT_EQ(added.frames, 10u);
  EXPECT_EQ(added.quarantined, 0u);
  hello.world_size = 1;  // a process that is here keeps its world
  EXPECT_EQ(*b_->GetRun("gpt")->newest().sources[0].hello, hello);
  EXPECT_EQ(import(first).frames, 0u);  // an older one takes nothing back
  b_.reset();
  b_ = OpenAt(to_);
  EXPECT_EQ(*b_->GetRun("gpt")->newest().sources[0].hello, hello);
}

TEST_F(RunArchive, TheSenderWentOnHereFirst) {
  const SourceId id = Say(*a_, {.world_size = 2, .incarnation = 4});
  const SourceId other = Say(*a_, {.rank = 1, .world_size = 2, .incarnation = 5});
  for (const SourceId& rank : {id, other}) Steps(*a_, rank, 0, 200);
  Merge(*a_, id, 0, 200);
  const SourceId there = Say(*b_, {.world_size = 2, .incarnation = 4});
  Steps(*b_, there, 200, 400);
  EXPECT_EQ(b_->GetSource(there)->gaps, 200u);
  ASSERT_TRUE(b_->Settle().ok());
  const auto outcome = Import(*b_, "gpt", Exported(*a_, "gpt"));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 400u);
  const auto source = b_->GetSource(there);
  EXPECT_EQ(source->durable_seq, 400u);
  EXPECT_EQ(source->frames, 400u);
  EXPECT_EQ(source->gaps, 0u);
  // Ranks' frames came to an attempt that was here: their steps are merged anew.
  EXPECT_EQ(b_->UnmergedSteps()->size(), 400u);
  const Everything all = AllFrames(*b_, "gpt");
  for (const auto& [key, frame] : AllFrames(*a_, "gpt")) EXPECT_EQ(all.at(key), frame);
}

TEST_F(RunArchive, BrokenOffAnywhereAndBegunAgain) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const SourceId id = Say(*a_, {.rank = rank, .world_size = 2, .incarnation = 7 + rank});
    Steps(*a_, id, 0, 90);
    if (rank == 1) Merge(*a_, id, 0, 90);
  }
  const auto entries = Exported(*a_, "gpt");
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    const Folder folder;
    auto store = OpenAt(folder);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(Import(*store, "gpt", entries, random() % entries.size()).ok());
    store.reset();
    store = OpenAt(folder);
    ASSERT_TRUE(Import(*store, "gpt", entries).ok());
    EXPECT_EQ(AllFrames(*a_, "gpt"), AllFrames(*store, "gpt"));
    for (size_t i = 0; i < 2; ++i) {
      const SourceInfo there = store->GetRun("gpt")->newest().sources[i],
                       here = a_->GetRun("gpt")->newest().sources[i];
      EXPECT_EQ(there.durable_seq, here.durable_seq);
      EXPECT_EQ(there.frames, here.frames);
      EXPECT_EQ(there.gaps, here.gaps);
    }
  }
}

TEST_F(RunArchive, FieldsOfANewerSenderAndPartsStayAsTheyCame) {
  const SourceId id = Say(*a_, {});
  Records records(id);
  for (int64_t step = 0; step < 200; ++step) records.Frame(HeadsFrame(step, 1));
  for (size_t i = 0; i < records.list.size(); i += 3)
    records.list[i].payload += std::string("\xf2\x3f\x02hi", 5);
  ASSERT_TRUE(a_->AppendRecords(records.list).ok());
  wire::Frame large = HeadsFrame(200, 1);
  for (uint32_t layer = 2; layer < 40; ++layer)
    large.series.push_back(HeadSeries(kLogitMax, layer, {1, 2, 3, 4}));
  large.seq = 201;
  Records parts(id, 201);
  for (wire::Frame& part : wire::SplitFrame(large, 300)) parts.Frame(std::move(part));
  ASSERT_GT(parts.list.size(), 2u);
  ASSERT_TRUE(a_->AppendRecords(parts.list).ok());
  const auto payloads = [](const Store& store) {
    std::vector<std::string> all;
    for (const archive::Entry& entry : Exported(store, "gpt")) {
      if (const auto* record = std::get_if<archive::Record>(&entry)) all.push_back(record->payload);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto before = payloads(*a_);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  EXPECT_EQ(payloads(*b_), before);
  ASSERT_TRUE(a_->Settle().ok());
  const auto sealed = payloads(*a_);
  EXPECT_EQ(std::count_if(sealed.begin(), sealed.end(), [](const auto& p) { return p.ends_with("hi"); }), 67);
  ASSERT_TRUE(b_->Settle().ok());
  EXPECT_EQ(payloads(*b_), sealed);
  // Parts here, the whole frame there.
  const auto again = Import(*b_, "gpt", Exported(*a_, "gpt"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->added.frames, 0u);
}

TEST_F(RunArchive, WhatIsHereFromOthersIsNotBroughtIntoAWrongOrder) {
  const SourceId first = Say(*a_, {.attempt = "one", .incarnation = 1});
  Steps(*a_, first, 0, 5);
  const SourceId second = Say(*a_, {.attempt = "two", .incarnation = 2});
  Steps(*a_, second, 5, 9);
  const SourceId there = Say(*b_, {.attempt = "two", .incarnation = 2});
  Steps(*b_, there, 9, 12);
  const auto entries = Exported(*a_, "gpt");
  EXPECT_EQ(Import(*b_, "gpt", entries).status().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(b_->DeleteRun("gpt").ok());
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  ExpectSame();
}

TEST_F(RunArchive, WhatNoServerCanHaveHadIsRefused) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 3);
  const auto good = Exported(*a_, "gpt");
  const auto code = [&](auto change) {
    auto entries = good;
    for (archive::Entry& entry : entries) change(entry);
    const Folder folder;
    const auto store = OpenAt(folder);
    const Code outcome = Import(*store, "gpt", entries).status().code();
    for (const RunInfo& run : store->ListRuns()) EXPECT_FALSE(run.attempts.empty());
    return outcome;
  };
  EXPECT_EQ(code([](archive::Entry&) {}), Code::kOk);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* a = std::get_if<archive::Attempt>(&e)) a->name = "/x";
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* p = std::get_if<archive::Process>(&e)) p->hello = "nonsense";
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* p = std::get_if<archive::Process>(&e)) p->hello = wire::Encode(HelloOf("another"));
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* r = std::get_if<archive::Record>(&e)) r->payload = "\x08";
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* r = std::get_if<archive::Record>(&e))
                r->payload = wire::Encode(wire::Frame());  // of number 0
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](archive::Entry& e) {
              if (auto* r = std::get_if<archive::Record>(&e)) r->place = {1, archive::kMergedRank, 0};
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(Import(*b_, "/gpt", good).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Import(*b_, "empty", {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(b_->CountRuns(), 0u);
  EXPECT_EQ(a_->ExportRun("nobody", 1, [](archive::Entry) { return OkStatus(); }).code(), Code::kNotFound);
  EXPECT_EQ(a_->ExportRun("gpt", 1, [](archive::Entry) { return Status(Code::kIo, "full"); }).code(),
            Code::kIo);
}

TEST_F(RunArchive, IsMarkedUntilItIsWhole) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 30);
  const auto entries = Exported(*a_, "gpt");
  const auto begun = [&] { return b_->GetMeta(kImportKind, "gpt", kImportBegun); };
  EXPECT_EQ(Import(*b_, "gpt", entries, entries.size() / 2).status().code(), Code::kUnavailable);
  ASSERT_TRUE(begun().ok());
  EXPECT_EQ(*begun(), "13");
  b_.reset();
  b_ = OpenAt(to_);  // a restart does not forget it
  ASSERT_TRUE(begun().ok());
  // It is no part of the run.
  for (const archive::Entry& entry : Exported(*b_, "gpt")) {
    const auto* note = std::get_if<archive::Note>(&entry);
    EXPECT_FALSE(note != nullptr && note->kind == kImportKind);
  }
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  EXPECT_EQ(begun().status().code(), Code::kNotFound);
  // A repetition that adds nothing leaves no mark, broken off or not; one that adds something does.
  EXPECT_EQ(Import(*b_, "gpt", entries, entries.size() - 1).status().code(), Code::kUnavailable);
  EXPECT_EQ(begun().status().code(), Code::kNotFound);
  EXPECT_EQ(AllFrames(*b_, "gpt"), AllFrames(*a_, "gpt"));
}

// An archive may come from anyone: what its server's door would have refused is put aside, as there.
TEST_F(RunArchive, FramesThatDoNotFitAreQuarantined) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 30);
  const auto entries = Exported(*a_, "gpt");
  const auto check = [](const wire::Hello& hello, const wire::Frame& frame) {
    EXPECT_EQ(hello.run, "gpt");
    return frame.step < 20 ? OkStatus() : Status(Code::kInvalidArgument, "too far");
  };
  for (int i = 0; i < 2; ++i) {
    Store::ImportRules rules;
    rules.check_frame = check;
    auto import = *b_->StartImport(BeginOf("gpt"), 1, std::move(rules));
    for (const archive::Entry& entry : entries) ASSERT_TRUE(import->Add(entry).ok());
    const auto outcome = import->Finish();
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->added.frames, i == 0 ? 20u : 0u);
    EXPECT_EQ(outcome->added.quarantined, i == 0 ? 10u : 0u);
    EXPECT_EQ(outcome->known.quarantined, i == 0 ? 0u : 10u);
  }
  EXPECT_EQ(AllFrames(*b_, "gpt").size(), 2 * 20u);  // of the rank, and as the steps over all of one
}

TEST_F(RunArchive, ANoteThatMustHoldTakesThePlaceOfOneHere) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 1);
  const MetaEntry weak[] = {{"action", "gpt", "x", "a"}}, strong[] = {{"action", "gpt", "x", "b"}};
  const auto import = [&] {
    Store::ImportRules rules;
    rules.supersedes = [](std::string_view kind, const std::string& one, const std::string& other) {
      return kind == "action" && one < other;
    };
    auto coming = *b_->StartImport(BeginOf("gpt"), 1, std::move(rules));
    for (const archive::Entry& entry : Exported(*a_, "gpt")) EXPECT_TRUE(coming->Add(entry).ok());
    EXPECT_TRUE(coming->Finish().ok());
    return *b_->GetMeta("action", "gpt", "x");
  };
  ASSERT_TRUE(a_->PutMeta(weak).ok());
  EXPECT_EQ(import(), "a");
  ASSERT_TRUE(a_->PutMeta(strong).ok());
  EXPECT_EQ(import(), "b");
  ASSERT_TRUE(a_->PutMeta(weak).ok());
  EXPECT_EQ(import(), "b");
}

TEST_F(RunArchive, NotesAreBounded) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 1);
  auto import = *b_->StartImport(BeginOf("gpt"), 1);
  for (const archive::Entry& entry : Exported(*a_, "gpt")) ASSERT_TRUE(import->Add(entry).ok());
  Status status;
  int taken = 0;
  for (; status.ok() && taken < 100; ++taken)
    status = import->Add(archive::Note{"alert", std::to_string(taken), std::string(8u << 20, 'x'), true});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(taken, 32);
}

TEST_F(RunArchive, DeletedWhileItIsImported) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 3);
  const auto entries = Exported(*a_, "gpt");
  auto import = *b_->StartImport(BeginOf("gpt"), 1);
  for (const archive::Entry& entry : entries) {
    if (std::holds_alternative<archive::Counters>(entry)) break;
    ASSERT_TRUE(import->Add(entry).ok());
  }
  ASSERT_TRUE(b_->DeleteRun("gpt").ok());
  EXPECT_EQ(import->Finish().status().code(), Code::kNotFound);
  EXPECT_EQ(b_->CountRuns(), 0u);
}

// As a sender does that goes on while its run is moved: the record is told to both servers.
void Send(Store& store, const test::HelloFields& fields, int64_t from, int64_t to) {
  auto hello = HelloOf("gpt", fields);
  const auto source = store.OpenSource(hello, 300);
  ASSERT_TRUE(source.ok());
  Records records(source->id, static_cast<uint64_t>(from + 1));
  for (int64_t step = from; step < to; ++step) records.Frame(HeadsFrame(step, fields.rank));
  ASSERT_TRUE(store.AppendRecords(records.list).ok());
}

// Every number of a process once, however often its step was written.
void ExpectOnce(const Store& store, uint64_t from, uint64_t to) {
  std::vector<uint64_t> seqs;
  for (const archive::Entry& entry : Exported(store, "gpt")) {
    const auto* record = std::get_if<archive::Record>(&entry);
    const bool frame = record != nullptr && record->kind == archive::RecordKind::kFrame;
    if (frame && record->place.rank != archive::kMergedRank)
      seqs.push_back(wire::DecodeFrame(record->payload)->seq);
  }
  std::sort(seqs.begin(), seqs.end());
  std::vector<uint64_t> expected;
  for (uint64_t seq = from; seq <= to; ++seq) expected.push_back(seq);
  EXPECT_EQ(seqs, expected);
}

// The export is of one moment: what comes while it is read is left to the next one. So no number can come
// from the archive and from a sender that went on here.
TEST_F(RunArchive, AnArchiveHasNothingAboveItsDurableNumbers) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 100);
  bool more = true;
  std::vector<archive::Entry> entries;
  const auto each = [&](archive::Entry entry) {
    if (std::holds_alternative<archive::Process>(entry) && std::exchange(more, false)) {
      Steps(*a_, id, 100, 200);
      Put(*a_, std::move(Records(id, 201).Event(199)));
      EXPECT_TRUE(a_->Settle().ok());
    }
    entries.push_back(std::move(entry));
    return OkStatus();
  };
  ASSERT_TRUE(a_->ExportRun("gpt", 3'000, each).ok());
  auto import = *b_->StartImport(BeginOf("gpt"), 13);
  for (const archive::Entry& entry : entries) {
    ASSERT_TRUE(import->Add(entry).ok());
    if (!std::holds_alternative<archive::Process>(entry)) continue;
    Send(*b_, {}, 100, 200);  // it is told 100
    ASSERT_TRUE(b_->Settle().ok());
  }
  ASSERT_TRUE(import->Finish().ok());
  ASSERT_TRUE(b_->Settle().ok());
  ExpectOnce(*b_, 1, 200);
  const SourceInfo source = b_->GetRun("gpt")->newest().sources[0];
  EXPECT_EQ(source.durable_seq, 200u);
  EXPECT_EQ(source.frames, 200u);
  EXPECT_EQ(source.gaps + source.duplicates, 0u);
  // The next one brings the event alone.
  const auto next = Import(*b_, "gpt", Exported(*a_, "gpt"));
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->added.frames, 0u);
  EXPECT_EQ(next->added.events, 1u);
  ExpectOnce(*b_, 1, 200);
  // Numbers that nobody exports are refused.
  for (archive::Entry& entry : entries) {
    auto* process = std::get_if<archive::Process>(&entry);
    if (process != nullptr) process->counters.clear();
  }
  const Folder folder;
  EXPECT_EQ(Import(*OpenAt(folder), "gpt", entries).status().code(), Code::kInvalidArgument);
}

TEST_F(RunArchive, WhatComesWhileItsProcessIsImportedIsStoredOnce) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 50);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  Steps(*a_, id, 50, 200);
  auto import = *b_->StartImport(BeginOf("gpt"), 13);
  bool sent = false;
  for (const archive::Entry& entry : Exported(*a_, "gpt")) {
    ASSERT_TRUE(import->Add(entry).ok());
    if (!std::holds_alternative<archive::Record>(entry) || std::exchange(sent, true)) continue;
    Send(*b_, {}, 50, 150);  // which has them still, and is told that they need not come
    ASSERT_TRUE(b_->Settle().ok());
  }
  ASSERT_TRUE(import->Finish().ok());
  Send(*b_, {}, 200, 230);
  ASSERT_TRUE(b_->Settle().ok());
  ExpectOnce(*b_, 1, 230);
  const SourceInfo source = b_->GetRun("gpt")->newest().sources[0];
  EXPECT_EQ(source.frames, 230u);
  EXPECT_EQ(source.gaps, 0u);
  EXPECT_EQ(source.duplicates, 100u);
}

constexpr int64_t kMinuteNs = 60'000'000'000;

// A step of rank 0 in several parts, behind 30 others.
class RunArchiveOfParts : public RunArchive {
 protected:
  RunArchiveOfParts() : id_(Say(*a_, {})), parts_(id_, 31) {
    Steps(*a_, id_, 0, 30);
    wire::Frame large = HeadsFrame(30, 0);
    for (uint32_t layer = 2; layer < 40; ++layer)
      large.series.push_back(HeadSeries(kLogitMax, layer, {1, 2, 3, 4}));
    parts_.Split(large, 1000);
    EXPECT_GT(parts_.list.size(), 2u);
    PutParts(*a_, 0, 2);
  }
  void PutParts(Store& store, size_t from, size_t to) {
    EXPECT_TRUE(store.AppendRecords(std::span(parts_.list).subspan(from, to - from)).ok());
  }
  // The archive of an export in whose midst the other parts come, and then the sealer.
  Result<std::vector<archive::Entry>> ExportedWhileTheRestComes(int64_t now_unix_ns) {
    bool more = true;
    std::vector<archive::Entry> entries;
    FS_RETURN_IF_ERROR(a_->ExportRun("gpt", now_unix_ns, [&](archive::Entry entry) {
      if (std::holds_alternative<archive::Process>(entry) && std::exchange(more, false)) {
        PutParts(*a_, 2, parts_.list.size());
        Records later(id_, parts_.list.back().head.seq + 1);
        for (int64_t step = 31; step < 90; ++step) later.Frame(HeadsFrame(step, 0));
        Put(*a_, std::move(later));
        EXPECT_TRUE(a_->Settle().ok());
      }
      entries.push_back(std::move(entry));
      return OkStatus();
    }));
    return entries;
  }

  const SourceId id_;
  Records parts_;
};

TEST_F(RunArchiveOfParts, AFrameOfWhichPartsAreToComeIsLeftToTheNextArchive) {
  const auto entries = ExportedWhileTheRestComes(3'000);
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  ASSERT_TRUE(Import(*b_, "gpt", *entries).ok());
  const auto there = b_->OpenSource(HelloOf("gpt"), 300);
  EXPECT_EQ(there->durable_seq, 30u);
  EXPECT_EQ(there->frames, 30u);
  PutParts(*b_, 0, parts_.list.size());
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  ASSERT_TRUE(b_->Settle().ok());
  EXPECT_EQ(AllFrames(*a_, "gpt"), AllFrames(*b_, "gpt"));
}

// A process that died between two parts: what came of the frame is all there is.
TEST_F(RunArchiveOfParts, OneThatWillNotBeFinishedIsGivenAsItIs) {
  const auto entries = Exported(*a_, "gpt", 3'000 + kMinuteNs);
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  ExpectSame();
  EXPECT_EQ(b_->GetRun("gpt")->newest().sources[0].durable_seq, 32u);
  // And should it finish the frame after all, just then, there is no number to be told.
  EXPECT_EQ(ExportedWhileTheRestComes(3'000 + kMinuteNs).status().code(), Code::kUnavailable);
}

// The process, which is new here, finishes the frame here after all while it is imported, and goes on until
// what came of it is set aside.
TEST_F(RunArchiveOfParts, OneThatIsFinishedHereWhileItsProcessIsImportedBecomesWhole) {
  const auto entries = Exported(*a_, "gpt", 3'000 + kMinuteNs);
  auto import = *b_->StartImport(BeginOf("gpt"), 13);
  for (const archive::Entry& entry : entries) {
    ASSERT_TRUE(import->Add(entry).ok());
    if (!std::holds_alternative<archive::Process>(entry)) continue;
    PutParts(*b_, 2, parts_.list.size());
    Records later(id_, parts_.list.back().head.seq + 1);
    for (int64_t step = 31; step < 150; ++step) later.Frame(HeadsFrame(step, 0));
    Put(*b_, std::move(later));
    ASSERT_TRUE(b_->Settle().ok());
  }
  ASSERT_TRUE(import->Finish().ok());
  for (const bool settled : {false, true}) {
    if (settled) {
      ASSERT_TRUE(b_->Settle().ok());
    }
    const Everything all = AllFrames(*b_, "gpt");
    EXPECT_EQ(all.size(), 2u * 150);  // as rank 0 and as merged
    for (const auto& [key, payload] : all) {
      const auto frame = wire::DecodeFrame(payload);
      EXPECT_LE(frame->parts, 1u) << frame->step;
      EXPECT_EQ(frame->series.size(), frame->step == 30 ? 40u : 2u) << frame->step;
    }
  }
  const SourceInfo source = b_->GetRun("gpt")->newest().sources[0];
  EXPECT_EQ(source.frames, source.durable_seq);
  EXPECT_EQ(source.gaps, 0u);
}

// A sender changed servers between two parts of a frame: its first parts are there, the others here.
class RunArchiveOfTornFrame : public RunArchiveOfParts {
 protected:
  RunArchiveOfTornFrame() {
    // The first move, while the frame is under way: none of it is in the archive.
    EXPECT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
    PutParts(*b_, 2, parts_.list.size());
    Records later(id_, parts_.list.back().head.seq + 1);
    for (int64_t step = 31; step < 35; ++step) later.Frame(HeadsFrame(step, 0));
    Put(*b_, std::move(later));
  }
  // Of a time when nothing more comes: with the parts as they are.
  std::vector<archive::Entry> Later() const { return Exported(*a_, "gpt", 3'000 + kMinuteNs); }
  Everything OfRank() const {
    Everything all = AllFrames(*b_, "gpt");
    std::erase_if(all, [](const auto& entry) { return std::get<1>(entry.first) != 0; });  // merged: the same
    return all;
  }
  void ExpectWhole() {
    const Everything all = OfRank();
    size_t of_step = 0;
    for (const auto& [key, payload] : all) {
      if (std::get<3>(key) != 30) continue;
      ++of_step;
      const auto frame = wire::DecodeFrame(payload);
      EXPECT_LE(frame->parts, 1u);
      EXPECT_EQ(frame->series.size(), 40u);
    }
    EXPECT_EQ(of_step, 1u);
    EXPECT_EQ(all.size(), 35u);
  }
};

TEST_F(RunArchiveOfTornFrame, PartsOfTwoServersBecomeOneFrame) {
  const auto outcome = Import(*b_, "gpt", Later());
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 2u);
  ExpectWhole();
  const SourceInfo source = b_->GetRun("gpt")->newest().sources[0];
  EXPECT_EQ(source.gaps, 0u);
  EXPECT_EQ(source.frames, source.durable_seq);
  EXPECT_EQ(Import(*b_, "gpt", Later())->added.frames, 0u);
  ASSERT_TRUE(b_->Settle().ok());
  ExpectWhole();
}

TEST_F(RunArchiveOfTornFrame, AlsoWhereThePartsHereWereSetAside) {
  Records later(id_, parts_.list.back().head.seq + 5);
  for (int64_t step = 35; step < 150; ++step) later.Frame(HeadsFrame(step, 0));
  Put(*b_, std::move(later));
  ASSERT_TRUE(b_->Settle().ok());
  const auto outcome = Import(*b_, "gpt", Later());
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 2u);
  const Everything whole = OfRank();
  ASSERT_EQ(whole.size(), 150u);
  for (const auto& [key, payload] : whole)
    EXPECT_LE(wire::DecodeFrame(payload)->parts, 1u) << std::get<3>(key);
  ASSERT_TRUE(b_->Settle().ok());
  EXPECT_EQ(OfRank(), whole);
}

TEST_F(RunArchiveOfTornFrame, PartsThatNoReaderJoinsAreNotAllOfIt) {
  const Folder folder;
  StoreOptions options;
  options.folder = folder.path() + "/store";
  const auto database = *Database::Open(options);
  const auto put = [&](size_t part, std::optional<uint32_t> seal) {
    const Append& record = parts_.list[part];
    Batch batch;
    const Table table = seal ? Table::kKept : Table::kFrame;
    batch.Put(FrameKey(table, id_, 30, record.head.seq),
              seal ? KeptValue(*seal, record.payload) : record.payload);
    ASSERT_TRUE(database->Write(batch, true).ok());
  };
  const auto find = [&] { return *FindPartsHere(*database->Look(), id_, 30, 31); };
  EXPECT_FALSE(find().any);
  const size_t count = parts_.list.size();
  for (size_t part = 0; part < count; ++part) {
    if (part == 0) put(part, std::nullopt);
    if (part == 1) put(part, 3);
    if (part > 1) put(part, 4);
  }
  const PartsHere here = find();
  EXPECT_TRUE(here.any && here.open);
  EXPECT_EQ(here.seal, 4u);
  EXPECT_FALSE(here.all);
  for (size_t part = 0; part < 2; ++part) put(part, 4);
  EXPECT_TRUE(find().all);
}

TEST_F(RunArchiveOfTornFrame, AWholeFrameIsNotKnownByAPartOfIt) {
  // There its last parts came after all, and it was sealed: it stands whole, by the number of its first part.
  PutParts(*a_, 2, parts_.list.size());
  Records later(id_, parts_.list.back().head.seq + 1);
  for (int64_t step = 31; step < 120; ++step) later.Frame(HeadsFrame(step, 0));
  Put(*a_, std::move(later));
  ASSERT_TRUE(a_->Settle().ok());
  for (const bool set_aside : {false, true}) {
    const Folder folder;
    b_ = OpenAt(folder);
    const SourceId id = Say(*b_, {});
    Steps(*b_, id, 0, 30);
    PutParts(*b_, 0, 1);  // by the number of the whole frame
    Records behind(id, parts_.list.back().head.seq + 1);
    for (int64_t step = 31; step < (set_aside ? 120 : 35); ++step) behind.Frame(HeadsFrame(step, 0));
    Put(*b_, std::move(behind));
    if (set_aside) {
      ASSERT_TRUE(b_->Settle().ok());
    }
    const auto outcome = Import(*b_, "gpt", Exported(*a_, "gpt"));
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(AllFrames(*b_, "gpt"), AllFrames(*a_, "gpt")) << set_aside;
    EXPECT_EQ(Import(*b_, "gpt", Exported(*a_, "gpt"))->added.frames, 0u) << set_aside;
    ASSERT_TRUE(b_->Settle().ok());
    EXPECT_EQ(AllFrames(*b_, "gpt"), AllFrames(*a_, "gpt")) << set_aside;
    b_.reset();
  }
}

// The process sent a step again, and changed servers behind that.
TEST_F(RunArchive, AStepThatWasSentAgainThereHolds) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 150);
  const auto before = Exported(*a_, "gpt");
  Records again(id, 151);
  for (int64_t step = 140; step < 145; ++step) again.Frame(HeadsFrame(step, 7));
  Put(*a_, std::move(again));
  for (const bool sealed : {false, true}) {
    const Folder folder;
    b_ = OpenAt(folder);
    ASSERT_TRUE(Import(*b_, "gpt", before).ok());
    Records on(Say(*b_, {}), 156);
    for (int64_t step = 145; step < 250; ++step) on.Frame(HeadsFrame(step, 9));  // sent again, too
    Put(*b_, std::move(on));
    if (sealed) {
      ASSERT_TRUE(b_->Settle().ok());
    }
    ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
    for (const bool settled : {false, true}) {
      if (settled) {
        ASSERT_TRUE(b_->Settle().ok());
      }
      std::map<int64_t, uint64_t> seqs;
      for (const auto& [key, payload] : AllFrames(*b_, "gpt")) seqs[std::get<3>(key)] = std::get<4>(key);
      for (int64_t step = 140; step < 145; ++step) EXPECT_EQ(seqs[step], static_cast<uint64_t>(step + 11));
      EXPECT_EQ(seqs[139], 140u);
      EXPECT_EQ(seqs[145], 156u);
    }
    b_.reset();
  }
}

// All parts of the earlier of two frames of a step come with one write.
TEST_F(RunArchive, PartsOfAFrameThatWasSentAgainHereStayBehind) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 100);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  wire::Frame large = HeadsFrame(100, 3);
  for (uint32_t layer = 2; layer < 40; ++layer)
    large.series.push_back(HeadSeries(kLogitMax, layer, {1, 2, 3, 4}));
  Records parts(id, 101);
  parts.Split(large, 1000);
  const uint64_t last = parts.list.back().head.seq;
  ASSERT_GT(last, 103u);
  Put(*a_, std::move(parts));
  Records on(Say(*b_, {}), last + 1);
  for (int64_t step = 100; step < 250; ++step) on.Frame(HeadsFrame(step, 9));
  Put(*b_, std::move(on));
  ASSERT_TRUE(b_->Settle().ok());
  const Everything before = AllFrames(*b_, "gpt");
  const auto outcome = Import(*b_, "gpt", Exported(*a_, "gpt"));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, last - 100);
  EXPECT_EQ(AllFrames(*b_, "gpt"), before);
  ASSERT_TRUE(b_->Settle().ok());
  EXPECT_EQ(AllFrames(*b_, "gpt"), before);
  EXPECT_EQ(Import(*b_, "gpt", Exported(*a_, "gpt"))->added.frames, 0u);
}

// Merged here of one rank, while the archive's step of both is on its way.
TEST_F(RunArchive, AStepThatIsMergedHereMeanwhileIsMergedAnew) {
  const SourceId first = Say(*a_, {.world_size = 2, .incarnation = 1});
  const SourceId second = Say(*a_, {.rank = 1, .world_size = 2, .incarnation = 2});
  Steps(*a_, first, 0, 40);
  Steps(*a_, second, 0, 40);
  Merge(*a_, first, 0, 40);
  auto import = *b_->StartImport(BeginOf("gpt"), 13);
  bool merged = false;
  for (const archive::Entry& entry : Exported(*a_, "gpt")) {
    const auto* record = std::get_if<archive::Record>(&entry);
    if (record != nullptr && !std::exchange(merged, true)) {
      const auto here = std::make_shared<const wire::Frame>(HeadsFrame(7, 5));
      ASSERT_TRUE(b_->PutMerged(b_->GetRun("gpt")->newest().sources[0].id, here, false, b_->Stamp()).ok());
    }
    ASSERT_TRUE(import->Add(entry).ok());
  }
  const auto outcome = import->Finish();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->added.merged_frames, 39u);
  EXPECT_EQ(outcome->known.merged_frames, 1u);
  const auto left = *b_->UnmergedSteps();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].step, 7);
}

TEST_F(RunArchive, AMergedFrameThatDoesNotFitIsMergedAnew) {
  const SourceId first = Say(*a_, {.world_size = 2, .incarnation = 1});
  const SourceId second = Say(*a_, {.rank = 1, .world_size = 2, .incarnation = 2});
  Steps(*a_, first, 0, 40);
  Steps(*a_, second, 0, 40);
  Merge(*a_, first, 0, 40);
  Store::ImportRules rules;
  rules.check_frame = [](const wire::Hello&, const wire::Frame& frame) {
    return frame.seq > 0 || frame.step < 38 ? OkStatus() : Status(Code::kInvalidArgument, "strange");
  };
  auto import = *b_->StartImport(BeginOf("gpt"), 13, rules);
  for (const archive::Entry& entry : Exported(*a_, "gpt")) ASSERT_TRUE(import->Add(entry).ok());
  EXPECT_EQ(import->Finish()->added.merged_frames, 38u);
  const auto left = *b_->UnmergedSteps();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].step, 38);
}

TEST_F(RunArchive, CountersAreNotBelievedWhatOthersCannotCalculateWith) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 5, 30);
  SourceInfo liar = *a_->GetSource(id);
  liar.first_step = std::numeric_limits<int64_t>::min();
  liar.last_step = std::numeric_limits<int64_t>::max();
  liar.first_unix_ns = liar.last_unix_ns = std::numeric_limits<int64_t>::max();
  auto entries = Exported(*a_, "gpt");
  for (archive::Entry& entry : entries) {
    if (auto* process = std::get_if<archive::Process>(&entry)) {
      process->counters = EncodeCounters(liar);
      process->first_unix_ns = std::numeric_limits<int64_t>::min();
    }
    if (auto* counters = std::get_if<archive::Counters>(&entry)) counters->counters = EncodeCounters(liar);
  }
  Store::ImportRules rules;
  rules.first_step = 0;
  rules.last_step = 1000;
  auto import = *b_->StartImport(BeginOf("gpt"), 13, rules);
  for (const archive::Entry& entry : entries) ASSERT_TRUE(import->Add(entry).ok());
  ASSERT_TRUE(import->Finish().ok());
  const SourceInfo source = b_->GetRun("gpt")->newest().sources[0];
  EXPECT_EQ(source.first_step, 5);
  EXPECT_EQ(source.last_step, 29);
  EXPECT_EQ(source.first_unix_ns, 0);
  EXPECT_LE(source.last_unix_ns, 13 + 86'400 * int64_t{1'000'000'000});
}

TEST_F(RunArchive, WhatStandsTwiceIsRefused) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 3);
  const auto entries = Exported(*a_, "gpt");
  const auto with = [&](auto change) {
    const Folder folder;
    const auto store = OpenAt(folder);
    auto import = *store->StartImport(BeginOf("gpt"), 13);
    Status status;
    for (const archive::Entry& entry : entries) {
      if (status.ok()) status = import->Add(entry);
      archive::Entry again = entry;
      if (status.ok() && change(again)) status = import->Add(again);
    }
    return status.code();
  };
  EXPECT_EQ(with([](archive::Entry&) { return false; }), Code::kOk);
  EXPECT_EQ(with([](archive::Entry& entry) {
              auto* attempt = std::get_if<archive::Attempt>(&entry);
              if (attempt != nullptr) attempt->number = 9;
              return attempt != nullptr;
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(with([](archive::Entry& entry) {
              auto* process = std::get_if<archive::Process>(&entry);
              if (process != nullptr) process->place.process = 9;
              return process != nullptr;
            }),
            Code::kInvalidArgument);
}

// Many processes are not as many synced writes.
TEST_F(RunArchive, ProcessesAreWrittenTogether) {
  for (uint64_t incarnation = 1; incarnation <= 300; ++incarnation) {
    const SourceId id = Say(*a_, {.incarnation = incarnation});
    Put(*a_, std::move(Records(id).Frame(HeadsFrame(static_cast<int64_t>(incarnation), 0))));
  }
  const auto entries = Exported(*a_, "gpt");
  const uint64_t before = b_->stats().synced_writes;
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  EXPECT_LT(b_->stats().synced_writes - before, 10u);
  ExpectSame();
}

class Hears final : public Observer {
 public:
  void OnFrame(const Origin&, const std::shared_ptr<const wire::Frame>&) override { ++frames; }
  void OnSource(const Origin&, const wire::Hello&) override { ++sources; }
  void OnRunImported(const std::string& run) override { imported.push_back(run); }
  int frames = 0, sources = 0;
  std::vector<std::string> imported;
};

TEST_F(RunArchive, AStepThatIsMergedDuringTheExportIsMergedOrMarked) {
  std::vector<SourceId> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(Say(*a_, {.rank = rank, .world_size = 2, .incarnation = 70 + rank}));
    Steps(*a_, ranks[rank], 0, 10);
  }
  Merge(*a_, ranks[0], 0, 9);  // step 9 waits
  Put(*a_, std::move(Records(ranks[0], 11).Event(9, wire::EventKind::kCheckpoint, "here")));
  ASSERT_EQ(a_->UnmergedSteps()->size(), 1u);
  std::vector<archive::Entry> entries;
  bool merged = false;
  const auto take = [&](archive::Entry entry) {
    const auto* record = std::get_if<archive::Record>(&entry);
    // Behind the merged frames and before the marks, the merger ends on its thread.
    if (record != nullptr && record->kind == archive::RecordKind::kEvent && !merged) {
      merged = true;
      Merge(*a_, ranks[0], 9, 10);
    }
    entries.push_back(std::move(entry));
    return OkStatus();
  };
  ASSERT_TRUE(a_->ExportRun("gpt", 3'000, take).ok());
  ASSERT_TRUE(merged);
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  bool there = false;
  const FrameQuery all{.run = "gpt", .attempt = "1", .rank = kMerged};
  ASSERT_TRUE(b_->ReadFrames(all, [&](StoredFrame stored) {
                  there = there || stored.frame.step == 9;
                  return true;
                }).ok());
  EXPECT_TRUE(there || b_->UnmergedSteps()->size() == 1u);
}

// How many entries of the database this thread passes while it does something.
uint64_t EntriesRead(const std::function<void()>& something) {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  something();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  return rocksdb::get_perf_context()->internal_key_skipped_count;
}

TEST_F(RunArchive, ManyPartsOfAFrameAreNotReadForEachOther) {
  const SourceId id = Say(*a_, {});
  wire::Frame large = HeadsFrame(0, 1);
  for (uint32_t layer = 2; layer < 2'000; ++layer)
    large.series.push_back(HeadSeries(kLogitMax, layer, {1, 2, 3, 4}));
  Records parts(id);
  parts.Split(large, 1);
  ASSERT_EQ(parts.list.size(), 2'000u);
  Records first = parts, later(id, 2'001);
  first.list.resize(1'000);
  later.Frame(HeadsFrame(1, 1));
  for (Records* records : {&parts, &later}) Put(*a_, std::move(*records));
  Say(*b_, {});
  Put(*b_, std::move(first));
  const auto entries = Exported(*a_, "gpt");
  const uint64_t read = EntriesRead([&] {
    const auto outcome = Import(*b_, "gpt", entries);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->added.frames, 1'001u);
  });
  EXPECT_LT(read, 10'000u);
  ExpectSame();
}

TEST_F(RunArchive, AFrameOfMorePartsThanAnyHasIsQuarantined) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 2);
  auto entries = Exported(*a_, "gpt");
  for (archive::Entry& entry : entries) {
    auto* record = std::get_if<archive::Record>(&entry);
    if (record == nullptr) continue;
    wire::Frame frame = *wire::DecodeFrame(record->payload);
    frame.parts = frame.step == 0 ? 4'096 : 4'097;
    record->payload = wire::Encode(frame);
  }
  const auto outcome = Import(*b_, "gpt", entries);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 1u);
  EXPECT_EQ(outcome->added.quarantined, 1u);
  const auto quarantined = b_->ReadQuarantine("gpt", 10);
  ASSERT_EQ(quarantined->size(), 1u);
  EXPECT_EQ(quarantined->front().reason, "parts: 4097, at most 4096");
}

// To learn which of two frames of a step holds.
TEST_F(RunArchive, ValuesOfWhatIsHereAreNotReadForItsNumber) {
  const auto wide = [](const SourceId& id, uint64_t seq, float value) {
    Records records(id, seq);
    for (int64_t step = 0; step < 80; ++step) {
      wire::Frame frame = HeadsFrame(step, 1);
      for (uint32_t layer = 2; layer < 100; ++layer)
        frame.series.push_back(HeadSeries(kLogitMax, layer, {value, 2, 3, 4}));
      records.Frame(std::move(frame));
    }
    return records;
  };
  const SourceId id = Say(*a_, {});
  Put(*a_, wide(id, 1, 0.7f));
  Put(*b_, wide(Say(*b_, {}), 81, 0.3f));
  ASSERT_TRUE(b_->Settle().ok());
  const auto entries = Exported(*a_, "gpt");
  const uint64_t read = EntriesRead([&] {
    const auto outcome = Import(*b_, "gpt", entries);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->added.frames, 80u);
  });
  EXPECT_LT(read, 2'000u);
  for (const auto& [key, frame] : AllFrames(*b_, "gpt")) EXPECT_GT(std::get<4>(key), 80u);
}

TEST_F(RunArchive, WhatIsKeptIsNotReadForEveryPageOfOpenFrames) {
  a_.reset();
  StoreOptions options;
  options.folder = from_.path() + "/store";
  auto opened = Database::Open(options);
  ASSERT_TRUE(opened.ok());
  auto store = std::make_unique<StoreImpl>(std::move(opened).value(), options);  // without its sealer
  ASSERT_TRUE(store->Load().ok());
  const SourceId id = Say(*store, {});
  wire::Frame wide = HeadsFrame(0, 1);
  for (uint32_t layer = 2; layer < 10; ++layer)
    wide.series.push_back(HeadSeries(kLogitMax, layer, std::vector<float>(12'288, 1)));
  uint64_t seq = 0;
  const auto put = [&](wire::Frame frame) {
    Records one(id, ++seq);
    one.Frame(std::move(frame));
    Put(*store, std::move(one));
  };
  for (int again = 0; again < 2; ++again) {  // which sets aside what was there
    for (int64_t step = 0; step < 400; ++step) put(HeadsFrame(step, 1));
  }
  ASSERT_TRUE(store->Settle().ok());
  for (wide.step = 400; wide.step < 500; ++wide.step) put(wide);
  std::vector<archive::Entry> entries;
  const uint64_t read = EntriesRead([&] { entries = Exported(*store, "gpt"); });
  EXPECT_LT(read, 2'500u);
  a_ = std::move(store);
  ASSERT_TRUE(Import(*b_, "gpt", entries).ok());
  EXPECT_TRUE(AllFrames(*b_, "gpt") == AllFrames(*a_, "gpt"));
}

// A taker may take minutes over an entry. Meanwhile the database may have to be closed and opened again, and
// the space of what is deleted is wanted.
TEST_F(RunArchive, NothingIsHeldWhileItIsTaken) {
  a_.reset();
  StoreOptions options;
  options.folder = from_.path() + "/store";
  auto opened = Database::Open(options);
  ASSERT_TRUE(opened.ok());
  const Database* database = opened->get();
  auto store = std::make_unique<StoreImpl>(std::move(opened).value(), options);  // without its sealer
  ASSERT_TRUE(store->Load().ok());
  const SourceId id = Say(*store, {});
  wire::Frame wide = HeadsFrame(0, 1);
  wide.series.push_back(HeadSeries(kLogitMax, 2, std::vector<float>(12'288, 1)));
  for (wide.step = 0; wide.step < 300; ++wide.step) {
    Records one(id, static_cast<uint64_t>(wide.step + 1));
    one.Frame(wide);
    ASSERT_TRUE(store->AppendRecords(one.list).ok());
  }
  Records others(id, 301);
  for (int64_t i = 0; i < 1'500; ++i)
    others.Event(i / 5, wire::EventKind::kNote, std::string(4'000, static_cast<char>('a' + i % 7)));
  ASSERT_TRUE(store->AppendRecords(others.list).ok());
  const MetaEntry alert{"alert", "gpt", "id", "{\"alert\":1}"};
  ASSERT_TRUE(store->PutMeta({&alert, 1}).ok());

  uint64_t most_looks = 0;
  std::vector<archive::Entry> entries;
  bool sealed = false;
  ASSERT_TRUE(store
                  ->ExportRun("gpt", 3'000,
                              [&](archive::Entry entry) {
                                most_looks =
                                    std::max(most_looks, database->IntProperty("rocksdb.num-snapshots"));
                                const bool record = std::holds_alternative<archive::Record>(entry);
                                entries.push_back(std::move(entry));
                                // What was to be given next is elsewhere then.
                                return record && !std::exchange(sealed, true) ? store->Settle() : OkStatus();
                              })
                  .ok());
  EXPECT_EQ(most_looks, 0u);
  a_ = std::move(store);
  const auto outcome = Import(*b_, "gpt", entries);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  ASSERT_TRUE(b_->Settle().ok());
  EXPECT_EQ(AllFrames(*a_, "gpt"), AllFrames(*b_, "gpt"));
  EXPECT_EQ(b_->ReadEvents("gpt", "", 0, 1'000)->size(), 1'500u);
}

// Step 5, in parts of nearly 4 MiB, from number 6 on.
Records LargeParts(const SourceId& id) {
  wire::Frame large = HeadsFrame(5, 1);
  for (uint32_t layer = 2; layer < 62; ++layer)
    large.series.push_back(HeadSeries(kLogitMax, layer, std::vector<float>(45'000, 1)));
  Records parts(id, 6);
  parts.Split(large, wire::kSafeMessageBytes);
  return parts;
}

// A page of open frames does not end between the parts of one: the sealer may make it one before the next.
TEST_F(RunArchive, AFrameIsNotTornWhereItIsSealedWhileItsPartsAreTaken) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 5);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  Records parts = LargeParts(id);
  const size_t count = parts.list.size();
  Put(*a_, std::move(parts));
  Records later(id, 6 + count);
  for (int64_t step = 6; step < 24; ++step) later.Frame(HeadsFrame(step, 1));
  Put(*a_, std::move(later));
  ASSERT_EQ(a_->stats().sealed_frames, 0u);

  std::vector<archive::Entry> entries;
  const auto take = [&](archive::Entry entry) {
    const auto* record = std::get_if<archive::Record>(&entry);
    const bool first = record != nullptr && wire::DecodeFrame(record->payload)->seq == 6;
    entries.push_back(std::move(entry));
    return first ? a_->Settle() : OkStatus();
  };
  ASSERT_TRUE(a_->ExportRun("gpt", 3'000, take).ok());
  ASSERT_GT(a_->stats().sealed_frames, 0u);
  const Folder folder;
  const auto fresh = OpenAt(folder);
  for (Store* store : {b_.get(), fresh.get()}) {
    const auto outcome = Import(*store, "gpt", entries);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    ASSERT_TRUE(store->Settle().ok());
    EXPECT_TRUE(AllFrames(*store, "gpt") == AllFrames(*a_, "gpt"));  // MiB of them
  }
}

// The sealer of a server that hears more of the process meanwhile does not wait for the parts to come.
TEST_F(RunArchive, AFrameIsNotTornWhereItIsSealedWhileItsPartsAreImported) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 5);
  Records parts = LargeParts(id);
  const size_t count = parts.list.size();
  Put(*a_, std::move(parts));
  auto import = *b_->StartImport(BeginOf("gpt"), 13);
  for (const archive::Entry& entry : Exported(*a_, "gpt")) {
    ASSERT_TRUE(import->Add(entry).ok());
    const auto* record = std::get_if<archive::Record>(&entry);
    if (record == nullptr || wire::DecodeFrame(record->payload)->seq != 4 + count) continue;
    Records later(id, 6 + count);
    for (int64_t step = 6; step < 100; ++step) later.Frame(HeadsFrame(step, 1));
    Put(*b_, std::move(later));
    ASSERT_TRUE(b_->Settle().ok());
    ASSERT_GT(b_->stats().sealed_frames, 0u);
  }
  ASSERT_TRUE(import->Finish().ok());
  ASSERT_TRUE(b_->Settle().ok());
  const Everything here = AllFrames(*b_, "gpt");
  EXPECT_EQ(here.size(), 2u * 100);  // as rank 0 and as merged
  for (const auto& [key, payload] : AllFrames(*a_, "gpt")) EXPECT_TRUE(here.at(key) == payload);
}

TEST_F(RunArchive, ObserversHearOfItOnce) {
  const SourceId id = Say(*a_, {});
  Steps(*a_, id, 0, 30);
  Hears hears;
  const auto subscription = b_->Subscribe(&hears);
  ASSERT_TRUE(Import(*b_, "gpt", Exported(*a_, "gpt")).ok());
  EXPECT_EQ(hears.frames + hears.sources, 0);
  EXPECT_EQ(hears.imported, std::vector<std::string>{"gpt"});
}

}  // namespace
}  // namespace foreshock::store
