#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/trainer/random.h"

namespace foreshock::trainer {

// Text to train on: the bytes of files, one after another.
struct Corpus {
  std::vector<unsigned char> bytes;
  std::size_t files = 0;
};

// Reads every path: a file as it is, a folder with all its files named *.cc *.h *.c *.cu *.py *.cmake *.proto
// *.md *.txt, in the order of their relative paths. Folders whose name starts with '.' or "build" are left
// out. False and a sentence in `error` when a path cannot be read or less than 4,096 bytes are found.
bool load_corpus(const std::vector<std::string>& paths, Corpus* corpus, std::string* error);

// Draws batches: sequences at random places, the same for the same seed and corpus.
class Sampler {
 public:
  // The corpus must outlive the sampler and be longer than context + 1.
  Sampler(const Corpus& corpus, int batch, int context, std::uint64_t seed);

  void draw();  // next batch, into inputs() and targets()
  const unsigned char* inputs() const { return inputs_.data(); }
  const unsigned char* targets() const { return targets_.data(); }

  // The whole state between two draws.
  std::uint64_t state() const { return random_.state(); }
  void set_state(std::uint64_t state) { random_.set_state(state); }

 private:
  const Corpus& corpus_;
  std::size_t context_;
  Random random_;
  std::vector<unsigned char> inputs_, targets_;
};

}  // namespace foreshock::trainer
