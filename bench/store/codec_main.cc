// bench_store_codec [RECORDING.jsonl...]: bytes and nanoseconds a float of several ways to store a table of
// floats (steps x heads), for the walk of the store's figures (1 % of noise a step, 32 heads) and for the
// signals of recordings. All ways are lossless.
#include <time.h>
#include <zstd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>

#include "foreshock/jsonl/text_recording.h"
#include "word_codec.h"

namespace {

using Words = std::vector<uint32_t>;
struct Table {
  Words words;
  size_t width = 1;
};

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

size_t Zstd(const void* bytes, size_t count, int level) {
  static ZSTD_CCtx* const context = ZSTD_createCCtx();
  static std::string out;
  out.resize(ZSTD_compressBound(count));
  return ZSTD_compressCCtx(context, out.data(), out.size(), bytes, count, level);
}

Words Differences(const Table& t, bool exclusive_or) {
  Words out = t.words;
  for (size_t i = t.width; i < out.size(); ++i) {
    const uint32_t above = t.words[i - t.width];
    const uint32_t d = exclusive_or ? t.words[i] ^ above : t.words[i] - above;
    out[i] = exclusive_or ? d : d << 1 ^ (0 - (d >> 31));
  }
  return out;
}

std::string Planes(const Words& words) {
  std::string planes;
  for (int shift = 0; shift < 32; shift += 8) {
    for (const uint32_t word : words) planes.push_back(static_cast<char>(word >> shift));
  }
  return planes;
}

// The size in Facebook's Gorilla coding, one stream a head.
size_t Gorilla(const Table& t) {
  size_t bits = 0;
  for (size_t head = 0; head < t.width; ++head) {
    int lead = 33, trail = 0;
    bits += 32;
    for (size_t i = head + t.width; i < t.words.size(); i += t.width) {
      const uint32_t x = t.words[i] ^ t.words[i - t.width];
      if (x == 0) {
        bits += 1;
        continue;
      }
      const int l = std::countl_zero(x), r = std::countr_zero(x);
      if (l >= lead && r >= trail) {
        bits += 2 + static_cast<size_t>(32 - lead - trail);
      } else {
        lead = l, trail = r;
        bits += 2 + 5 + 5 + static_cast<size_t>(32 - l - r);
      }
    }
  }
  return (bits + 7) / 8;
}

using Way = std::function<size_t(const Table&)>;

void Compare(const char* data, const std::vector<Table>& tables) {
  const std::pair<const char*, Way> ways[] = {
      {"zstd 1 of the floats", [](const Table& t) { return Zstd(t.words.data(), t.words.size() * 4, 1); }},
      {"zstd 3 of the floats", [](const Table& t) { return Zstd(t.words.data(), t.words.size() * 4, 3); }},
      {"Gorilla (size only)", [](const Table& t) { return Gorilla(t); }},
      {"xor, planes, zstd 1",
       [](const Table& t) {
         const std::string planes = Planes(Differences(t, true));
         return Zstd(planes.data(), planes.size(), 1);
       }},
      {"delta, planes, zstd 1",
       [](const Table& t) {
         const std::string planes = Planes(Differences(t, false));
         return Zstd(planes.data(), planes.size(), 1);
       }},
      {"no delta, planes, zstd 1",
       [](const Table& t) {
         const std::string planes = Planes(t.words);
         return Zstd(planes.data(), planes.size(), 1);
       }},
      {"ours: delta, each plane its way",
       [](const Table& t) {
         std::string out;
         foreshock::store::PutWords(t.words, t.width, &out);
         return out.size();
       }},
  };
  size_t floats = 0;
  for (const Table& t : tables) floats += t.words.size();
  std::printf("%s: %zu tables, %zu floats\n", data, tables.size(), floats);
  const auto n = static_cast<double>(floats);
  for (const auto& [name, way] : ways) {
    size_t bytes = 0;
    const double begin = CpuSeconds();
    for (const Table& t : tables) bytes += way(t);
    std::printf("  %-32s %6.3f bytes  %6.2f ns\n", name, static_cast<double>(bytes) / n,
                1e9 * (CpuSeconds() - begin) / n);
  }
  std::vector<std::string> stored;
  for (const Table& t : tables) foreshock::store::PutWords(t.words, t.width, &stored.emplace_back());
  const double begin = CpuSeconds();
  for (size_t i = 0; i < tables.size(); ++i) {
    foreshock::store::ByteReader reader(stored[i]);
    foreshock::store::Words words;
    if (!ReadWords(&reader, tables[i].words.size() / tables[i].width, tables[i].width, &words) ||
        !std::equal(words.begin(), words.end(), tables[i].words.begin(), tables[i].words.end())) {
      std::abort();
    }
  }
  std::printf("  %-32s %13s %6.2f ns\n", "reading ours (and comparing)", "",
              1e9 * (CpuSeconds() - begin) / n);
}

std::vector<Table> Walks(size_t rows, size_t tables) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> noise(0, 0.01f);
  std::vector<Table> out;
  for (size_t i = 0; i < tables; ++i) {
    Table t;
    t.width = 32;
    std::vector<float> level(32, 3);
    for (size_t row = 0; row < rows; ++row) {
      for (float& x : level) t.words.push_back(std::bit_cast<uint32_t>(x *= 1 + noise(random)));
    }
    out.push_back(std::move(t));
  }
  return out;
}

// Tables of 64 rows, one a signal and layer.
void AddRecording(const char* path, std::vector<Table>* out) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::map<std::pair<uint16_t, uint32_t>, Table> open;
  const auto take = [&](foreshock::wire::RecordingItem item) {
    const auto* frame = std::get_if<foreshock::wire::Frame>(&item);
    if (frame == nullptr) return;
    for (const auto& series : frame->series) {
      Table& t = open[{series.signal, series.layer.value_or(0xFFFF)}];
      t.width = series.values.size();
      for (const float value : series.values) t.words.push_back(std::bit_cast<uint32_t>(value));
      if (t.words.size() < 64 * t.width) continue;
      out->push_back(std::move(t));
      t = {};
    }
  };
  if (!foreshock::jsonl::ReadTextRecording(text, take, nullptr).ok()) {
    std::fprintf(stderr, "bench_store_codec: cannot read %s\n", path);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Compare("walk, 64 steps x 32 heads", Walks(64, 400));
  Compare("walk, 128 steps x 32 heads", Walks(128, 200));
  Compare("walk, 256 steps x 32 heads", Walks(256, 100));
  std::vector<Table> recorded;
  for (int i = 1; i < argc; ++i) AddRecording(argv[i], &recorded);
  if (!recorded.empty()) Compare("recordings, 64 steps", recorded);
  return 0;
}
