#include "foreshock/agent/receive.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/base/logging.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"
#include "test_trainer.h"

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

class ReceiverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([](LogLevel, std::string_view) {});
    std::string pattern = ::testing::TempDir() + "/fs_rcv_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    options_.socket_path = dir_ + "/agent.sock";
    options_.retry_ms = 5;
    spool_options_.limit_bytes = 64 << 10;
    OpenSpool();
    StartReceiver();
  }
  void TearDown() override {
    receiver_.reset();
    spool_.reset();
    ::unlink(options_.socket_path.c_str());
    ::rmdir(dir_.c_str());
    SetLogSink(nullptr);
  }
  void OpenSpool() {
    SpoolRecovery recovery;
    spool_ = Spool::Open(fs_, "spool", spool_options_, &recovery).value();
  }
  void StartReceiver() {
    auto started = Receiver::Start(*spool_, options_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    receiver_ = std::move(started).value();
  }
  // Waits for what another thread will make true; the test's own time limit is the limit.
  static void WaitUntil(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(1ms);
  }
  std::vector<uint64_t> Spooled(const SourceKey& key) {
    std::vector<uint64_t> seqs;
    auto reader = spool_->Read(key, 0);
    SpoolRecord record;
    for (;;) {
      const auto next = reader->Next(&record, 0ns);
      if (!next.ok() || !*next) return seqs;
      seqs.push_back(record.seq);
    }
  }

  const SourceKey key_{"run", "a", 0, 7};
  PowerCutFileSystem fs_;
  SpoolOptions spool_options_;
  ReceiverOptions options_;
  std::string dir_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Receiver> receiver_;
};

TEST_F(ReceiverTest, AcknowledgesWhatIsDurable) {
  Trainer trainer(options_.socket_path);
  const wire::HelloAck ack = trainer.Greet();
  EXPECT_EQ(ack.attempt, "a");
  EXPECT_EQ(ack.durable_seq, 0u);
  EXPECT_EQ(ack.max_message_bytes, options_.max_record_bytes);
  for (uint64_t seq = 1; seq <= 20; ++seq) ASSERT_TRUE(trainer.SendFrame(seq));
  ASSERT_TRUE(trainer.ReceiveAck(20));
  // The acknowledgement is a promise: it holds through a power cut.
  receiver_.reset();
  spool_.reset();
  fs_.PowerCut();
  OpenSpool();
  EXPECT_EQ(Spooled(key_).size(), 20u);
}

// The canary: the same promise, with fsync taken out, is broken by the same power cut.
TEST_F(ReceiverTest, CanaryWithoutSyncsTheAcknowledgementIsALie) {
  fs_.SetIgnoreSyncs(true);
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  for (uint64_t seq = 1; seq <= 20; ++seq) ASSERT_TRUE(trainer.SendFrame(seq));
  ASSERT_TRUE(trainer.ReceiveAck(20));
  receiver_.reset();
  spool_.reset();
  fs_.PowerCut();
  OpenSpool();
  EXPECT_LT(Spooled(key_).size(), 20u);
}

