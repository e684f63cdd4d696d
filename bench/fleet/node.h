// A simulated node: one connection to the server and on it one stream for each of its ranks, as an agent has.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace foreshock::bench {

struct FleetOptions {
  std::string address;
  uint32_t nodes = 1000, ranks = 8;  // ranks of a node
  uint32_t nodes_a_run = 8;
  uint32_t layers = 12, heads = 8, heads_every = 10;  // four values a head, in every 10th step
};

// Over all streams.
struct FleetCounters {
  std::atomic<uint64_t> greeted{0}, refused{0}, broken{0}, written{0}, acknowledged{0}, late{0}, values{0};
  // Milliseconds from a frame's time to its acknowledgement, by powers of two: [0] below 1, [i] below 2^i.
  std::atomic<uint64_t> latency[20] = {};
};

class Node {
 public:
  // Connects, opens the streams and says Hello.
  Node(const FleetOptions& options, uint32_t number, FleetCounters& counters);
  ~Node();
  // The next step of a rank: written, or counted as late when the one before is still on its way to the network.
  void Step(uint32_t rank);

 private:
  class Stream;
  std::vector<Stream*> streams_;  // each ends itself
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace foreshock::bench
