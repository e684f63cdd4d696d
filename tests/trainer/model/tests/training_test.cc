#include "foreshock/trainer/training.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

class TrainingTest : public testing::Test {
 protected:
  TrainingTest() {
    const std::string line = "for (int i = 0; i < rows; ++i) total += weight[i] * value[i];\n";
    while (corpus_.bytes.size() < 8192) corpus_.bytes.insert(corpus_.bytes.end(), line.begin(), line.end());
    folder_ = fs::path(testing::TempDir()) /
              ("trainer_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
               std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~TrainingTest() override { fs::remove_all(folder_); }

  static TrainingConfig config() {
    TrainingConfig c;
    c.shape = {.layers = 2, .heads = 2, .head_dim = 16, .context = 16, .batch = 4};
    c.warmup_steps = 10;
    return c;
  }
  static void advance(Training& training, int steps) {
    for (int i = 0; i < steps; ++i) {
      training.compute();
      training.update();
    }
  }
  static bool same_weights(const Training& a, const Training& b) {
    return std::memcmp(a.model().weights().data(), b.model().weights().data(), a.model().weights().bytes()) ==
           0;
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  Corpus corpus_;
  fs::path folder_;
};

TEST_F(TrainingTest, LearnsARepeatedLine) {
  Training training(config(), corpus_);
  training.compute();
  EXPECT_NEAR(training.result().loss, std::log(256.0), 0.1);
  training.update();
  advance(training, 150);
  EXPECT_LT(training.result().loss, 1.0);
  EXPECT_EQ(training.step(), 151);
}

TEST_F(TrainingTest, TheSameSeedGivesTheSameWeightsAndAnotherDoesNot) {
  Training a(config(), corpus_);
  Training b(config(), corpus_);
  TrainingConfig other = config();
  other.seed = 2;
  Training c(other, corpus_);
  for (Training* training : {&a, &b, &c}) advance(*training, 10);
  EXPECT_TRUE(same_weights(a, b));
  EXPECT_FALSE(same_weights(a, c));
}

TEST_F(TrainingTest, AFaultChangesNothingBeforeItsFirstStep) {
  TrainingConfig faulty = config();
  faulty.fault = {.kind = Fault::Kind::delta, .amount = 0.1, .first_step = 5};
  Training a(config(), corpus_);
  Training b(faulty, corpus_);
  advance(a, 5);
  advance(b, 5);
  EXPECT_TRUE(same_weights(a, b));
  advance(a, 1);
  advance(b, 1);
  EXPECT_FALSE(same_weights(a, b));
}

TEST_F(TrainingTest, AResumedRunContinuesBitForBit) {
  Training a(config(), corpus_);
  advance(a, 6);
  a.model().attention(1).set_qk_norm(true);
  advance(a, 4);
  std::string error;
  ASSERT_TRUE(a.save(file("step-10"), &error)) << error;
  Training b(config(), corpus_);
  ASSERT_TRUE(b.restore(file("step-10"), &error)) << error;
  EXPECT_EQ(b.step(), 10);
  EXPECT_FALSE(b.model().attention(0).qk_norm());
  EXPECT_TRUE(b.model().attention(1).qk_norm());
  advance(a, 7);
  advance(b, 7);
  EXPECT_TRUE(same_weights(a, b));
  EXPECT_EQ(a.result().loss, b.result().loss);
}

TEST_F(TrainingTest, ADamagedOrForeignCheckpointIsRefusedAndChangesNothing) {
  Training a(config(), corpus_);
  advance(a, 3);
  std::string error;
  ASSERT_TRUE(a.save(file("good"), &error)) << error;
  fs::copy(file("good"), file("flipped"));
  {
    std::fstream flip(file("flipped"), std::ios::in | std::ios::out | std::ios::binary);
    flip.seekp(5000);
    flip.put('x');
  }
  fs::copy(file("good"), file("short"));
  fs::resize_file(file("short"), fs::file_size(file("short")) - 1);
  std::ofstream(file("text")) << std::string(200, 'a');
  TrainingConfig other = config();
  other.shape.heads = 1;
  Training small(other, corpus_);
  ASSERT_TRUE(small.save(file("small"), &error)) << error;

  Training b(config(), corpus_);
  Training untouched(config(), corpus_);
  for (const char* name : {"flipped", "short", "text", "small", "missing"}) {
    error.clear();
    EXPECT_FALSE(b.restore(file(name), &error)) << name;
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_TRUE(same_weights(b, untouched)) << name;
    EXPECT_EQ(b.step(), 0);
  }
}

TEST_F(TrainingTest, AFolderThatIsNotThereIsAnError) {
  const Training a(config(), corpus_);
  std::string error;
  EXPECT_FALSE(a.save(file("no/such/folder"), &error));
  EXPECT_NE(error.find("No such file"), std::string::npos) << error;
}

TEST_F(TrainingTest, AGradientThatIsNotFiniteSkipsTheUpdate) {
  Training a(config(), corpus_);
  advance(a, 2);
  a.model().weights()[a.model().layout().layers[0].qkv] = std::numeric_limits<float>::infinity();
  a.compute();
  EXPECT_TRUE(a.result().skipped);
  const float before = a.model().weights()[0];
  a.update();
  EXPECT_EQ(a.model().weights()[0], before);
  EXPECT_EQ(a.step(), 3);
}

TEST_F(TrainingTest, QkClipScalesTheScoresOfOneHead) {
  Training a(config(), corpus_);
  advance(a, 20);
  a.compute();
  Training b(config(), corpus_);
  advance(b, 20);
  b.model().scale_qk(0, 1, 0.5f);
  b.compute();
  EXPECT_EQ(a.model().attention(0).largest_logit(0), b.model().attention(0).largest_logit(0));
  EXPECT_NEAR(b.model().attention(0).largest_logit(1), 0.25f * a.model().attention(0).largest_logit(1), 1e-4);
}

}  // namespace
}  // namespace foreshock::trainer
