#include "foreshock/server/merge/merger.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "foreshock/base/catalogue.h"

namespace foreshock::merge {
namespace {

using std::chrono::seconds;

struct Heard {
  int64_t step;
  float tokens;
  bool amended;
  bool operator==(const Heard&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Heard& h) {
  return out << "{" << h.step << ", " << h.tokens << ", " << h.amended << "}";
}

class MergerTest : public testing::Test, private store::Observer {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_merge_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    Restart();
  }
  void TearDown() override {
    Crash();
    std::filesystem::remove_all(folder_);
  }
  void Crash() {
    merger_.reset();
    subscription_.reset();
    store_.reset();
  }
  void Restart() {
    Crash();
    auto store = store::Store::Open({.folder = folder_});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(store).value();
    subscription_ = store_->Subscribe(this);
    auto merger = Merger::Start(*store_, clock_, {.wait = seconds(30), .own_thread = false});
    ASSERT_TRUE(merger.ok());
    merger_ = std::move(merger).value();
  }
  void OnMergedFrame(const store::Origin&, const std::shared_ptr<const wire::Frame>& frame,
                     bool amended) override {
    heard_.push_back({frame->step, frame->Find(kTokens)->values[0], amended});
    if (stop_at_first_) merger_->Stop();
  }
  store::SourceId Rank(uint32_t rank, uint32_t world, uint64_t incarnation = 1) {
    wire::Hello hello;
    hello.run = "run";
    hello.attempt = "1";
    hello.rank = rank;
    hello.world_size = world;
    hello.incarnation = incarnation;
    auto source = store_->OpenSource(hello, 0);
    EXPECT_TRUE(source.ok());
    next_seq_[source->id] = source->durable_seq + 1;
    return source->id;
  }
  void Send(store::SourceId id, int64_t step, float tokens, uint32_t part = 0, uint32_t parts = 1) {
    wire::Series series;
    series.signal = kTokens;
    series.values = {tokens};
    wire::Frame frame;
    frame.seq = next_seq_[id]++;
    frame.step = step;
    frame.part = part;
    frame.parts = parts;
    if (part == 0) frame.series.push_back(series);
    store::Append record;
    record.source = id;
    record.payload = wire::Encode(frame);
    record.head = {frame.seq, step, 0};
    record.frame = std::make_shared<const wire::Frame>(frame);
    const auto outcome = store_->AppendRecords({&record, 1});
    ASSERT_TRUE(outcome.ok());
  }
  std::vector<Heard> Tick() {
    merger_->Tick();
    return std::exchange(heard_, {});
  }

  std::string folder_;
  ManualClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::Subscription> subscription_;
  std::unique_ptr<Merger> merger_;
  std::map<store::SourceId, uint64_t> next_seq_;
  std::vector<Heard> heard_;
  bool stop_at_first_ = false;
};

TEST_F(MergerTest, OneRankIsPassedOnAtOnce) {
  const auto id = Rank(0, 1);
  Send(id, 1, 10);
  Send(id, 2, 20);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 10, false}, {2, 20, false}}));
  EXPECT_EQ(Tick(), std::vector<Heard>{});
}

// An archive may name steps to merge of which nothing came. A mark that stayed would keep what follows from
// being sealed.
TEST_F(MergerTest, AMarkedStepWithoutFramesIsDone) {
  wire::Hello hello;
  hello.run = "run";
  hello.attempt = "1";
  hello.world_size = 2;
  hello.incarnation = 1;
  auto import = *store_->StartImport({"run", 1, 1, "test"}, 1);
  ASSERT_TRUE(import->Add(archive::Attempt{1, "1", 1, 1}).ok());
  ASSERT_TRUE(import->Add(archive::Process{{1, 0, 1}, wire::Encode(hello), 1, ""}).ok());
  for (const int64_t step : {3, 50}) ASSERT_TRUE(import->Add(archive::Unmerged{1, step}).ok());
  ASSERT_TRUE(import->Finish().ok());
  EXPECT_EQ(store_->UnmergedSteps()->size(), 2u);
  const auto zero = Rank(0, 2), one = Rank(1, 2, 2);
  for (const auto& id : {zero, one}) Send(id, 50, 1);
  EXPECT_TRUE(Tick().empty()) << "they may be on their way";
  clock_.Advance(seconds(60));
  EXPECT_EQ(Tick(), (std::vector<Heard>{{50, 2, false}}));
  EXPECT_TRUE(store_->UnmergedSteps()->empty());
  EXPECT_EQ(merger_->stats().pending, 0u);
}

