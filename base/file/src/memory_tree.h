// The tree behind PowerCutFileSystem: for every file and directory what is live and what would survive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::memory_tree {

struct Node;
using NodePtr = std::shared_ptr<Node>;
using Entries = std::map<std::string, NodePtr>;

// One atomic change of a directory: names set to a node, or removed (nullptr).
using Change = std::vector<std::pair<std::string, NodePtr>>;

struct Node {
  bool is_dir = false;
  // A file.
  std::string data;
  std::string durable_data;
  // A directory; entries = durable_entries with `pending` applied in order.
  Entries entries;
  Entries durable_entries;
  std::vector<Change> pending;
};

NodePtr MakeDir();
NodePtr MakeFile();

// Makes a change live and remembers it as not yet durable.
void ApplyChange(Node& dir, Change change);
// What a completed sync of the node covers.
void MakeDurable(Node& node);
// Back to what is durable, here and below. With a generator, random leftovers of what was not:
// where zero_tails, with blocks of zeros at their end at times.
void LosePower(const NodePtr& node, std::mt19937_64* random, bool zero_tails);
// Bytes of all live files below.
uint64_t LiveBytes(const Node& node);

// "/a//b/" -> {"a", "b"}; "." is skipped.
std::vector<std::string> SplitPath(const std::string& path);
// The node at a path; kNotFound, or kIo "Not a directory".
Result<NodePtr> FindNode(const NodePtr& root, const std::string& path);

}  // namespace foreshock::memory_tree
