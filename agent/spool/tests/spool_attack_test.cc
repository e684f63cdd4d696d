// Acknowledgements that run ahead: of the disk, of the spool's own memory.
#include "spool_test_util.h"

namespace foreshock::agent {
namespace {

// A kill between write and sync leaves records that only the kernel has. The next life finds them and says so
// to the trainer, which then forgets them: from that moment on they must survive a power cut.
TEST(SpoolAttack, WhatAStartFindsAndPromisesIsOnTheDisk) {
  PowerCutFileSystem fs;
  OpenSpool(fs).reset();
  fs.SetIgnoreSyncs(true);
  {
    auto spool = OpenSpool(fs);
    ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
    ASSERT_TRUE(AppendRange(*spool, 0, 1, 5).ok());
  }
  fs.SetIgnoreSyncs(false);
  {
    auto spool = OpenSpool(fs);
    const auto promised = spool->OpenSource(Key(0), "h");
    ASSERT_TRUE(promised.ok());
    EXPECT_EQ(*promised, 5u);
    // Also by acknowledging a repetition.
    EXPECT_TRUE(AppendRange(*spool, 0, 1, 5).ok());
    fs.PowerCut();
  }
  EXPECT_EQ(Seqs(ReadAll(*OpenSpool(fs), 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

// The spool has forgotten a source that left with everything acknowledged. It comes back, the server says
// what it has, and only then the trainer repeats what it never saw acknowledged: none of that may wait for an
// acknowledgement that was given already.
TEST(SpoolAttack, RecordsThatTheServerAlreadyHasDoNotStayForEver) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_EQ(spool->OpenSource(Key(0), "h").value(), 0u);
  spool->Acknowledge(Key(0), 5);
  ASSERT_TRUE(AppendRange(*spool, 0, 3, 5).ok());
  EXPECT_EQ(spool->Stats().pending, 0u);
  ASSERT_TRUE(AppendRange(*spool, 0, 5, 6).ok());
  EXPECT_EQ(spool->Stats().pending, 1u);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), std::vector<uint64_t>{6});
  spool->Acknowledge(Key(0), 6);
  spool->CloseSource(Key(0));
  EXPECT_TRUE(spool->Sources().empty());
}

TEST(SpoolAttack, NamesThatAreNoSegmentsAreLeftAlone) {
  PowerCutFileSystem fs;
  OpenSpool(fs).reset();
  for (const char* name : {"segment-7", "segment-00000000000000000008", "segment-0000000009.bak"}) {
    ASSERT_TRUE(WriteFileAtomically(fs, std::string("spool/dir/") + name, "mine").ok());
  }
  SpoolRecovery recovery;
  OpenSpool(fs, {}, &recovery).reset();
  EXPECT_EQ(recovery.segments, 0u);
  EXPECT_TRUE(fs.Size("spool/dir/segment-7").ok());
}

}  // namespace
}  // namespace foreshock::agent
