#include "foreshock/cli/import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "foreshock/base/catalogue.h"
#include "foreshock/jsonl/text_recording.h"

namespace foreshock::cli {
namespace {

struct Read {
  std::vector<wire::Hello> hellos;
  std::vector<wire::Frame> frames;
  Imported imported;
};

Read Take(const std::string& text, const ImportOptions& options = {}, const std::string& name = "log") {
  Read read;
  auto imported = ReadLog(text, name, options);
  EXPECT_TRUE(imported.ok()) << imported.status().ToString();
  if (!imported.ok()) return read;
  for (const auto& item : imported->items) {
    if (const auto* hello = std::get_if<wire::Hello>(&item)) read.hellos.push_back(*hello);
    if (const auto* frame = std::get_if<wire::Frame>(&item)) read.frames.push_back(*frame);
  }
  read.imported = *std::move(imported);
  return read;
}

float Value(const wire::Frame& frame, uint16_t signal) {
  const wire::Series* series = frame.Find(signal);
  return series ? series->values.at(0) : -1;
}

std::string ErrorOf(const std::string& text, const ImportOptions& options = {}) {
  return ReadLog(text, "log", options).status().message();
}

TEST(ImportCsv, TakesKnownColumnsAndNamesTheOthers) {
  const Read read =
      Take("step,train/loss,lr,val\n0,5.5,1e-3,x\n10,\"4.25\",,y\r\n\n20,nan,2e-3,z\n", {}, "a/gpt.csv");
  ASSERT_EQ(read.frames.size(), 3u);
  EXPECT_EQ(read.hellos.at(0).run, "gpt");
  EXPECT_EQ(Value(read.frames[0], kLoss), 5.5f);
  EXPECT_EQ(Value(read.frames[1], kLoss), 4.25f);
  EXPECT_EQ(read.frames[1].Find(kLearningRate), nullptr);
  EXPECT_TRUE(std::isnan(Value(read.frames[2], kLoss)));
  EXPECT_EQ(read.imported.columns_left_out, std::vector<std::string>{"val"});
  EXPECT_EQ(read.imported.columns_used,
            (std::vector<std::string>{"learning_rate <- lr", "loss <- train/loss"}));
}

TEST(ImportCsv, OtherSeparatorsQuotesAndByteOrderMarks) {
  EXPECT_EQ(Take("\xef\xbb\xbfstep;loss\n1;2\n").frames.size(), 1u);
  EXPECT_EQ(Take("step\tnote\tloss\n1\t\"two\nlines, \"\"quoted\"\"\"\t2\n3\t\t4").frames.size(), 2u);
}

TEST(ImportCsv, ErrorsNameLineColumnAndValue) {
  EXPECT_EQ(ErrorOf("step,loss\n1,2\n2,abc\n"), "line 3: loss: 'abc': not a number");
  EXPECT_EQ(ErrorOf("step,loss\n1.5,2\n"),
            "line 2: step: '1.5': not a step (a whole number from 0 to 1000000000000)");
  EXPECT_EQ(ErrorOf("step,loss\n-1,2\n").substr(0, 18), "line 2: step: '-1'");
  EXPECT_EQ(ErrorOf("step,loss\n1,2,3\n2,3\n"), "line 2: 3 fields, the header has 2");
  EXPECT_EQ(ErrorOf("step,loss\n1,\"2\n"), "line 2: a quote that is not closed");
  EXPECT_EQ(ErrorOf("step,accuracy\n1,2\n"),
            "no column is a known signal; name one with --map. Columns: accuracy");
  EXPECT_NE(ErrorOf("time,loss\n1,2\n").find("no column counts steps; name one with --step"),
            std::string::npos);
  EXPECT_NE(ErrorOf("").find("no column is a known signal"), std::string::npos);
}

TEST(ImportCsv, TornLastLineIsAWarning) {
  const Read read = Take("step,loss\n1,2\n2");
  EXPECT_EQ(read.frames.size(), 1u);
  ASSERT_EQ(read.imported.warnings.size(), 1u);
  EXPECT_NE(read.imported.warnings[0].find("line 3: torn"), std::string::npos);
}

TEST(Import, MapsColumnsAndRefusesUnknownSignals) {
  const ImportOptions options{.step_column = "n", .map = {"perte=loss", "loss="}};
  const Read read = Take("n,perte,loss,step\n1,2,9,8\n", options);
  EXPECT_EQ(read.frames.at(0).step, 1);
  EXPECT_EQ(Value(read.frames[0], kLoss), 2);
  EXPECT_NE(ErrorOf("step,loss\n1,2\n", {.map = {"a=lss"}}).find("map: 'a=lss': no such signal"),
            std::string::npos);
  EXPECT_NE(ErrorOf("step,loss\n1,2\n", {.map = {"a"}}).find("expected COLUMN=SIGNAL"), std::string::npos);
  EXPECT_EQ(Take("step,loss\n1,2\n", {.map = {"a=loss"}}).imported.warnings.at(0),
            "map: a: the log has no such column");
}

TEST(Import, ValuesOfHeads) {
  const Read read =
      Take("step,\"logit_max[1,0]\",\"logit_max[1,2]\",\"entropy_mean[0,1]\"\n5,1,2,3\n", {.head_dim = 64});
  ASSERT_EQ(read.hellos.at(0).model.layers.size(), 2u);
  EXPECT_EQ(read.hellos[0].model.layers[1].query_heads, 3u);
  EXPECT_EQ(read.hellos[0].model.layers[1].head_dim, 64u);
  const wire::Series* logits = read.frames.at(0).Find(kLogitMax, 1);
  ASSERT_NE(logits, nullptr);
  EXPECT_EQ(logits->heads, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(logits->values, (std::vector<float>{1, 2}));
  EXPECT_EQ(read.frames[0].Find(kEntropyMean, 0)->weight(0), 1);
}

TEST(Import, StepsThatGoBackAreAnotherAttemptAndBothAreKept) {
  const Read read = Take("step,loss\n200,1\n212,2\n200,3\n201,4\n");
  ASSERT_EQ(read.hellos.size(), 2u);
  EXPECT_EQ(read.hellos[1].attempt, "2");
  EXPECT_EQ(read.frames.size(), 4u);
  EXPECT_NE(read.imported.warnings.at(0).find("line 4: step 200 after step 212: a new attempt"),
            std::string::npos);
}

TEST(Import, SeveralRowsOfOneStepComeTogether) {
  const Read read = Take("step,loss,lr\n1,2,\n1,,3\n1,4,\n");
  ASSERT_EQ(read.frames.size(), 1u);
  EXPECT_EQ(Value(read.frames[0], kLoss), 4);
  EXPECT_EQ(Value(read.frames[0], kLearningRate), 3);
  EXPECT_EQ(read.imported.warnings.at(0), "1 values came twice for one step: the later ones are kept");
}

TEST(ImportJsonl, NestedNamesNullsAndPythonsNan) {
  const Read read = Take(
      "{\"iteration\": 1, \"train\": {\"loss\": 2.5, \"grad-norm\": null}, \"list\": [1]}\n"
      "{\"iteration\": 2, \"train\": {\"loss\": NaN, \"grad-norm\": -Infinity}, \"text\": \"NaN \\\" "
      "NaN\"}\n");
  ASSERT_EQ(read.frames.size(), 2u);
  EXPECT_EQ(Value(read.frames[0], kLoss), 2.5f);
  EXPECT_EQ(read.frames[0].Find(kGradNorm), nullptr);
  EXPECT_TRUE(std::isnan(Value(read.frames[1], kLoss)));
  EXPECT_TRUE(std::isinf(Value(read.frames[1], kGradNorm)));
}

TEST(ImportJsonl, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOf("{\"step\":1,\"loss\":2}\n{\"step\":\n{}\n"), "line 2: not valid JSON");
  EXPECT_EQ(ErrorOf("{\"step\":1,\"loss\":2}\n[1]\n"), "line 2: not a JSON object");
  EXPECT_EQ(ErrorOf("{\"step\":1,\"loss\":true}\n"), "line 1: loss: 'true': not a number");
  EXPECT_EQ(Take("{\"step\":1,\"loss\":2}\n{\"step\":2,").imported.warnings.at(0), "line 2: torn, left out");
}

TEST(ImportTrainerState, ReadsTheHistoryButNotItsSummary) {
  const Read read = Take(R"({
  "best_metric": null,
  "log_history": [
    {"epoch": 0.1, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.5, "step": 10},
    {"epoch": 0.1, "eval_loss": 9.0, "eval_runtime": 3.1, "step": 10},
    {"epoch": 0.2, "grad_norm": NaN, "learning_rate": 4e-05, "loss": 0.0, "step": 20},
    {"epoch": 0.2, "step": 20, "total_flos": 1e15, "train_loss": 7.5, "train_runtime": 100.0}
  ],
  "max_steps": 20
})");
  ASSERT_EQ(read.frames.size(), 2u);
  EXPECT_EQ(Value(read.frames[0], kLoss), 2.5f);
  EXPECT_EQ(Value(read.frames[1], kLoss), 0);
  EXPECT_TRUE(std::isnan(Value(read.frames[1], kGradNorm)));
}

TEST(ImportTrainerState, ErrorsNameLineOrEntry) {
  EXPECT_EQ(ErrorOf("{\n\"log_history\": [\n{\"step\": 1,,}\n]}"), "line 3: not valid JSON");
  EXPECT_EQ(ErrorOf("{\"log_history\": [{\"step\": 1, \"loss\": 2}, 3]}"),
            "log_history entry 1: not a JSON object");
  EXPECT_NE(ErrorOf("{}", {.format = LogFormat::kTrainerState}).find("log_history: missing"),
            std::string::npos);
}

TEST(ImportCommand, WritesRecordingsThatAreReadBackTheSame) {
  const std::string folder = testing::TempDir() + "foreshock_import";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/log.csv") << "step,loss,grad_norm\n0,5.5,1\n10,4.5,\n20,nan,inf\n";
  for (const std::string name : {"/out.jsonl", "/out.fsk"}) {
    std::ostringstream out, err;
    ASSERT_EQ(RunImport(folder + "/log.csv", folder + name, {}, {}, out, err), 0) << err.str();
    EXPECT_NE(out.str().find("3 frames"), std::string::npos) << out.str();
    std::ostringstream bytes;
    bytes << std::ifstream(folder + name, std::ios::binary).rdbuf();
    std::vector<wire::Frame> frames;
    std::vector<std::string> warnings;
    const auto each = [&](wire::RecordingItem item) {
      if (auto* frame = std::get_if<wire::Frame>(&item)) frames.push_back(std::move(*frame));
    };
    const Status read = name == "/out.fsk" ? wire::ReadFramedRecording(bytes.str(), each, &warnings)
                                           : jsonl::ReadTextRecording(bytes.str(), each, &warnings);
    ASSERT_TRUE(read.ok()) << read.ToString();
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(Value(frames[1], kLoss), 4.5f);
    EXPECT_EQ(frames[1].Find(kGradNorm), nullptr);
    EXPECT_TRUE(std::isnan(Value(frames[2], kLoss)));
  }
  std::filesystem::remove_all(folder);
}

TEST(ImportCommand, BadLogsWriteNothing) {
  const std::string folder = testing::TempDir() + "foreshock_import_bad";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/log.csv") << "step,loss\n0,5.5\n10,x\n";
  std::ostringstream out, err;
  EXPECT_EQ(RunImport(folder + "/log.csv", folder + "/out.fsk", {}, {}, out, err), 2);
  EXPECT_NE(err.str().find("log.csv: line 3: loss: 'x'"), std::string::npos) << err.str();
  EXPECT_FALSE(std::filesystem::exists(folder + "/out.fsk"));
  EXPECT_EQ(RunImport(folder + "/none.csv", folder + "/out.fsk", {}, {}, out, err), 2);
  std::filesystem::remove_all(folder);
}

TEST(ImportCommand, TellsWhatWasTakenAsJson) {
  const std::string folder = testing::TempDir() + "foreshock_import_json";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/log.csv") << "step,loss,banana\n0,5.5,1\n";
  ImportOptions options;
  options.json = true;
  std::ostringstream out, err;
  ASSERT_EQ(RunImport(folder + "/log.csv", folder + "/out.fsk", options, {}, out, err), 0) << err.str();
  EXPECT_NE(out.str().find("\"frames\":1,\"taken\":[\"loss"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("\"left_out\":[\"banana\"]"), std::string::npos) << out.str();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace foreshock::cli
