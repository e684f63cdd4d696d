// The exporter against a receiver that speaks the real protocol.
#include "foreshock/sdk/exporter.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <mutex>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/codec.h"
#include "test_receiver.h"

namespace foreshock::sdk {
namespace {

using testing::TestReceiver;
using wire::RecordType;

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() : layout_(Layers()), queue_(8) {
    std::string pattern = (std::filesystem::temp_directory_path() / "foreshock.XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    queue_.ForEachSlot([this](StepRecord& record) { record.frame.Shape(layout_); });
    options_.address = *ParseAddress("unix:" + dir_ + "/agent.sock");
    options_.hello.run = "r";
    options_.hello.incarnation = 7;
    options_.hello.allowed_actions = {"checkpoint"};
    options_.first_backoff = std::chrono::milliseconds(2);
    options_.last_backoff = std::chrono::milliseconds(20);
  }
  ~ExporterTest() override {
    if (exporter_ != nullptr) exporter_->Stop(wire::GoodbyeStatus::kStopped, 0, std::chrono::milliseconds(0));
    std::filesystem::remove_all(dir_);
  }

  static std::vector<LayerSpec> Layers() {
    LayerSpec layer;
    layer.query_heads = layer.kv_heads = layer.local_query_heads = layer.local_kv_heads = 2;
    layer.head_dim = 4;
    return {layer};
  }

  std::string Socket() const { return dir_ + "/agent.sock"; }

  void Start() {
    exporter_ = std::make_unique<Exporter>(options_, layout_, queue_, request_, SystemClock::Instance(),
                                           [this](LogLevel level, const std::string& text) {
                                             std::lock_guard lock(log_mutex_);
                                             if (level != LogLevel::kInfo) complaints_.push_back(text);
                                           });
    ASSERT_TRUE(exporter_->Start().ok());
  }

  void PublishStep(int64_t step) {
    StepRecord& record = queue_.Slot();
    record.is_event = false;
    record.frame.Clear();
    record.frame.step = step;
    ColumnWriter(layout_, &record.frame, -1, kLoss).Set(0, 2.5, 10);
    queue_.Publish();
  }

  std::vector<std::string> Complaints() {
    std::lock_guard lock(log_mutex_);
    return complaints_;
  }

  std::string dir_;
  FrameLayout layout_;
  StepQueue queue_;
  SamplingRequest request_;
  ExporterOptions options_;
  std::mutex log_mutex_;
  std::vector<std::string> complaints_;
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExporterTest, DeliversInOrderAndTakesTheMintedAttempt) {
  TestReceiver receiver(Socket());
  receiver.mint = "minted-1";
  Start();
  for (int64_t t = 0; t < 5; ++t) PublishStep(t);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 5; }));
  exporter_->Stop(wire::GoodbyeStatus::kFinished, 4, std::chrono::seconds(10));
  const auto got = receiver.records();
  ASSERT_EQ(got.size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got[i].seq, i + 1);
    EXPECT_EQ(got[i].step, static_cast<int64_t>(i));
    EXPECT_EQ(got[i].dropped_before, 0u);
  }
  EXPECT_EQ(got[5].type, RecordType::kGoodbye);
  EXPECT_EQ(wire::DecodeGoodbye(got[5].payload)->status, wire::GoodbyeStatus::kFinished);
  EXPECT_EQ(exporter_->counters().acknowledged.load(), 6u);
  EXPECT_THAT(Complaints(), ::testing::IsEmpty());
  EXPECT_EQ(receiver.hellos()[0].attempt, "");
}

// A copy of a process (a restored snapshot) numbers its records anew under the same incarnation.
TEST_F(ExporterTest, AnIncarnationThatTheReceiverKnowsFromAnotherIsReplaced) {
  TestReceiver receiver(Socket());
  receiver.durable_at_hello = 1000;
  Start();
  ASSERT_TRUE(receiver.WaitForHello(1));
  receiver.durable_at_hello = 0;
  PublishStep(0);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 1; }));
  EXPECT_EQ(receiver.records()[0].seq, 1u);
  EXPECT_EQ(receiver.records()[0].dropped_before, 0u);
  EXPECT_NE(receiver.hellos().back().incarnation, receiver.hellos().front().incarnation);
  EXPECT_NE(receiver.hellos().back().incarnation, 0u);
}

TEST_F(ExporterTest, AQueueThatOverflowedDeclaresTheGap) {
  TestReceiver receiver(Socket());
  for (int64_t t = 0; t < 20; ++t) PublishStep(t);  // 8 fit
  Start();
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 8; }));
  const auto got = receiver.records();
  EXPECT_EQ(got[0].step, 12);
  EXPECT_EQ(got[0].seq, 13u);
  EXPECT_EQ(got[0].dropped_before, 12u);
  EXPECT_EQ(got[1].dropped_before, 0u);
}

