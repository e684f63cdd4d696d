#include "foreshock/base/power_cut_file_system.h"

#include <mutex>
#include <set>

#include "memory_tree.h"

namespace foreshock {

using memory_tree::ApplyChange;
using memory_tree::FindNode;
using memory_tree::NodePtr;

struct PowerCutFileSystem::State {
  std::mutex mutex;  // guards everything below, the tree included
  NodePtr root = memory_tree::MakeDir();
  uint64_t boots = 0;  // handles of an earlier boot are dead
  std::set<std::string> locks;
  bool ignore_syncs = false;
  int failing_syncs = 0;
  bool read_only = false;
  uint64_t capacity = kUnlimited;
  uint64_t used = 0;
  uint64_t sync_calls = 0;

  Status CheckWritable(const std::string& path) const {
    if (read_only) return Status(Code::kPermissionDenied, path + ": Read-only file system");
    return OkStatus();
  }

  Status CheckBoot(uint64_t boot) const {
    if (boot != boots) return Status(Code::kIo, "handle from before the power cut");
    return OkStatus();
  }

  Status Sync(memory_tree::Node& node, const std::string& path) {
    ++sync_calls;
    if (failing_syncs > 0) {
      --failing_syncs;
      return Status(Code::kIo, "fsync " + path + ": Input/output error");
    }
    if (!ignore_syncs) memory_tree::MakeDurable(node);
    return OkStatus();
  }

  // The directory that holds the last part of a path, and that part.
  Result<std::pair<NodePtr, std::string>> Parent(const std::string& path) const {
    auto parts = memory_tree::SplitPath(path);
    if (parts.empty()) return Status(Code::kInvalidArgument, path + ": names the root");
    FS_ASSIGN_OR_RETURN(NodePtr dir, FindNode(root, ParentPath(path)));
    if (!dir->is_dir) return Status(Code::kIo, path + ": Not a directory");
    return std::make_pair(dir, parts.back());
  }

  void Recount() { used = memory_tree::LiveBytes(*root); }
};

namespace {

using StatePtr = std::shared_ptr<PowerCutFileSystem::State>;

class MemoryAppendFile final : public AppendFile {
 public:
  MemoryAppendFile(StatePtr state, NodePtr node, std::string path)
      : state_(std::move(state)), node_(std::move(node)), path_(std::move(path)), boot_(state_->boots) {}

  Status Append(std::string_view data) override {
    std::lock_guard lock(state_->mutex);
    FS_RETURN_IF_ERROR(Check());
    FS_RETURN_IF_ERROR(state_->CheckWritable(path_));
    const uint64_t room = state_->capacity > state_->used ? state_->capacity - state_->used : 0;
    const std::string_view fits = data.substr(0, room);
    node_->data.append(fits);
    state_->used += fits.size();
    if (fits.size() == data.size()) return OkStatus();
    return Status(Code::kResourceExhausted, "write " + path_ + ": No space left on device");
  }

  Status Sync() override {
    std::lock_guard lock(state_->mutex);
    FS_RETURN_IF_ERROR(Check());
    return state_->Sync(*node_, path_);
  }

  Status Close() override {
    std::lock_guard lock(state_->mutex);
    FS_RETURN_IF_ERROR(Check());
    closed_ = true;
    return OkStatus();
  }

 private:
  Status Check() const {
    if (closed_) return Status(Code::kIo, path_ + ": Bad file descriptor");
    return state_->CheckBoot(boot_);
  }

  const StatePtr state_;
  const NodePtr node_;
  const std::string path_;
  const uint64_t boot_;
  bool closed_ = false;
};

class MemoryReadFile final : public ReadFile {
 public:
  MemoryReadFile(StatePtr state, NodePtr node)
      : state_(std::move(state)), node_(std::move(node)), boot_(state_->boots) {}

  Status ReadAt(uint64_t offset, size_t bytes, std::string* out) const override {
    std::lock_guard lock(state_->mutex);
    FS_RETURN_IF_ERROR(state_->CheckBoot(boot_));
    if (offset >= node_->data.size()) {
      out->clear();
    } else {
      out->assign(node_->data, offset, bytes);
    }
    return OkStatus();
  }

  Result<uint64_t> Size() const override {
    std::lock_guard lock(state_->mutex);
    return static_cast<uint64_t>(node_->data.size());
  }

 private:
  const StatePtr state_;
  const NodePtr node_;
  const uint64_t boot_;
};

class MemoryLock final : public FileLock {
 public:
  MemoryLock(StatePtr state, std::string path)
      : state_(std::move(state)), path_(std::move(path)), boot_(state_->boots) {}
  ~MemoryLock() override {
    std::lock_guard lock(state_->mutex);
    if (state_->boots == boot_) state_->locks.erase(path_);
  }

 private:
  const StatePtr state_;
  const std::string path_;
  const uint64_t boot_;
};

}  // namespace

PowerCutFileSystem::PowerCutFileSystem() : state_(std::make_shared<State>()) {}
PowerCutFileSystem::~PowerCutFileSystem() = default;

void PowerCutFileSystem::PowerCut(const PowerCutOptions& options) {
  std::lock_guard lock(state_->mutex);
  std::mt19937_64 random(options.seed);
  memory_tree::LosePower(state_->root, options.keep_some ? &random : nullptr, options.zero_tails);
  ++state_->boots;
  state_->locks.clear();
  state_->Recount();
}

void PowerCutFileSystem::SetIgnoreSyncs(bool ignore) {
  std::lock_guard lock(state_->mutex);
  state_->ignore_syncs = ignore;
}

void PowerCutFileSystem::FailSyncs(int count) {
  std::lock_guard lock(state_->mutex);
  state_->failing_syncs = count;
}

void PowerCutFileSystem::SetReadOnly(bool read_only) {
  std::lock_guard lock(state_->mutex);
  state_->read_only = read_only;
}

void PowerCutFileSystem::SetCapacity(uint64_t bytes) {
  std::lock_guard lock(state_->mutex);
  state_->capacity = bytes;
}

uint64_t PowerCutFileSystem::used_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->used;
}

