#include "foreshock/base/heap.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace foreshock {
namespace {

#if defined(__GLIBC__)
// Of the process, by the allocator's own account; 0 where a sanitizer has put another in its place.
size_t Arenas() {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* out = open_memstream(&text, &bytes);
  const bool told = malloc_info(0, out) == 0;
  std::fclose(out);
  size_t arenas = 0;
  const std::string all = told ? std::string(text, bytes) : std::string();
  for (size_t at = 0; (at = all.find("<heap nr=", at)) != std::string::npos; ++at) ++arenas;
  std::free(text);
  return arenas;
}

TEST(Heap, ManyThreadsShareTwoArenas) {
  if (std::getenv("MALLOC_ARENA_MAX") != nullptr || std::getenv("GLIBC_TUNABLES") != nullptr)
    GTEST_SKIP() << "the environment says how many";
  if (Arenas() == 0) GTEST_SKIP() << "another allocator";
  TuneHeap();
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<char[]>> blocks(16);
  for (auto& block : blocks) {
    threads.emplace_back([&block] { block = std::make_unique<char[]>(2'000); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(Arenas(), 2u);
}
#endif

}  // namespace
}  // namespace foreshock
