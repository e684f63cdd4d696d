#include "memory_tree.h"

#include <algorithm>

namespace foreshock::memory_tree {
namespace {

void Put(Entries& entries, const Change& change) {
  for (const auto& [name, node] : change) {
    if (node == nullptr) {
      entries.erase(name);
    } else {
      entries[name] = node;
    }
  }
}

// Of the bytes appended since the last sync a random prefix, at times with zeros up to the old size.
std::string TornData(const Node& file, std::mt19937_64& random, bool zero_tails) {
  if (!file.data.starts_with(file.durable_data)) return (random() & 1) != 0 ? file.data : file.durable_data;
  const size_t unsynced = file.data.size() - file.durable_data.size();
  std::string torn = file.data.substr(0, file.durable_data.size() + random() % (unsynced + 1));
  if (random() % 4 == 0 && zero_tails) torn.resize(file.data.size(), '\0');
  return torn;
}

void LoseDir(Node& dir, std::mt19937_64* random, bool zero_tails) {
  Entries survivors = dir.durable_entries;
  if (random != nullptr) {
    const size_t kept = (*random)() % (dir.pending.size() + 1);
    for (size_t i = 0; i < kept; ++i) Put(survivors, dir.pending[i]);
  }
  dir.entries = survivors;
  dir.durable_entries = std::move(survivors);
  dir.pending.clear();
  for (auto& [name, child] : dir.entries) LosePower(child, random, zero_tails);
}

}  // namespace

NodePtr MakeDir() {
  auto node = std::make_shared<Node>();
  node->is_dir = true;
  return node;
}

NodePtr MakeFile() { return std::make_shared<Node>(); }

void ApplyChange(Node& dir, Change change) {
  Put(dir.entries, change);
  dir.pending.push_back(std::move(change));
}

void MakeDurable(Node& node) {
  if (node.is_dir) {
    node.durable_entries = node.entries;
    node.pending.clear();
  } else if (node.data.size() >= node.durable_data.size() && node.data.starts_with(node.durable_data)) {
    node.durable_data.append(node.data, node.durable_data.size());
  } else {
    node.durable_data = node.data;
  }
}

void LosePower(const NodePtr& node, std::mt19937_64* random, bool zero_tails) {
  if (node->is_dir) {
    LoseDir(*node, random, zero_tails);
    return;
  }
  node->data = random != nullptr ? TornData(*node, *random, zero_tails) : node->durable_data;
  node->durable_data = node->data;
}

uint64_t LiveBytes(const Node& node) {
  uint64_t bytes = node.data.size();
  for (const auto& [name, child] : node.entries) bytes += LiveBytes(*child);
  return bytes;
}

std::vector<std::string> SplitPath(const std::string& path) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    std::string part = path.substr(start, end - start);
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    start = end + 1;
  }
  return parts;
}

Result<NodePtr> FindNode(const NodePtr& root, const std::string& path) {
  NodePtr node = root;
  for (const std::string& part : SplitPath(path)) {
    if (!node->is_dir) return Status(Code::kIo, path + ": Not a directory");
    const auto found = node->entries.find(part);
    if (found == node->entries.end()) return Status(Code::kNotFound, path + ": No such file or directory");
    node = found->second;
  }
  return node;
}

}  // namespace foreshock::memory_tree