TEST_F(MergerTest, PartsOfOneRankAreJoinedFirst) {
  const auto id = Rank(0, 1);
  Send(id, 1, 10, 0, 2);
  EXPECT_EQ(Tick(), std::vector<Heard>{});
  Send(id, 1, 10, 1, 2);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 10, false}}));
}

// A process dies between two parts; the one after it sends the whole step. One frame may not be made of both.
TEST_F(MergerTest, PartsOfTwoProcessesOfOneRankAreNotMixed) {
  const auto old = Rank(0, 1, 1);
  Send(old, 1, 10, 0, 2);
  const auto now = Rank(0, 1, 2);
  Send(now, 1, 20, 0, 2);
  EXPECT_EQ(Tick(), std::vector<Heard>{}) << "the new one's part 1 is not here";
  Send(now, 1, 20, 1, 2);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 20, false}}));
}

TEST_F(MergerTest, TwoLiveProcessesOfOneRankAreBothKeptAndTheNewestCounts) {
  const auto first = Rank(0, 1, 1), second = Rank(0, 1, 2);
  Send(second, 1, 20);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 20, false}}));
  Send(first, 1, 10);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 20, true}}));
  std::vector<float> tokens;
  store::FrameQuery every{.run = "run", .rank = 0, .every_incarnation = true};
  ASSERT_TRUE(store_
                  ->ReadFrames(every,
                               [&](const store::StoredFrame& stored) {
                                 tokens.push_back(stored.frame.Find(kTokens)->values[0]);
                                 return true;
                               })
                  .ok());
  EXPECT_EQ(tokens, (std::vector<float>{10, 20}));
}

TEST_F(MergerTest, WaitsForAllRanksAndKeepsTheOrderOfSteps) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  Send(a, 1, 1);
  Send(a, 2, 2);
  Send(b, 2, 20);
  EXPECT_EQ(Tick(), std::vector<Heard>{}) << "step 1 is not whole yet";
  Send(b, 1, 10);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 11, false}, {2, 22, false}}));
}

TEST_F(MergerTest, ALateRankAmends) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  Send(a, 1, 1);
  clock_.Advance(seconds(29));
  EXPECT_EQ(Tick(), std::vector<Heard>{});
  clock_.Advance(seconds(1));
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 1, false}}));
  EXPECT_EQ(merger_->stats().incomplete, 1u);
  Send(b, 1, 10);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 11, true}}));
  EXPECT_TRUE(store_->UnmergedSteps()->empty());
}

TEST_F(MergerTest, ARankThatIsAwayIsWaitedForOnlyOnce) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  Send(a, 1, 1);
  clock_.Advance(seconds(30));
  Tick();
  Send(a, 2, 2);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{2, 2, false}}));
  Send(b, 3, 30);  // back again, ahead of a
  EXPECT_EQ(Tick(), std::vector<Heard>{});
  Send(a, 3, 3);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{3, 33, false}}));
}

TEST_F(MergerTest, ARankThatSaidGoodbyeIsNotWaitedFor) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  store::Append bye;
  bye.source = b;
  bye.type = wire::RecordType::kGoodbye;
  bye.goodbye = std::make_shared<const wire::Goodbye>();
  bye.head = {next_seq_[b]++, 0, 0};
  ASSERT_TRUE(store_->AppendRecords({&bye, 1}).ok());
  Send(a, 1, 1);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 1, false}}));
}

TEST_F(MergerTest, ARestartFindsWhatWasLeft) {
  const auto a = Rank(0, 2);
  Rank(1, 2, 2);
  Send(a, 1, 1);
  Send(a, 2, 2);
  Restart();
  EXPECT_EQ(Tick(), std::vector<Heard>{});
  const auto b = Rank(1, 2, 2);
  Send(b, 1, 10);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 11, false}}));
  clock_.Advance(seconds(30));
  EXPECT_EQ(Tick(), (std::vector<Heard>{{2, 2, false}}));
}

