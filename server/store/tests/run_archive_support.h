// What tests of archives share: frames with every kind of bits, and all of a run, to be compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "foreshock/archive/entry.h"
#include "foreshock/server/store/store.h"
#include "store_test_support.h"

namespace foreshock::store::test {

inline wire::Frame HeadsFrame(int64_t step, uint32_t seed) {
  std::mt19937 random(seed + static_cast<uint32_t>(step));
  wire::Frame frame;
  frame.step = step;
  frame.time_unix_ns = static_cast<uint64_t>(step) * 1000;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    std::vector<float> values;
    for (int head = 0; head < 4; ++head) {
      const uint32_t bits = random();  // NaN and infinities with their payloads among them
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    }
    frame.series.push_back(HeadSeries(kLogitMax, layer, values));
  }
  return frame;
}

inline std::vector<archive::Entry> Exported(const Store& store, const std::string& run,
                                            int64_t now_unix_ns = 3'000) {
  std::vector<archive::Entry> entries;
  const Status status = store.ExportRun(run, now_unix_ns, [&](archive::Entry entry) {
    entries.push_back(std::move(entry));
    return OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return entries;
}

inline archive::Begin BeginOf(const std::string& run) { return {run, 11, 12, "test"}; }

inline Result<RunImport::Outcome> Import(Store& store, const std::string& run,
                                         const std::vector<archive::Entry>& entries, size_t most = SIZE_MAX) {
  FS_ASSIGN_OR_RETURN(auto import, store.StartImport(BeginOf(run), 13));
  for (size_t i = 0; i < std::min(most, entries.size()); ++i) FS_RETURN_IF_ERROR(import->Add(entries[i]));
  if (most < entries.size()) return Status(Code::kUnavailable, "broken off");
  return import->Finish();
}

// Every frame as it is stored, of each rank and merged, by attempt, rank, incarnation and number.
using Everything = std::map<std::tuple<std::string, uint32_t, uint32_t, int64_t, uint64_t>, std::string>;
inline Everything AllFrames(const Store& store, const std::string& run) {
  Everything all;
  const auto info = store.GetRun(run);
  EXPECT_TRUE(info.ok());
  for (const AttemptInfo& attempt : info->attempts) {
    std::set<uint32_t> ranks = {kMerged};
    for (const SourceInfo& source : attempt.sources) ranks.insert(source.id.rank);
    for (const uint32_t rank : ranks) {
      FrameQuery query{.run = run, .attempt = attempt.attempt, .rank = rank};
      query.every_incarnation = true;
      EXPECT_TRUE(
          store
              .ReadFrames(
                  query,
                  [&](StoredFrame stored) {
                    all[{attempt.attempt, rank, stored.incarnation, stored.frame.step, stored.frame.seq}] =
                        wire::Encode(stored.frame);
                    return true;
                  })
              .ok());
    }
  }
  return all;
}

// What is counted of every process.
inline std::vector<std::string> AllSources(const Store& store, const std::string& run) {
  std::vector<std::string> all;
  const auto info = store.GetRun(run);
  for (const AttemptInfo& attempt : info->attempts) {
    all.push_back(attempt.attempt + " " + std::to_string(attempt.number) + " " +
                  std::to_string(attempt.first_unix_ns));
    for (const SourceInfo& s : attempt.sources) {
      std::string line = wire::Encode(*s.hello);
      for (const uint64_t number :
           {s.durable_seq, s.frames, s.events, s.duplicates, s.dropped, s.gaps, s.quarantined})
        line += " " + std::to_string(number);
      line += " " + std::to_string(s.clock_skew_ns) + " " + std::to_string(s.first_unix_ns) + " " +
              std::to_string(s.last_unix_ns) + " " + std::to_string(s.last_step.value_or(-1)) +
              (s.goodbye ? wire::Encode(*s.goodbye) : "");
      all.push_back(std::move(line));
    }
  }
  return all;
}

}  // namespace foreshock::store::test