TEST_F(ExporterTest, ALostLinkIsMadeAgainAndNothingIsLostOrInvented) {
  TestReceiver receiver(Socket());
  receiver.acknowledge = false;
  Start();
  for (int64_t t = 0; t < 3; ++t) PublishStep(t);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 3; }));
  receiver.durable_at_hello = 2;  // 1 and 2 had been synced, their acknowledgement was lost
  receiver.HangUp();
  ASSERT_TRUE(receiver.WaitForHello(2));
  PublishStep(3);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 5; }));
  const auto got = receiver.records();
  EXPECT_EQ(got[3].seq, 3u) << "sent again";
  EXPECT_EQ(got[3].connection, 2);
  EXPECT_EQ(got[4].seq, 4u);
  EXPECT_EQ(got[4].dropped_before, 0u);
  const auto hellos = receiver.hellos();
  EXPECT_EQ(hellos[0].incarnation, hellos[1].incarnation);
  EXPECT_EQ(exporter_->counters().sent.load(), 4u) << "repetitions are not counted";
}

TEST_F(ExporterTest, WithoutAReceiverTheWindowStaysBoundedAndOneLineSaysWhy) {
  options_.window_bytes = 300;
  Start();
  for (int64_t t = 0; t < 200; ++t) {
    PublishStep(t);
    const QueueCounters counters = queue_.Counters();
    while (queue_.Counters().popped + queue_.Counters().dropped < counters.pushed) std::this_thread::yield();
  }
  while (Complaints().empty()) std::this_thread::yield();
  EXPECT_THAT(exporter_->NotRecording(), ::testing::HasSubstr("No such file or directory"));
  EXPECT_FALSE(exporter_->counters().connected.load());
  TestReceiver receiver(Socket());
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return !got.empty() && got.back().step == 199; }));
  EXPECT_EQ(Complaints().size(), 1u) << "one line, however often connecting failed";
  const auto got = receiver.records();
  EXPECT_GT(got[0].dropped_before, 150u);
  EXPECT_EQ(got[0].dropped_before + 1, got[0].seq);
  EXPECT_EQ(exporter_->counters().window_dropped.load(), got[0].dropped_before);
  EXPECT_EQ(exporter_->NotRecording(), "");
}

TEST_F(ExporterTest, ARunThatIsRefusedIsNotOfferedAgainAndOneLineSaysWhy) {
  TestReceiver receiver(Socket());
  receiver.refusal = "run: 'r', not here";
  Start();
  PublishStep(0);
  ASSERT_TRUE(receiver.WaitForEnd());
  while (Complaints().empty()) std::this_thread::yield();
  for (int64_t t = 1; t < 50; ++t) {
    PublishStep(t);
    while (queue_.Counters().popped + queue_.Counters().dropped < queue_.Counters().pushed) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(receiver.hellos().size(), 1u);
  EXPECT_EQ(exporter_->NotRecording(), "run: 'r', not here");
  exporter_->Stop(wire::GoodbyeStatus::kFinished, 49, std::chrono::hours(1));  // waits for nobody
  EXPECT_THAT(Complaints()[0], ::testing::HasSubstr("refuses run 'r': run: 'r', not here"));
  EXPECT_THAT(Complaints(), ::testing::SizeIs(2)) << "the second says what was left at the end";
}

// An agent took the run, its server did not.
TEST_F(ExporterTest, ARefusalFurtherOnIsToldInOneLineAndTheAgentIsServedOn) {
  TestReceiver receiver(Socket());
  Start();
  PublishStep(0);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 1; }));
  wire::Reply reply;
  wire::IngestError error;
  error.message = "server s:1 refuses run 'r': no";
  error.final = true;
  reply.error = error;
  receiver.Reply(reply);
  while (Complaints().empty()) std::this_thread::yield();
  EXPECT_THAT(Complaints()[0], ::testing::HasSubstr("server s:1 refuses run 'r': no"));
  PublishStep(1);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 2; }));
  EXPECT_EQ(receiver.hellos().size(), 1u);
}

TEST_F(ExporterTest, AFolderThatOthersMayWriteToIsNotTrusted) {
  ASSERT_EQ(::chmod(dir_.c_str(), 01777), 0);
  const std::string folder = dir_ + "/foreshock-0";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  options_.address = *ParseAddress("unix:" + folder + "/agent.sock");
  TestReceiver stranger(folder + "/agent.sock");
  Start();
  PublishStep(0);
  while (Complaints().empty()) std::this_thread::yield();
  EXPECT_THAT(Complaints()[0], ::testing::HasSubstr("socket folder: " + folder + " has mode 0777"));
  EXPECT_TRUE(stranger.hellos().empty());
}