// A server that fell behind is restarted: what is left over is more than is looked at in one go.
TEST_F(MergerTest, ALongBacklogIsMergedInOrderAfterARestart) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  std::vector<Heard> expected;
  for (int64_t step = 0; step < 100; ++step) {
    Send(a, step, 1);
    Send(b, step, 10);
    expected.push_back({step, 11, false});
  }
  Restart();
  EXPECT_EQ(Tick(), expected);
  EXPECT_TRUE(store_->UnmergedSteps()->empty());
}

// A rank's frame arrives after its step was looked at and before the step is merged: it must not be left out.
TEST_F(MergerTest, WhatComesForALeftOverStepIsMergedWithIt) {
  const auto a = Rank(0, 2);
  Rank(1, 2, 2);
  for (const int64_t step : {1, 2, 3}) Send(a, step, 1);
  Restart();
  EXPECT_EQ(Tick(), std::vector<Heard>{}) << "rank 1 is waited for";
  const auto b = Rank(1, 2, 2);
  for (const int64_t step : {3, 2, 1}) {
    EXPECT_EQ(Tick(), std::vector<Heard>{});
    Send(b, step, 10);
  }
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 11, false}, {2, 11, false}, {3, 11, false}}));
  EXPECT_TRUE(store_->UnmergedSteps()->empty());
}

TEST_F(MergerTest, StopsInABacklogAndTheNextOneGoesOn) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  std::vector<Heard> expected;
  for (int64_t step = 0; step < 100; ++step) {
    Send(a, step, 1);
    Send(b, step, 10);
    expected.push_back({step, 11, false});
  }
  Restart();
  stop_at_first_ = true;
  std::vector<Heard> all = Tick();
  EXPECT_GT(all.size(), 0u);
  EXPECT_LT(all.size(), expected.size()) << "it went on to the end";
  stop_at_first_ = false;
  Restart();
  for (const Heard& heard : Tick()) all.push_back(heard);
  EXPECT_EQ(all, expected);
}

TEST_F(MergerTest, ARestartedTrainerMayGoBackInSteps) {
  const auto a = Rank(0, 2), b = Rank(1, 2, 2);
  for (const int64_t step : {1, 2, 3}) Send(a, step, 1), Send(b, step, 1);
  EXPECT_EQ(Tick().size(), 3u);
  const auto a2 = Rank(0, 2, 11), b2 = Rank(1, 2, 12);
  Send(a2, 2, 5);
  EXPECT_EQ(Tick(), std::vector<Heard>{}) << "waits for the other rank's new process";
  Send(b2, 2, 6);
  EXPECT_EQ(Tick(), (std::vector<Heard>{{2, 11, false}}));
}

TEST_F(MergerTest, AGrowingWorldMergesWhatOneRankHad) {
  const auto a = Rank(0, 1);
  Send(a, 1, 1);
  Tick();
  const auto b = Rank(1, 2, 2);
  EXPECT_EQ(Tick(), std::vector<Heard>{}) << "the new rank may have had a part in it";
  Send(b, 2, 2);
  clock_.Advance(seconds(31));
  EXPECT_EQ(Tick(), (std::vector<Heard>{{1, 1, false}, {2, 2, false}}));
  EXPECT_TRUE(store_->UnmergedSteps().value().empty()) << "else no rank of the attempt is sealed any more";
}

TEST_F(MergerTest, ABacklogIsMergedWholeAndInOrder) {
  const auto id = Rank(0, 1);
  std::vector<Heard> expected;
  for (int64_t step = 0; step < 1'500; ++step) {  // more than are held in memory
    Send(id, step, static_cast<float>(step));
    expected.push_back({step, static_cast<float>(step), false});
  }
  EXPECT_EQ(Tick(), expected);
  EXPECT_EQ(merger_->stats().pending, 0u);
}

TEST_F(MergerTest, ItsOwnThreadMergesWithoutBeingAsked) {
  merger_.reset();
  auto merger = Merger::Start(*store_, SystemClock::Instance(), {});
  ASSERT_TRUE(merger.ok());
  Send(Rank(0, 1), 1, 10);
  while ((*merger)->stats().merged == 0) std::this_thread::yield();
  merger->reset();
  EXPECT_EQ(heard_, (std::vector<Heard>{{1, 10, false}}));
}

}  // namespace
}  // namespace foreshock::merge
