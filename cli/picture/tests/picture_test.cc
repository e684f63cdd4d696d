#include "foreshock/cli/picture.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace foreshock::cli {
namespace {

namespace fs = std::filesystem;

class PictureTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "picture-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    chmod(name.c_str(), 0755);  // root has the browser run by nobody
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A program in place of a browser that does not do what it should.
  std::string Program(const std::string& script) const {
    const fs::path path = folder_ / "browser";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return path.string();
  }
  std::string Png() const { return (folder_ / "page.png").string(); }

  fs::path folder_;
  PictureOptions options_;
};

TEST_F(PictureTest, DrawsTheWholePage) {
  const auto browser = FindBrowser();
  if (!browser.ok()) GTEST_SKIP() << browser.status().message();
  const std::string html =
      "<body style='margin:0'><div style='height:2345px;background:#08f'></div><script>"
      "document.documentElement.dataset.height = document.documentElement.scrollHeight</script>";
  const Status status = DrawPage(*browser, html, Png(), options_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  std::ifstream in(Png(), std::ios::binary);
  std::string head(24, '\0');
  in.read(head.data(), 24);
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(head[at + i]);
    return value;
  };
  EXPECT_EQ(number(16), 1280u);
  EXPECT_EQ(number(20), 2345u) << "the page's own height";
}

TEST_F(PictureTest, ABrowserThatFailsLeavesNoFile) {
  const Status status = DrawPage(Program("exit 3"), "<p>", Png(), options_);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("status 3"), std::string::npos) << status.message();
  EXPECT_FALSE(fs::exists(Png()));
}

TEST_F(PictureTest, ABrowserThatDrawsNothingIsAnError) {
  const Status status = DrawPage(Program("exit 0"), "<p>", Png(), options_);
  EXPECT_NE(status.message().find("drew no picture"), std::string::npos) << status.message();
  EXPECT_FALSE(fs::exists(Png()));
}

TEST_F(PictureTest, ABrowserThatHangsIsEnded) {
  options_.timeout = std::chrono::milliseconds(50);
  const Status status = DrawPage(Program("sleep 600"), "<p>", Png(), options_);
  EXPECT_NE(status.message().find("not done within 50 ms"), std::string::npos) << status.message();
}

TEST_F(PictureTest, AMissingBrowserIsNamed) {
  const Status status = DrawPage((folder_ / "nobody").string(), "<p>", Png(), options_);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("nobody"), std::string::npos) << status.message();
}

TEST_F(PictureTest, AFolderThatIsNotThereIsAnError) {
  const std::string png = "printf '\\211PNG\\r\\n\\032\\n' ";
  const std::string browser = Program("for word in \"$@\"; do case $word in --screenshot=*) " + png +
                                      ">\"${word#--screenshot=}\" ;; esac; done");
  const Status status = DrawPage(browser, "<p>", (folder_ / "none" / "page.png").string(), options_);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("none/page.png"), std::string::npos) << status.message();
  EXPECT_TRUE(DrawPage(browser, "<p>", Png(), options_).ok());
}

}  // namespace
}  // namespace foreshock::cli
