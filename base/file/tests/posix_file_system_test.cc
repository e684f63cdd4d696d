#include <gtest/gtest.h>
#include <stdlib.h>

#include "foreshock/base/file.h"

namespace foreshock {
namespace {

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/foreshock_file_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { RemoveTree(dir_); }

  void RemoveTree(const std::string& path) {
    if (fs_.IsDir(path)) {
      const std::vector<std::string> names = fs_.List(path).value();
      for (const std::string& name : names) RemoveTree(JoinPath(path, name));
    }
    fs_.Remove(path).IgnoreError();
  }

  std::string Path(std::string_view name) const { return JoinPath(dir_, name); }

  FileSystem& fs_ = PosixFileSystem();
  std::string dir_;
};

TEST_F(PosixFileSystemTest, AppendsAndReads) {
  {
    auto file = fs_.OpenAppend(Path("a"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->Append("hello ").ok());
    EXPECT_TRUE((*file)->Sync().ok());
    EXPECT_TRUE((*file)->Close().ok());
    EXPECT_FALSE((*file)->Append("x").ok());
  }
  auto again = fs_.OpenAppend(Path("a"));
  ASSERT_TRUE((*again)->Append("world").ok());
  EXPECT_EQ(ReadWholeFile(fs_, Path("a")).value(), "hello world");
  EXPECT_EQ(ReadWholeFile(fs_, Path("a"), 3).status().code(), Code::kResourceExhausted);

  auto reader = fs_.OpenRead(Path("a"));
  std::string out;
  ASSERT_TRUE((*reader)->ReadAt(6, 100, &out).ok());
  EXPECT_EQ(out, "world");
  ASSERT_TRUE((*reader)->ReadAt(100, 1, &out).ok());
  EXPECT_EQ(out, "");
  ASSERT_TRUE(fs_.Truncate(Path("a"), 5).ok());
  EXPECT_EQ(fs_.Size(Path("a")).value(), 5u);
}

TEST_F(PosixFileSystemTest, FailuresHaveTheSystemsWords) {
  const auto missing = fs_.OpenRead(Path("none"));
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  EXPECT_NE(missing.status().message().find("No such file or directory"), std::string::npos);
  EXPECT_NE(missing.status().message().find("none"), std::string::npos);
  EXPECT_EQ(fs_.CreateDir(dir_).code(), Code::kAlreadyExists);
  EXPECT_EQ(fs_.Remove(Path("none")).code(), Code::kNotFound);
}

TEST_F(PosixFileSystemTest, FullDiskIsResourceExhausted) {
  auto full = fs_.OpenAppend("/dev/full");
  if (!full.ok()) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ((*full)->Append("x").code(), Code::kResourceExhausted);
}

TEST_F(PosixFileSystemTest, DirectoriesRenameAndList) {
  ASSERT_TRUE(CreateDirs(fs_, Path("x/y/z")).ok());
  ASSERT_TRUE(CreateDirs(fs_, Path("x/y/z")).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("x/b"), "1").ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("x/b"), "2").ok());
  EXPECT_EQ(ReadWholeFile(fs_, Path("x/b")).value(), "2");
  ASSERT_TRUE(fs_.Rename(Path("x/b"), Path("x/a")).ok());
  EXPECT_EQ(fs_.List(Path("x")).value(), (std::vector<std::string>{"a", "y"}));
  EXPECT_EQ(fs_.Remove(Path("x/y")).code(), Code::kAlreadyExists);  // not empty
  EXPECT_TRUE(fs_.Remove(Path("x/y/z")).ok());
}

TEST_F(PosixFileSystemTest, OneHolderOfALock) {
  auto held = fs_.Lock(Path("lock"));
  ASSERT_TRUE(held.ok());
  const auto second = fs_.Lock(Path("lock"));
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(second.status().message().find("held by process"), std::string::npos);
  held->reset();
  EXPECT_TRUE(fs_.Lock(Path("lock")).ok());
}

TEST(Paths, JoinAndParent) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(ParentPath("a/b"), "a");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath("a/b/"), "a");
}

}  // namespace
}  // namespace foreshock