TEST_F(ReceiverTest, ARestartedAgentSaysWhatItHas) {
  {
    Trainer trainer(options_.socket_path);
    trainer.Greet();
    ASSERT_TRUE(trainer.SendFrame(1) && trainer.SendFrame(2));
    ASSERT_TRUE(trainer.ReceiveAck(2));
  }
  receiver_.reset();
  spool_.reset();
  OpenSpool();
  StartReceiver();
  Trainer trainer(options_.socket_path);
  EXPECT_EQ(trainer.Greet().durable_seq, 2u);
  for (uint64_t seq : {1, 2, 3}) ASSERT_TRUE(trainer.SendFrame(seq));
  ASSERT_TRUE(trainer.ReceiveAck(3));
  EXPECT_EQ(Spooled(key_), (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(ReceiverTest, MintsAnAttemptThatRanksShare) {
  Trainer zero(options_.socket_path);
  Trainer one(options_.socket_path);
  const wire::HelloAck ack = zero.Greet(0, 10, "");
  EXPECT_FALSE(ack.attempt.empty());
  EXPECT_EQ(ack.attempt_source, wire::AttemptSource::kMinted);
  EXPECT_EQ(one.Greet(1, 11, "").attempt, ack.attempt);
  // What is forwarded later carries it.
  EXPECT_EQ(wire::DecodeHello(spool_->Sources().at(0).hello)->attempt, ack.attempt);
}

TEST_F(ReceiverTest, TheSocketIsForOwnerAndGroup) {
  struct stat info {};
  ASSERT_EQ(::stat(options_.socket_path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(ReceiverTest, WhenTheSpoolIsFullItStopsAcknowledgingAndReading) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  std::atomic<uint64_t> sent{0};
  constexpr uint64_t kFrames = 600;
  std::thread sender([&] {
    for (uint64_t seq = 1; seq <= kFrames; ++seq) {
      ASSERT_TRUE(trainer.SendFrame(seq, 1000));
      sent = seq;
    }
  });
  WaitUntil([&] { return receiver_->Stats().stalled == 1; });
  const uint64_t held = spool_->Sources().at(0).durable_seq;
  EXPECT_LT(held, kFrames);
  EXPECT_LE(spool_->Stats().bytes, spool_options_.limit_bytes);
  // The server acknowledges: everything goes on, nothing is missing.
  std::vector<uint64_t> seqs;
  auto reader = spool_->Read(key_, 0);
  SpoolRecord record;
  while (seqs.size() < kFrames) {
    const auto next = reader->Next(&record, 10ms);
    ASSERT_TRUE(next.ok());
    if (!*next) continue;
    seqs.push_back(record.seq);
    EXPECT_EQ(record.seq, seqs.size());
    spool_->Acknowledge(key_, record.seq);
  }
  sender.join();
  ASSERT_TRUE(trainer.ReceiveAck(kFrames));
  EXPECT_EQ(receiver_->Stats().stalled, 0u);
  EXPECT_EQ(receiver_->Stats().abandoned, 0u);
}

TEST_F(ReceiverTest, ADiskThatIsFullForAWhileLosesNothing) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  ASSERT_TRUE(trainer.SendFrame(1));
  ASSERT_TRUE(trainer.ReceiveAck(1));
  fs_.SetCapacity(fs_.used_bytes());
  ASSERT_TRUE(trainer.SendFrame(2));
  WaitUntil([&] { return receiver_->Stats().stalled == 1; });
  // The trainer dies meanwhile; its last words still count.
  ASSERT_TRUE(trainer.SendFrame(3));
  trainer.HangUp();
  fs_.SetCapacity(PowerCutFileSystem::kUnlimited);
  WaitUntil([&] { return receiver_->Stats().connections == 0; });
  EXPECT_EQ(Spooled(key_), (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(ReceiverTest, RepliesGoDownAndWaitForTrainersThatAreAway) {
  wire::Reply reply;
  reply.durable_seq = 99;  // between server and agent only
  reply.actions.push_back({"id-1", "checkpoint", "a", "someone", 0, 0, {}, 0, ""});
  receiver_->Deliver(key_, reply);
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  auto got = trainer.Receive();
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(got->actions.size(), 1u);
  EXPECT_EQ(got->actions[0].id, "id-1");
  EXPECT_EQ(got->durable_seq, 0u);
  reply.actions[0].id = "id-2";
  receiver_->Deliver(key_, reply);
  got = trainer.Receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->actions[0].id, "id-2");
  EXPECT_EQ(receiver_->Stats().replies, 2u);
}

TEST_F(ReceiverTest, BadHellosAreAnsweredAndClosed) {
  {
    Trainer trainer(options_.socket_path);
    ASSERT_TRUE(trainer.SendFrame(1));
    const auto reply = trainer.Receive();
    ASSERT_TRUE(reply.has_value() && reply->error.has_value());
    EXPECT_TRUE(reply->error->final);
    EXPECT_FALSE(trainer.Receive().has_value());
  }
  for (const std::string& run :
       {std::string(), std::string("/x"), std::string("a\nb"), std::string(201, 'r')}) {
    Trainer trainer(options_.socket_path);
    wire::Hello hello;
    hello.run = run;
    ASSERT_TRUE(trainer.SendRecord(wire::RecordType::kHello, wire::Encode(hello)));
    const auto reply = trainer.Receive();
    ASSERT_TRUE(reply.has_value() && reply->error.has_value()) << run;
    EXPECT_NE(reply->error->message.find("run"), std::string::npos);
    EXPECT_FALSE(trainer.Receive().has_value());
  }
  EXPECT_EQ(receiver_->Stats().refused, 5u);
}

// What a newer SDK sends to a newer server passes through.
TEST_F(ReceiverTest, RecordsOfALaterTypeAreKeptAndAcknowledged) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  wire::Goodbye later;
  later.seq = 1;
  ASSERT_TRUE(trainer.SendRecord(static_cast<wire::RecordType>(9), wire::Encode(later)));
  ASSERT_TRUE(trainer.SendRecord(static_cast<wire::RecordType>(200), "of the link alone"));
  ASSERT_TRUE(trainer.SendFrame(2));
  ASSERT_TRUE(trainer.ReceiveAck(2));
  EXPECT_EQ(receiver_->Stats().records, 2u);
}

// The server would refuse it, and the spool would keep it for ever.
TEST_F(ReceiverTest, AHelloThatNoServerTakesIsRefusedHere) {
  Trainer trainer(options_.socket_path);
  wire::Hello hello;
  hello.run = "run";
  hello.incarnation = 7;
  hello.rank = 1;  // of a world of 1
  ASSERT_TRUE(trainer.SendRecord(wire::RecordType::kHello, wire::Encode(hello)));
  const auto reply = trainer.Receive();
  ASSERT_TRUE(reply.has_value() && reply->error.has_value());
  EXPECT_TRUE(reply->error->final);
  EXPECT_TRUE(spool_->Sources().empty());
}

TEST_F(ReceiverTest, DamageClosesTheLinkAndKeepsWhatCameBefore) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  ASSERT_TRUE(trainer.SendFrame(1));
  ASSERT_TRUE(trainer.Send("this is not a record"));
  while (trainer.Receive().has_value()) {
  }
  EXPECT_EQ(Spooled(key_), std::vector<uint64_t>{1});
  EXPECT_EQ(receiver_->Stats().damaged, 1u);
}

TEST_F(ReceiverTest, ARecordWithoutSeqIsRefusedAndTheLinkGoesOn) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  ASSERT_TRUE(trainer.SendFrame(0));
  const auto reply = trainer.Receive();
  ASSERT_TRUE(reply.has_value() && reply->error.has_value());
  EXPECT_NE(reply->error->message.find("seq"), std::string::npos);
  ASSERT_TRUE(trainer.SendFrame(1));
  EXPECT_TRUE(trainer.ReceiveAck(1));
}

TEST_F(ReceiverTest, ARecordLargerThanTheSpoolIsRefusedAndTheOthersStay) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  std::string bytes;  // in one write, so that they make one batch
  for (uint64_t seq : {1, 2, 3}) {
    wire::Event event;
    event.seq = seq;
    event.detail = std::string(seq == 2 ? 70'000 : 10, 'x');
    wire::AppendRecord(wire::RecordType::kEvent, wire::Encode(event), &bytes);
  }
  ASSERT_TRUE(trainer.Send(bytes));
  ASSERT_TRUE(trainer.ReceiveAck(3));
  EXPECT_EQ(Spooled(key_), (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(receiver_->Stats().rejected, 1u);
}

TEST_F(ReceiverTest, ANewConnectionOfTheSameProcessTakesOver) {
  Trainer old_link(options_.socket_path);
  old_link.Greet();
  Trainer new_link(options_.socket_path);
  new_link.Greet();
  EXPECT_FALSE(old_link.Receive().has_value());
  ASSERT_TRUE(new_link.SendFrame(1));
  EXPECT_TRUE(new_link.ReceiveAck(1));
}

TEST_F(ReceiverTest, TooManyTrainersAreTurnedAway) {
  receiver_.reset();
  options_.max_connections = 2;
  StartReceiver();
  Trainer one(options_.socket_path);
  Trainer two(options_.socket_path);
  one.Greet(0, 1);
  two.Greet(1, 2);
  std::mutex mutex;
  std::vector<std::string> lines;
  SetLogSink([&](LogLevel, std::string_view line) {
    std::lock_guard lock(mutex);
    if (line.find("refused") != std::string_view::npos) lines.emplace_back(line);
  });
  for (uint64_t refused = 1; refused <= 5; ++refused) {
    Trainer more(options_.socket_path);
    EXPECT_FALSE(more.Receive().has_value());
    EXPECT_EQ(receiver_->Stats().refused, refused);
  }
  SetLogSink({});
  ASSERT_EQ(lines.size(), 1u) << "the others are told of together, a minute later";
  EXPECT_NE(lines[0].find("max_connections"), std::string::npos) << lines[0];
}

TEST_F(ReceiverTest, OneUserCannotTakeAllConnections) {
  receiver_.reset();
  options_.max_connections_per_user = 1;
  StartReceiver();
  Trainer one(options_.socket_path);
  one.Greet(0, 1);
  Trainer two(options_.socket_path);
  EXPECT_FALSE(two.Receive().has_value());
  EXPECT_EQ(receiver_->Stats().refused, 1u);
  EXPECT_TRUE(one.SendFrame(1));
  EXPECT_TRUE(one.Receive().has_value()) << "who is there stays";
}

// Another user, let in by the socket's mode and not by the list.
TEST_F(ReceiverTest, UsersWhoAreNotListedAreTurnedAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kStranger = 65533, kFriend = 65532;
  receiver_.reset();
  options_.allowed_uids = {kFriend};
  StartReceiver();
  ASSERT_EQ(::chmod(dir_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(options_.socket_path.c_str(), 0666), 0);
  // Whether the agent greets a child process of that user.
  const auto greeted = [&](uid_t uid) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setuid(uid) != 0) ::_exit(2);
      Trainer trainer(options_.socket_path);
      wire::Hello hello;
      hello.run = "run";
      hello.attempt = "a";
      hello.incarnation = uid;
      trainer.SendRecord(wire::RecordType::kHello, wire::Encode(hello));
      ::_exit(trainer.connected() && trainer.Receive().has_value() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(greeted(kFriend), 0);
  EXPECT_EQ(greeted(kStranger), 1);
  EXPECT_EQ(receiver_->Stats().refused_users, 1u);
  Trainer root(options_.socket_path);
  root.Greet(1, 2);
}

TEST_F(ReceiverTest, RefusesPathsThatCannotBe) {
  ReceiverOptions options = options_;
  options.socket_path = std::string(200, 'x');
  const auto too_long = Receiver::Start(*spool_, options);
  EXPECT_EQ(too_long.status().code(), Code::kInvalidArgument);
  EXPECT_NE(too_long.status().message().find("107"), std::string::npos);
  options.socket_path = dir_;
  EXPECT_EQ(Receiver::Start(*spool_, options).status().code(), Code::kAlreadyExists);
  options.socket_path = dir_ + "/none/agent.sock";
  EXPECT_FALSE(Receiver::Start(*spool_, options).ok());
}

TEST_F(ReceiverTest, StopsWithTrainersConnectedAndStalled) {
  Trainer trainer(options_.socket_path);
  trainer.Greet();
  fs_.SetReadOnly(true);
  ASSERT_TRUE(trainer.SendFrame(1));
  WaitUntil([&] { return receiver_->Stats().stalled == 1; });
  receiver_->Stop();
  EXPECT_FALSE(Trainer(options_.socket_path).connected());
  EXPECT_EQ(receiver_->Stats().abandoned, 0u);  // the trainer still has it
  fs_.SetReadOnly(false);
}

}  // namespace
}  // namespace foreshock::agent
