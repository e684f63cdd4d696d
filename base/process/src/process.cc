#include "foreshock/base/process.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace foreshock {
namespace {

std::string ContentOf(const std::string& path) {
  std::ifstream in(path);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

// The number behind `name` at the start of a line.
std::optional<uint64_t> NumberBehind(const std::string& text, const std::string& name) {
  size_t at = text.starts_with(name) ? 0 : text.find("\n" + name);
  if (at == std::string::npos) return std::nullopt;
  at = text.find(name, at) + name.size();
  char* end = nullptr;
  const uint64_t number = std::strtoull(text.c_str() + at, &end, 10);
  return end == text.c_str() + at ? std::nullopt : std::optional(number);
}

}  // namespace

Result<ProcessUsage> ReadProcessUsage(pid_t pid) {
  const std::string folder = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid));
  const std::string stat = ContentOf(folder + "/stat");
  if (stat.empty()) return Status(Code::kNotFound, folder + ": no such process");
  // proc(5): the name in parentheses may hold anything; behind it fields 3 and on.
  const size_t name_end = stat.rfind(')');
  std::istringstream in(name_end == std::string::npos ? std::string() : stat.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(in), {}};
  constexpr size_t kUser = 14 - 3, kKernel = 15 - 3, kThreads = 20 - 3, kStart = 22 - 3, kVirtual = 23 - 3;
  if (fields.size() <= kVirtual) return Status(Code::kDataLoss, folder + "/stat: fewer than 23 fields");
  const auto number = [&](size_t field) { return std::strtoull(fields[field].c_str(), nullptr, 10); };
  const auto ticks_a_second = static_cast<double>(sysconf(_SC_CLK_TCK));

  ProcessUsage usage;
  usage.cpu_seconds = static_cast<double>(number(kUser) + number(kKernel)) / ticks_a_second;
  usage.threads = number(kThreads);
  usage.virtual_bytes = number(kVirtual);
  const auto booted = NumberBehind(ContentOf("/proc/stat"), "btime ");
  if (booted)
    usage.start_unix_seconds =
        static_cast<double>(*booted) + static_cast<double>(number(kStart)) / ticks_a_second;
  const std::string status = ContentOf(folder + "/status");
  usage.resident_bytes = NumberBehind(status, "VmRSS:").value_or(0) << 10;
  usage.peak_resident_bytes = NumberBehind(status, "VmHWM:").value_or(0) << 10;
  usage.max_fds = NumberBehind(ContentOf(folder + "/limits"), "Max open files").value_or(0);
  std::error_code refused;
  for (std::filesystem::directory_iterator fd(folder + "/fd", refused), end; !refused && fd != end;
       fd.increment(refused))
    ++usage.open_fds;
  return usage;
}

}  // namespace foreshock
