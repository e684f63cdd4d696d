// Training::save and restore. Layout of the file, all numbers little-endian:
//   8 bytes "FSTRAIN1"; i32 layers, heads, head_dim, context, batch, vocabulary, mlp_factor; i32 0;
//   i64 step; i64 updates; u64 sampler state; u64 bit mask of the layers with QK normalization on;
//   u64 n; n floats weights; n floats first moment; n floats second moment;
//   u64 FNV-1a of all bytes before it.
// Learning rate, decay, fault and step limit are the command line's and are not stored.
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "foreshock/trainer/training.h"

namespace foreshock::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "the checkpoint format is little-endian");

constexpr char kMagic[8] = {'F', 'S', 'T', 'R', 'A', 'I', 'N', '1'};

struct Header {
  char magic[8];
  std::int32_t layers, heads, head_dim, context, batch, vocabulary, mlp_factor, zero;
  std::int64_t step, updates;
  std::uint64_t sampler, qk_norm_layers, count;
};
static_assert(sizeof(Header) == 80);

std::uint64_t fnv1a(const std::vector<char>& bytes, std::size_t length) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < length; ++i) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3u;
  }
  return hash;
}

void append(std::vector<char>* out, const void* data, std::size_t length) {
  const char* bytes = static_cast<const char*>(data);
  out->insert(out->end(), bytes, bytes + length);
}

bool sync_and_close(int fd) {
  const bool synced = ::fsync(fd) == 0;
  return ::close(fd) == 0 && synced;
}

bool write_all(int fd, const std::vector<char>& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool replace_file(const std::string& path, const std::vector<char>& bytes) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool written = write_all(fd, bytes);
  if (!sync_and_close(fd) || !written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int kept = errno;
    ::unlink(temporary.c_str());
    errno = kept;
    return false;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return folder >= 0 && sync_and_close(folder);
}

ModelShape shape_of(const Header& h) {
  return {.layers = h.layers,
          .heads = h.heads,
          .head_dim = h.head_dim,
          .context = h.context,
          .batch = h.batch,
          .vocabulary = h.vocabulary,
          .mlp_factor = h.mlp_factor};
}

}  // namespace

bool Training::save(const std::string& path, std::string* error) const {
  const ModelShape& s = config_.shape;
  Header header{
      {},           s.layers, s.heads, s.head_dim, s.context,        s.batch, s.vocabulary,
      s.mlp_factor, 0,        step_,   updates_,   sampler_.state(), 0,       model_.weights().size()};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  for (int layer = 0; layer < s.layers; ++layer) {
    if (model_.attention(layer).qk_norm()) header.qk_norm_layers |= std::uint64_t{1} << layer;
  }
  std::vector<char> bytes;
  append(&bytes, &header, sizeof(header));
  for (const Buffer* part : {&model_.weights(), &first_moment_, &second_moment_}) {
    append(&bytes, part->data(), part->bytes());
  }
  const std::uint64_t hash = fnv1a(bytes, bytes.size());
  append(&bytes, &hash, sizeof(hash));
  if (replace_file(path, bytes)) return true;
  *error = "cannot write checkpoint " + path + ": " + std::strerror(errno);
  return false;
}

bool Training::restore(const std::string& path, std::string* error) {
  const auto fail = [&](const char* why) {
    *error = "checkpoint " + path + ": " + why;
    return false;
  };
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return fail("cannot be read");
  Header header;
  std::uint64_t hash = 0;
  if (bytes.size() < sizeof(header) + sizeof(hash)) return fail("too short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return fail("not a checkpoint of this trainer");
  const std::size_t payload = bytes.size() - sizeof(hash);
  std::memcpy(&hash, bytes.data() + payload, sizeof(hash));
  if (hash != fnv1a(bytes, payload)) return fail("damaged (checksum differs)");
  const std::size_t part = model_.weights().bytes();
  if (!(shape_of(header) == config_.shape) || header.count != model_.weights().size() ||
      payload != sizeof(header) + 3 * part || header.step < 0) {
    return fail("holds a model of another shape");
  }
  const char* at = bytes.data() + sizeof(header);
  for (Buffer* target : {&model_.weights(), &first_moment_, &second_moment_}) {
    std::memcpy(target->data(), at, part);
    at += part;
  }
  step_ = header.step;
  updates_ = header.updates;
  sampler_.set_state(header.sampler);
  for (int layer = 0; layer < config_.shape.layers; ++layer) {
    model_.attention(layer).set_qk_norm((header.qk_norm_layers >> layer & 1) != 0);
  }
  return true;
}

}  // namespace foreshock::trainer
