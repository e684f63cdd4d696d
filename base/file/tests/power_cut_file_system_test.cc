#include "foreshock/base/power_cut_file_system.h"

#include <gtest/gtest.h>

namespace foreshock {
namespace {

std::string Contents(FileSystem& fs, const std::string& path) {
  auto contents = ReadWholeFile(fs, path);
  return contents.ok() ? *contents : "<" + std::string(CodeName(contents.status().code())) + ">";
}

// A file written, synced and entered durably.
std::unique_ptr<AppendFile> DurableFile(FileSystem& fs, const std::string& path, std::string_view data) {
  auto file = fs.OpenAppend(path).value();
  EXPECT_TRUE(file->Append(data).ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_TRUE(fs.SyncDir(ParentPath(path)).ok());
  return file;
}

TEST(PowerCut, SyncedBytesInASyncedEntryStay) {
  PowerCutFileSystem fs;
  auto file = DurableFile(fs, "a", "kept");
  ASSERT_TRUE(file->Append(" lost").ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "kept");
  EXPECT_EQ(fs.used_bytes(), 4u);
}

TEST(PowerCut, EntryWithoutSyncDirIsGoneThoughItsBytesWereSynced) {
  PowerCutFileSystem fs;
  auto file = fs.OpenAppend("a").value();
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Sync().ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "<not found>");
}

TEST(PowerCut, EntryWithoutFileSyncIsEmpty) {
  PowerCutFileSystem fs;
  auto file = fs.OpenAppend("a").value();
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(fs.SyncDir(".").ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "");
}

TEST(PowerCut, RenameAndRemoveNeedSyncDir) {
  PowerCutFileSystem fs;
  DurableFile(fs, "a", "old");
  DurableFile(fs, "b", "new");
  ASSERT_TRUE(fs.Rename("b", "a").ok());
  EXPECT_EQ(Contents(fs, "a"), "new");
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "old");
  EXPECT_EQ(Contents(fs, "b"), "new");
  ASSERT_TRUE(fs.Rename("b", "a").ok());
  ASSERT_TRUE(fs.SyncDir(".").ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "new");
  EXPECT_EQ(Contents(fs, "b"), "<not found>");
  ASSERT_TRUE(fs.Remove("a").ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "new");
}

TEST(PowerCut, DirectoriesAreEntriesToo) {
  PowerCutFileSystem fs;
  ASSERT_TRUE(fs.CreateDir("d").ok());
  DurableFile(fs, "d/a", "x");  // syncs d, but nobody synced the entry of d
  fs.PowerCut();
  EXPECT_FALSE(fs.IsDir("d"));
  ASSERT_TRUE(CreateDirs(fs, "d/e").ok());
  fs.PowerCut();
  EXPECT_TRUE(fs.IsDir("d/e"));
}

TEST(PowerCut, OldHandlesAndLocksDie) {
  PowerCutFileSystem fs;
  auto file = DurableFile(fs, "a", "x");
  auto reader = fs.OpenRead("a").value();
  auto lock = fs.Lock("lock").value();
  EXPECT_EQ(fs.Lock("lock").status().code(), Code::kFailedPrecondition);
  fs.PowerCut();
  EXPECT_FALSE(file->Append("y").ok());
  std::string out;
  EXPECT_FALSE(reader->ReadAt(0, 1, &out).ok());
  auto second = fs.Lock("lock");
  EXPECT_TRUE(second.ok());
  lock.reset();  // must not free the new holder's lock
  EXPECT_FALSE(fs.Lock("lock").ok());
}

TEST(PowerCut, UnsyncedTruncationComesBack) {
  PowerCutFileSystem fs;
  DurableFile(fs, "a", "abcdef");
  ASSERT_TRUE(fs.Truncate("a", 2).ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "abcdef");
}

TEST(PowerCut, AtomicReplacementIsAllOldOrAllNew) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    PowerCutFileSystem fs;
    ASSERT_TRUE(WriteFileAtomically(fs, "a", "old contents").ok());
    fs.SetCapacity(20);
    EXPECT_EQ(WriteFileAtomically(fs, "a", "too long for the disk").code(), Code::kResourceExhausted);
    fs.SetCapacity(PowerCutFileSystem::kUnlimited);
    fs.FailSyncs(1);
    EXPECT_FALSE(WriteFileAtomically(fs, "a", "new contents").ok());
    fs.PowerCut({.keep_some = true, .seed = seed});
    EXPECT_EQ(Contents(fs, "a"), "old contents");
    ASSERT_TRUE(WriteFileAtomically(fs, "a", "new contents").ok());
    fs.PowerCut({.keep_some = true, .seed = seed});
    EXPECT_EQ(Contents(fs, "a"), "new contents");
  }
}

TEST(PowerCut, TornTailsAreRandomPrefixes) {
  bool saw_part = false;
  bool saw_zeros = false;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    PowerCutFileSystem fs;
    auto file = DurableFile(fs, "a", "base");
    ASSERT_TRUE(file->Append("0123456789").ok());
    fs.PowerCut({.keep_some = true, .seed = seed});
    const std::string left = Contents(fs, "a");
    ASSERT_TRUE(left.starts_with("base")) << "seed " << seed;
    const std::string tail = left.substr(4);
    const size_t written = std::min(tail.find('\0'), tail.size());
    EXPECT_EQ(tail.substr(0, written), std::string("0123456789").substr(0, written));
    saw_part |= written > 0 && tail.size() == written && written < 10;
    saw_zeros |= written < tail.size();
  }
  EXPECT_TRUE(saw_part);
  EXPECT_TRUE(saw_zeros);
}

// The canary: the same code, with fsync taken out, loses what it thought was safe.
TEST(PowerCut, CanaryWithoutSyncsDataIsLost) {
  PowerCutFileSystem fs;
  fs.SetIgnoreSyncs(true);
  DurableFile(fs, "a", "kept");
  ASSERT_TRUE(WriteFileAtomically(fs, "b", "kept").ok());
  fs.PowerCut();
  EXPECT_EQ(Contents(fs, "a"), "<not found>");
  EXPECT_EQ(Contents(fs, "b"), "<not found>");
}

TEST(PowerCutFaults, DiskFullWritesWhatFits) {
  PowerCutFileSystem fs;
  fs.SetCapacity(6);
  auto file = fs.OpenAppend("a").value();
  EXPECT_TRUE(file->Append("1234").ok());
  const Status full = file->Append("5678");
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_NE(full.message().find("No space left on device"), std::string::npos);
  EXPECT_EQ(Contents(fs, "a"), "123456");
  fs.SetCapacity(8);
  EXPECT_TRUE(file->Append("78").ok());
  ASSERT_TRUE(fs.Remove("a").ok());
  EXPECT_EQ(fs.used_bytes(), 0u);
}

TEST(PowerCutFaults, FailedSyncsAndReadOnly) {
  PowerCutFileSystem fs;
  auto file = DurableFile(fs, "a", "x");
  fs.FailSyncs(2);
  ASSERT_TRUE(file->Append("y").ok());
  EXPECT_EQ(file->Sync().code(), Code::kIo);
  EXPECT_EQ(fs.SyncDir(".").code(), Code::kIo);
  EXPECT_TRUE(file->Sync().ok());
  fs.SetReadOnly(true);
  EXPECT_EQ(file->Append("z").code(), Code::kPermissionDenied);
  EXPECT_EQ(fs.CreateDir("d").code(), Code::kPermissionDenied);
  EXPECT_EQ(Contents(fs, "a"), "xy");
}

}  // namespace
}  // namespace foreshock
