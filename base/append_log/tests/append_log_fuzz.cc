// Seeded random damage: whatever happens to the bytes, the reader ends, gives only records that were written,
// in order, and every record that no damage touched. FORESHOCK_FUZZ_SEED and FORESHOCK_FUZZ_RUNS widen the
// search.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "foreshock/base/append_log.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/tests/environment.h"

namespace foreshock {
namespace {

constexpr uint32_t kFuzzKind = LogKind("FUZZ");

struct Written {
  uint64_t begin;
  uint64_t end;
  std::string payload;
  bool touched = false;
};

std::vector<Written> WriteRandomLog(FileSystem& fs, std::mt19937_64& random) {
  LogRecovery recovery;
  auto writer = AppendLogWriter::Open(fs, "log", kFuzzKind, nullptr, &recovery).value();
  std::vector<Written> records(1 + random() % 30);
  for (size_t i = 0; i < records.size(); ++i) {
    Written& record = records[i];
    record.payload = std::to_string(i) + ":";
    const size_t length = random() % 4 == 0 ? random() % 5000 : random() % 40;
    for (size_t k = 0; k < length; ++k)
      record.payload.push_back(static_cast<char>(random() % 7 == 0 ? random() : 0));
    record.begin = writer->next_offset();
    EXPECT_TRUE(writer->Append(static_cast<uint8_t>(random()), record.payload).ok());
    record.end = writer->next_offset();
  }
  EXPECT_TRUE(writer->Sync().ok());
  return records;
}

void Damage(std::string* bytes, std::vector<Written>* records, std::mt19937_64& random) {
  const uint64_t kind = random() % 4;
  const uint64_t begin = random() % bytes->size();
  uint64_t end = std::min<uint64_t>(bytes->size(), begin + 1 + random() % 64);
  if (kind == 0) {
    end = bytes->size();
    bytes->resize(begin);
  } else if (kind == 1) {
    std::fill(bytes->begin() + static_cast<long>(begin), bytes->begin() + static_cast<long>(end), '\0');
  } else {
    for (uint64_t i = begin; i < end; ++i)
      (*bytes)[i] = static_cast<char>((*bytes)[i] ^ (1 + random() % 255));
  }
  for (Written& record : *records) record.touched |= record.begin < end && begin < record.end;
}

void FuzzOnce(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  PowerCutFileSystem fs;
  std::vector<Written> records = WriteRandomLog(fs, random);
  std::string bytes = ReadWholeFile(fs, "log").value();
  for (uint64_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) Damage(&bytes, &records, random);
  ASSERT_TRUE(fs.Remove("log").ok());
  ASSERT_TRUE(fs.OpenAppend("log").value()->Append(bytes).ok());

  auto opened = AppendLogReader::Open(fs, "log", kFuzzKind);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  size_t next = 0;
  for (;;) {
    LogRecord record;
    const auto outcome = (*opened)->Next(&record);
    ASSERT_NE(outcome, AppendLogReader::Outcome::kIoError);
    if (outcome == AppendLogReader::Outcome::kCorrupt) continue;
    if (outcome != AppendLogReader::Outcome::kRecord) break;
    while (next < records.size() && records[next].payload != record.payload) {
      EXPECT_TRUE(records[next].touched) << "lost record " << next;
      ++next;
    }
    ASSERT_LT(next, records.size()) << "a record that was never written, at offset " << record.offset;
    ++next;
  }
  for (; next < records.size(); ++next) EXPECT_TRUE(records[next].touched) << "lost record " << next;
}

TEST(AppendLogFuzz, RandomDamage) {
  const uint64_t first = tests::NumberFromEnvironment("FORESHOCK_FUZZ_SEED", 1);
  const uint64_t runs = tests::NumberFromEnvironment("FORESHOCK_FUZZ_RUNS", 400);
  std::cout << "seeds " << first << " to " << first + runs - 1 << "\n";
  for (uint64_t i = 0; i < runs && !::testing::Test::HasFailure(); ++i) FuzzOnce(first + i);
}

}  // namespace
}  // namespace foreshock