TEST_F(ExporterTest, StopDoesNotWaitForAReceiverThatIsAway) {
  Start();
  PublishStep(0);
  const auto start = std::chrono::steady_clock::now();
  exporter_->Stop(wire::GoodbyeStatus::kFinished, 0, std::chrono::hours(1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(5));
  EXPECT_THAT(Complaints().back(), ::testing::HasSubstr("has not acknowledged"));
}

TEST_F(ExporterTest, AReceiverThatNeverAcknowledgesIsWaitedForAsLongAsTold) {
  TestReceiver receiver(Socket());
  receiver.acknowledge = false;
  Start();
  PublishStep(0);
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() == 1; }));
  exporter_->Stop(wire::GoodbyeStatus::kFinished, 0, std::chrono::milliseconds(30));
  EXPECT_EQ(exporter_->counters().acknowledged.load(), 0u);
}

TEST_F(ExporterTest, SamplingChangesAndActionsComeBack) {
  TestReceiver receiver(Socket());
  receiver.mint = "m";
  Start();
  ASSERT_TRUE(receiver.WaitForHello(1));
  while (!exporter_->counters().connected.load()) std::this_thread::yield();
  wire::Reply reply;
  reply.sampling = wire::Sampling{20, 40, 2, 4};
  wire::Action action;
  action.id = "a1";
  action.kind = "checkpoint";
  action.layers = {3, 5};
  reply.actions.push_back(action);
  action.id = "a2";
  action.kind = "stop";
  reply.actions.push_back(action);
  action.id = "a3";
  action.kind = "checkpoint";
  action.attempt = "another";
  reply.actions.push_back(action);
  receiver.Reply(reply);
  std::vector<ActionSlot> got;
  uint64_t lost = 0;
  while (got.size() < 3) {
    if (const ActionSlot* slot = exporter_->actions().Take(&lost)) got.push_back(*slot);
  }
  EXPECT_STREQ(got[0].id, "a1");
  EXPECT_STREQ(got[0].refuse, "");
  EXPECT_EQ(got[0].layer_count, 2u);
  EXPECT_EQ(got[0].layers[1], 5u);
  EXPECT_STREQ(got[1].refuse, "not on the trainer's allow-list");
  EXPECT_STREQ(got[2].refuse, "meant for attempt another, this is m");
  EXPECT_EQ(request_.attention_every_steps.load(), 20u);
  EXPECT_EQ(request_.row_every.load(), 4u);
}

TEST_F(ExporterTest, AFrameAboveTheSafeMessageSizeTravelsInParts) {
  std::vector<LayerSpec> layers;
  for (uint32_t l = 0; l < 128; ++l) {
    LayerSpec layer;
    layer.layer = l;
    layer.query_heads = layer.kv_heads = layer.local_query_heads = layer.local_kv_heads = 128;
    layer.head_dim = 4;
    layers.push_back(layer);
  }
  const FrameLayout layout(layers);
  StepQueue queue(4);
  queue.ForEachSlot([&](StepRecord& record) { record.frame.Shape(layout); });
  StepRecord& record = queue.Slot();
  record.frame.step = 10;
  size_t written = 0;
  for (const Column& column : layout.columns()) {
    if (column.layer_index < 0) continue;
    ColumnWriter writer(layout, &record.frame, column.layer_index, column.signal);
    for (uint32_t h = 0; h < column.count; ++h) writer.Set(h, h + 0.5, 3);
    ++written;
  }
  queue.Publish();
  TestReceiver receiver(Socket());
  Exporter exporter(options_, layout, queue, request_, SystemClock::Instance(),
                    [](LogLevel, const std::string&) {});
  ASSERT_TRUE(exporter.Start().ok());
  exporter.Stop(wire::GoodbyeStatus::kFinished, 10, std::chrono::minutes(2));
  const auto got = receiver.records();
  ASSERT_GT(got.size(), 2u);
  size_t series = 0;
  for (size_t i = 0; i + 1 < got.size(); ++i) {
    EXPECT_LE(got[i].payload.size(), wire::kSafeMessageBytes);
    const auto frame = wire::DecodeFrame(got[i].payload);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->seq, i + 1);
    EXPECT_EQ(frame->part, i);
    EXPECT_EQ(frame->parts, got.size() - 1);
    series += frame->series.size();
  }
  EXPECT_EQ(series, written);
}

}  // namespace
}  // namespace foreshock::sdk
