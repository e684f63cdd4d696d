#include "cupti_library.h"

#include <dlfcn.h>

#include <filesystem>

namespace foreshock::sdk {
namespace {

constexpr char kLibrary[] = "libforeshock_cupti.so";

// The path of the library that lies beside the one (or the program) that this code is in; empty: there is
// none.
std::string BesideThis() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&BesideThis), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code ignored;
  const auto path = std::filesystem::path(info.dli_fname).parent_path() / kLibrary;
  return std::filesystem::exists(path, ignored) ? path.string() : "";
}

}  // namespace

CuptiLibrary LoadCupti(const std::string& wanted) {
  CuptiLibrary library;
  if (wanted.empty() || wanted == "0") return library;
  std::string name = wanted == "1" ? BesideThis() : wanted;
  if (name.empty()) name = kLibrary;
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    library.reason = why != nullptr ? why : name + ": cannot be loaded";
    return library;
  }
  const auto start = reinterpret_cast<int (*)()>(dlsym(handle, "fs_cupti_start"));
  const auto reason = reinterpret_cast<void (*)(char*, size_t)>(dlsym(handle, "fs_cupti_reason"));
  const auto times = reinterpret_cast<void (*)(uint64_t*, uint64_t*)>(dlsym(handle, "fs_cupti_times"));
  if (start == nullptr || reason == nullptr || times == nullptr) {
    library.reason = name + ": not a libforeshock_cupti.so of this version";
    return library;
  }
  if (start() != 0) {
    library.times = times;
    return library;
  }
  char text[256] = "";
  reason(text, sizeof text);
  library.reason = text;
  return library;
}

}  // namespace foreshock::sdk
