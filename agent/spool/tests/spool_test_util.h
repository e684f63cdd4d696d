// Short hands for the spool's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "foreshock/agent/spool.h"
#include "foreshock/base/power_cut_file_system.h"

namespace foreshock::agent {

inline SourceKey Key(uint32_t rank, uint64_t incarnation = 1) {
  return {"run", "attempt", rank, incarnation};
}

inline std::string Payload(uint32_t rank, uint64_t seq, size_t padding = 0) {
  return "rank " + std::to_string(rank) + " seq " + std::to_string(seq) + std::string(padding, '.');
}

inline std::unique_ptr<Spool> OpenSpool(FileSystem& fs, const SpoolOptions& options = {},
                                        SpoolRecovery* recovery = nullptr) {
  SpoolRecovery local;
  auto spool = Spool::Open(fs, "spool/dir", options, recovery != nullptr ? recovery : &local);
  EXPECT_TRUE(spool.ok()) << spool.status().ToString();
  return std::move(spool).value();
}

// Appends seqs first..last of a rank in one batch.
inline Status AppendRange(Spool& spool, uint32_t rank, uint64_t first, uint64_t last, size_t padding = 0) {
  std::vector<std::string> payloads;
  for (uint64_t seq = first; seq <= last; ++seq) payloads.push_back(Payload(rank, seq, padding));
  std::vector<SpoolItem> items;
  for (uint64_t seq = first; seq <= last; ++seq) items.push_back({seq, 2, payloads[seq - first]});
  return spool.Append(Key(rank), items);
}

// Everything that can be read of a rank now.
inline std::vector<SpoolRecord> ReadAll(Spool& spool, uint32_t rank, uint64_t after = 0) {
  auto reader = spool.Read(Key(rank), after);
  std::vector<SpoolRecord> records;
  SpoolRecord record;
  for (;;) {
    const auto next = reader->Next(&record, std::chrono::nanoseconds(0));
    if (!next.ok()) {
      EXPECT_EQ(next.status().code(), Code::kNotFound) << next.status().ToString();
      return records;
    }
    if (!*next) return records;
    records.push_back(record);
  }
}

inline std::vector<uint64_t> Seqs(const std::vector<SpoolRecord>& records) {
  std::vector<uint64_t> seqs;
  for (const SpoolRecord& record : records) seqs.push_back(record.seq);
  return seqs;
}

}  // namespace foreshock::agent
