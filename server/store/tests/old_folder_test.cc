// Folders that the stores of folder versions 1, 2 and 3 wrote are taken over: every value as it came.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "database.h"
#include "foreshock/server/store/check.h"
#include "keys.h"
#include "old_folder.h"
#include "run_archive_support.h"

namespace foreshock::store {
namespace {

using test::Everything;

struct Old {
  std::string version;
  bool sealed = false;  // then without the shards of partial values, a fault; version 1 knew none at all
};

std::string VersionOf(const std::string& folder) {
  const auto db = Database::Open({.folder = folder});
  return db.ok() ? *(*db)->Get(FormatKey()) : db.status().ToString();
}

// The frames without their shards, and how many have some.
Everything WithoutShards(const Everything& frames, size_t* with_shards) {
  Everything out;
  for (const auto& [key, bytes] : frames) {
    wire::Frame frame = *wire::DecodeFrame(bytes);
    for (wire::Series& series : frame.series) {
      *with_shards += series.shards > 0 ? 1 : 0;
      series.shard = series.shards = 0;
    }
    out[key] = wire::Encode(frame);
  }
  return out;
}

std::vector<std::string> OthersOf(const Store& store) {
  std::vector<std::string> all;
  for (const StoredEvent& stored : *store.ReadEvents("pair", "1")) all.push_back(wire::Encode(stored.event));
  for (const QuarantinedRecord& record : *store.ReadQuarantine("pair", 100))
    all.push_back(record.reason + " " + std::to_string(record.seq) + " " + record.payload);
  for (const auto& left : *store.UnmergedSteps()) all.push_back(std::to_string(left.step));
  all.push_back(*store.GetMeta("alert", "pair", "pair/x"));
  all.push_back(*store.GetMeta("audit", "", "1"));
  return all;
}

class OldFolder : public testing::TestWithParam<Old> {};

TEST_P(OldFolder, IsTakenOver) {
  const test::Folder folder, fresh;
  const std::string path = folder.path() + "/store";
  std::filesystem::copy(FORESHOCK_STORE_DATA "/version-" + GetParam().version, path);
  ASSERT_EQ(VersionOf(path), GetParam().version);
  const auto today = Store::Open({.folder = fresh.path() + "/store", .seal_steps = 0});
  ASSERT_TRUE(today.ok());
  test::FillOldFolder(today->get());

  auto store = Store::Open({.folder = path});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const auto expect_same = [&] {
    for (const char* run : {"pair", "alone"}) {
      size_t shards_here = 0, shards_as_sent = 0;
      const Everything here = test::AllFrames(**store, run), as_sent = test::AllFrames(**today, run);
      EXPECT_EQ(WithoutShards(here, &shards_here), WithoutShards(as_sent, &shards_as_sent)) << run;
      EXPECT_LT(shards_here, shards_as_sent);
      EXPECT_EQ(shards_here > 0, GetParam().sealed) << "open frames have theirs";
      EXPECT_EQ(test::AllSources(**store, run), test::AllSources(**today, run));
    }
    EXPECT_EQ(OthersOf(**store), OthersOf(**today));
  };
  expect_same();
  ASSERT_TRUE((*store)->Settle().ok());
  EXPECT_GE((*store)->stats().sealed_frames, GetParam().sealed ? 0u : 80u);
  expect_same();
  store->reset();
  EXPECT_EQ(VersionOf(path), "4");
  const auto report = CheckStore({.folder = path});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->faults, 0u) << (report->first_faults.empty() ? "" : report->first_faults[0]);
  EXPECT_GE(report->groups, 4u);
  store = Store::Open({.folder = path});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  expect_same();
}

INSTANTIATE_TEST_SUITE_P(Versions, OldFolder,
                         testing::Values(Old{"1", false}, Old{"2", true}, Old{"3", true}),
                         [](const auto& version) { return version.param.version; });

}  // namespace
}  // namespace foreshock::store
