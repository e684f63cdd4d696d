#include "foreshock/base/socket_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace foreshock {
namespace {

using ::testing::HasSubstr;

// A parent that everybody may write to, as /tmp is.
class SocketFolderTest : public ::testing::Test {
 protected:
  SocketFolderTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foreshock.XXXXXX").string();
    parent_ = ::mkdtemp(pattern.data());
    ::chmod(parent_.c_str(), 01777);
    folder_ = parent_ + "/foreshock-1000";
  }
  ~SocketFolderTest() override { std::filesystem::remove_all(parent_); }

  mode_t Mode() const {
    struct stat info {};
    ::stat(folder_.c_str(), &info);
    return info.st_mode & 0777;
  }

  std::string parent_, folder_;
};

TEST_F(SocketFolderTest, IsMadeForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  EXPECT_TRUE(MakeSocketFolder(folder_).ok());
  ::umask(before);
  EXPECT_EQ(Mode(), ::geteuid() == 0 ? mode_t{0755} : mode_t{0700});
  EXPECT_TRUE(MakeSocketFolder(folder_).ok()) << "again";
  EXPECT_TRUE(CheckSocketFolder(folder_).ok());
}

TEST_F(SocketFolderTest, OneThatOthersMayWriteToIsRefusedByNameAndMode) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  for (const mode_t mode : {0720, 0702, 0777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    const Status status = CheckSocketFolder(folder_);
    EXPECT_EQ(status.code(), Code::kPermissionDenied);
    EXPECT_THAT(status.message(), HasSubstr(folder_ + " has mode 07"));
    EXPECT_FALSE(MakeSocketFolder(folder_).ok());
  }
}

TEST_F(SocketFolderTest, ALinkIsRefused) {
  const std::string elsewhere = parent_ + "/elsewhere";
  ASSERT_EQ(::mkdir(elsewhere.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), folder_.c_str()), 0);
  EXPECT_THAT(CheckSocketFolder(folder_).message(), HasSubstr("is a link"));
}

TEST_F(SocketFolderTest, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chown(folder_.c_str(), 4321, 4321), 0);
  EXPECT_THAT(CheckSocketFolder(folder_).message(), HasSubstr("belongs to user 4321"));
}

// Where only trusted users put folders, whose they are is their business (a service's own user).
TEST_F(SocketFolderTest, UnderAClosedParentAnyFolderIsTaken) {
  ASSERT_EQ(::chmod(parent_.c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0770), 0);
  EXPECT_TRUE(CheckSocketFolder(folder_).ok());
  EXPECT_TRUE(CheckSocketFolder(parent_ + "/none").ok());
}

}  // namespace
}  // namespace foreshock