uint64_t PowerCutFileSystem::sync_calls() const {
  std::lock_guard lock(state_->mutex);
  return state_->sync_calls;
}

Status PowerCutFileSystem::CorruptByte(const std::string& path, uint64_t offset, uint8_t xor_mask) {
  std::lock_guard lock(state_->mutex);
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  if (offset >= node->data.size())
    return Status(Code::kOutOfRange, path + ": no byte " + std::to_string(offset));
  node->data[offset] = static_cast<char>(node->data[offset] ^ xor_mask);
  if (offset < node->durable_data.size()) node->durable_data[offset] = node->data[offset];
  return OkStatus();
}

Result<std::unique_ptr<AppendFile>> PowerCutFileSystem::OpenAppend(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_RETURN_IF_ERROR(state_->CheckWritable("open " + path));
  FS_ASSIGN_OR_RETURN(auto parent, state_->Parent(path));
  auto& [dir, name] = parent;
  const auto found = dir->entries.find(name);
  NodePtr node = found != dir->entries.end() ? found->second : nullptr;
  if (node != nullptr && node->is_dir) return Status(Code::kIo, "open " + path + ": Is a directory");
  if (node == nullptr) {
    node = memory_tree::MakeFile();
    ApplyChange(*dir, {{name, node}});
  }
  return std::unique_ptr<AppendFile>(std::make_unique<MemoryAppendFile>(state_, node, path));
}

Result<std::unique_ptr<ReadFile>> PowerCutFileSystem::OpenRead(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  if (node->is_dir) return Status(Code::kIo, "open " + path + ": Is a directory");
  return std::unique_ptr<ReadFile>(std::make_unique<MemoryReadFile>(state_, node));
}

Status PowerCutFileSystem::Rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(state_->mutex);
  FS_RETURN_IF_ERROR(state_->CheckWritable("rename " + from));
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, from));
  FS_ASSIGN_OR_RETURN(auto source, state_->Parent(from));
  FS_ASSIGN_OR_RETURN(auto target, state_->Parent(to));
  if (source.first == target.first) {
    if (source.second != target.second) {
      ApplyChange(*source.first, {{source.second, nullptr}, {target.second, node}});
    }
  } else {
    ApplyChange(*target.first, {{target.second, node}});
    ApplyChange(*source.first, {{source.second, nullptr}});
  }
  state_->Recount();
  return OkStatus();
}

Status PowerCutFileSystem::Remove(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_RETURN_IF_ERROR(state_->CheckWritable("remove " + path));
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  FS_ASSIGN_OR_RETURN(auto parent, state_->Parent(path));
  if (!node->entries.empty()) return Status(Code::kAlreadyExists, "remove " + path + ": Directory not empty");
  ApplyChange(*parent.first, {{parent.second, nullptr}});
  state_->Recount();
  return OkStatus();
}

Status PowerCutFileSystem::CreateDir(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_RETURN_IF_ERROR(state_->CheckWritable("mkdir " + path));
  if (FindNode(state_->root, path).ok())
    return Status(Code::kAlreadyExists, "mkdir " + path + ": File exists");
  FS_ASSIGN_OR_RETURN(auto parent, state_->Parent(path));
  ApplyChange(*parent.first, {{parent.second, memory_tree::MakeDir()}});
  return OkStatus();
}

Result<std::vector<std::string>> PowerCutFileSystem::List(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  if (!node->is_dir) return Status(Code::kIo, path + ": Not a directory");
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

Result<uint64_t> PowerCutFileSystem::Size(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  return static_cast<uint64_t>(node->data.size());
}

bool PowerCutFileSystem::IsDir(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  const auto node = FindNode(state_->root, path);
  return node.ok() && node.value()->is_dir;
}

Status PowerCutFileSystem::Truncate(const std::string& path, uint64_t bytes) {
  std::lock_guard lock(state_->mutex);
  FS_RETURN_IF_ERROR(state_->CheckWritable("truncate " + path));
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  if (node->is_dir) return Status(Code::kIo, "truncate " + path + ": Is a directory");
  if (bytes > node->data.size())
    return Status(Code::kInvalidArgument, "truncate " + path + ": longer than the file");
  node->data.resize(bytes);
  state_->Recount();
  return OkStatus();
}

Status PowerCutFileSystem::SyncDir(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  FS_ASSIGN_OR_RETURN(NodePtr node, FindNode(state_->root, path));
  if (!node->is_dir) return Status(Code::kIo, "fsync " + path + ": Not a directory");
  return state_->Sync(*node, path);
}

Result<std::unique_ptr<FileLock>> PowerCutFileSystem::Lock(const std::string& path) {
  FS_ASSIGN_OR_RETURN(auto file, OpenAppend(path));  // creates it
  std::lock_guard lock(state_->mutex);
  if (!state_->locks.insert(path).second) return Status(Code::kFailedPrecondition, "lock " + path + ": held");
  return std::unique_ptr<FileLock>(std::make_unique<MemoryLock>(state_, path));
}

Result<uint64_t> PowerCutFileSystem::FreeBytes(const std::string&) {
  std::lock_guard lock(state_->mutex);
  if (state_->capacity == kUnlimited) return Status(Code::kUnimplemented, "no capacity set");
  return state_->capacity > state_->used ? state_->capacity - state_->used : 0;
}

}  // namespace foreshock
