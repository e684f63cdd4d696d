#include "foreshock/server/remote_write/remote_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/tests/history.h"
#include "foreshock/tests/not_finite.h"
#include "receiver.h"

namespace foreshock::remote_write {
namespace {

using tests::Heads;
using tests::Scalar;

constexpr std::chrono::seconds kPatience{60};

wire::Frame At(int64_t step, uint64_t unix_ms, std::vector<wire::Series> series) {
  wire::Frame frame = tests::Step(step, std::move(series));
  frame.time_unix_ns = unix_ms * 1'000'000;
  return frame;
}

RemoteWriteOptions To(const Receiver& receiver) {
  return {.url = receiver.url(), .first_retry = std::chrono::milliseconds(1)};
}

std::unique_ptr<RemoteWriter> Start(const RemoteWriteOptions& options, tests::History* history) {
  auto writer = RemoteWriter::Start(options, history->store(), history->clock());
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  return std::move(writer).value();
}

TEST(RemoteWriter, SendsLayersByDefault) {
  tests::History history;
  Receiver receiver;
  const auto writer = Start(To(receiver), &history);
  const auto source = history.Hello("run");
  history.Put(source, At(7, 1000, {Scalar(kLoss, 2.5f), Heads(kLogitMax, 1, {1, 64, 5, 7})}));
  ASSERT_TRUE(writer->Drain(kPatience));
  const std::map<std::string, double> expected = {{"foreshock_step{run=run}", 7},
                                                  {"foreshock_loss{run=run}", 2.5},
                                                  {"foreshock_logit_max{layer=1,run=run,stat=max}", 64},
                                                  {"foreshock_logit_max{layer=1,run=run,stat=median}", 6},
                                                  {"foreshock_logit_max{layer=1,run=run,stat=min}", 1}};
  EXPECT_EQ(receiver.Newest(), expected);
  EXPECT_EQ(receiver.samples()[0].unix_ms, 1000);
  EXPECT_EQ(writer->stats().samples, 5u);
  EXPECT_EQ(writer->stats().requests, 1u);
}

TEST(RemoteWriter, SendsHeadsWhenAskedAndWhatUsersSee) {
  tests::History history;
  Receiver receiver;
  auto options = To(receiver);
  options.per_head = true;
  options.labels = {{"cluster", "a"}};
  const auto writer = Start(options, &history);
  // A ratio travels as numerator and denominator; a head that was not measured is not sent.
  wire::Series entropy = Heads(kEntropyMean, 0, {6, 0, 10, 4}, {2, 1, 5, 0});
  entropy.present = {1, 0, 1, 1};
  history.Put(history.Hello("run"), At(1, 1000, {entropy}));
  ASSERT_TRUE(writer->Drain(kPatience));
  auto got = receiver.Newest();
  const bool ratio = FindSignal(kEntropyMean)->merge == SignalMerge::kRatio;
  EXPECT_EQ((got["foreshock_entropy_mean_head{cluster=a,head=0,layer=0,run=run}"]), ratio ? 3 : 6);
  EXPECT_FALSE(got.contains("foreshock_entropy_mean_head{cluster=a,head=1,layer=0,run=run}"));
}

TEST(RemoteWriter, ANanAmongHeadsShows) {
  tests::History history;
  Receiver receiver;
  const auto writer = Start(To(receiver), &history);
  history.Put(history.Hello("run"), At(1, 1000, {Heads(kLogitMax, 0, {1, std::nanf(""), 5, 7})}));
  ASSERT_TRUE(writer->Drain(kPatience));
  EXPECT_TRUE(std::isnan(receiver.Newest()["foreshock_logit_max{layer=0,run=run,stat=min}"]));
}

TEST(RemoteWriter, RepeatsWhatTheReceiverCouldNotTakeYet) {
  tests::History history;
  Receiver receiver({500, 503, 429});
  const auto writer = Start(To(receiver), &history);
  history.Put(history.Hello("run"), At(1, 1000, {Scalar(kLoss, 1)}));
  ASSERT_TRUE(writer->Drain(kPatience));
  EXPECT_EQ(receiver.requests(), 4);
  EXPECT_EQ(receiver.samples().size(), 2u);
  EXPECT_EQ(writer->stats().retries, 3u);
  EXPECT_TRUE(writer->health().ok());
}

TEST(RemoteWriter, GivesUpWhatIsRefusedAndGoesOn) {
  tests::History history;
  Receiver receiver({400});
  const auto writer = Start(To(receiver), &history);
  const auto source = history.Hello("run");
  history.Put(source, At(1, 1000, {Scalar(kLoss, 1)}));
  ASSERT_TRUE(writer->Drain(kPatience));
  EXPECT_EQ(writer->stats().refused, 2u);
  EXPECT_NE(writer->health().message().find("400 as told"), std::string::npos);
  history.Put(source, At(2, 2000, {Scalar(kLoss, 1)}));
  ASSERT_TRUE(writer->Drain(kPatience));
  EXPECT_EQ(writer->stats().samples, 2u);
}

TEST(RemoteWriter, LeavesOutWhatIsNotLater) {
  tests::History history;
  Receiver receiver;
  const auto writer = Start(To(receiver), &history);
  const auto a = history.Hello("a"), b = history.Hello("b");
  history.Put(a, At(1, 2000, {}));
  history.Put(a, At(2, 2000, {}));
  history.Put(a, At(3, 1000, {}));
  history.Put(b, At(1, 1000, {}));
  ASSERT_TRUE(writer->Drain(kPatience));
  EXPECT_EQ(receiver.samples().size(), 2u);
  EXPECT_EQ(writer->stats().late_frames, 2u);
}

TEST(RemoteWriter, RelabellingChoosesAndRenames) {
  tests::History history;
  Receiver receiver;
  auto options = To(receiver);
  options.relabel = {{.action = RelabelAction::kKeep, .source_labels = {"stat"}, .regex = "max"},
                     {.source_labels = {"run"}, .target_label = "job"}};
  const auto writer = Start(options, &history);
  history.Put(history.Hello("run"), At(1, 1000, {Scalar(kLoss, 1), Heads(kLogitMax, 0, {1, 2, 3, 4})}));
  ASSERT_TRUE(writer->Drain(kPatience));
  const std::map<std::string, double> expected = {
      {"foreshock_logit_max{job=run,layer=0,run=run,stat=max}", 4}};
  EXPECT_EQ(receiver.Newest(), expected);
}

TEST(RemoteWriter, AFullQueueDropsTheOldest) {
  tests::History history;
  RemoteWriteOptions options{.url = "http://127.0.0.1:1/write"};  // nobody is asked
  options.max_queued_bytes = 4096;
  options.flush = std::chrono::hours(1);
  const auto writer = Start(options, &history);
  const auto source = history.Hello("run");
  for (int i = 1; i <= 100; ++i)
    history.Put(source, At(i, static_cast<uint64_t>(1000 * i), {Scalar(kLoss, 1)}));
  const RemoteWriteStats stats = writer->stats();
  EXPECT_GT(stats.dropped_frames, 50u);
  EXPECT_EQ(stats.dropped_frames + stats.queued_frames, 100u);
}

TEST(RemoteWriter, BadOptionsAreRefused) {
  tests::History history;
  const auto error = [&](RemoteWriteOptions options) {
    return RemoteWriter::Start(options, history.store(), history.clock()).status().message();
  };
  EXPECT_NE(error({.url = "ftp://x"}).find("'ftp://x'"), std::string::npos);
  EXPECT_NE(error({.url = "http://x", .samples_per_request = 0}).find("samples_per_request"),
            std::string::npos);
  EXPECT_NE(error({.url = "http://x", .relabel = {{.regex = "["}}}).find("rule 1"), std::string::npos);
}

}  // namespace
}  // namespace foreshock::remote_write
