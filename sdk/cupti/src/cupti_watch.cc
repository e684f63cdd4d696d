// libforeshock_cupti.so: device time by kernel family, from inside a trainer, by CUPTI's activity records.
//
// Loaded by the CUDA driver (CUDA_INJECTION64_PATH=.../libforeshock_cupti.so), by libforeshock.so where
// FORESHOCK_CUPTI=1 is set, or by anybody who calls fs_cupti_start. Writes one JSON object
// (docs/formats/cupti.md) to FORESHOCK_CUPTI_FILE, else foreshock-cupti-PID.json in the working folder, every
// few seconds and at the end. Where CUPTI is missing, or another profiler holds it, the file says so in
// `reason` and nothing else changes: this library never disturbs a profiler that was there first.
#include <cupti.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "kernel_times.h"

namespace {

using foreshock::sdk::KernelTimes;

// Older and newer libraries fill longer or shorter records whose beginning is the same.
using KernelRecord = CUpti_ActivityKernel9;
static_assert(offsetof(CUpti_ActivityKernel10, start) == offsetof(KernelRecord, start));
static_assert(offsetof(CUpti_ActivityKernel10, end) == offsetof(KernelRecord, end));
static_assert(offsetof(CUpti_ActivityKernel10, name) == offsetof(KernelRecord, name));
static_assert(offsetof(CUpti_ActivityKernel6, name) == offsetof(KernelRecord, name));

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kMaxBuffers =
    64;  // in CUPTI's hands at a time; more are refused, and records lost and counted
constexpr std::chrono::seconds kReportEvery{5};

struct Calls {
  decltype(&cuptiSubscribe) Subscribe = nullptr;
  decltype(&cuptiUnsubscribe) Unsubscribe = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) RegisterCallbacks = nullptr;
  decltype(&cuptiActivityEnable) Enable = nullptr;
  decltype(&cuptiActivityDisable) Disable = nullptr;
  decltype(&cuptiActivityFlushAll) FlushAll = nullptr;
  decltype(&cuptiActivityGetNextRecord) GetNextRecord = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) GetNumDropped = nullptr;
  decltype(&cuptiGetResultString) GetResultString = nullptr;

  template <typename Function>
  bool Find(void* handle, const char* name, Function* into) {
    *into = reinterpret_cast<Function>(dlsym(handle, name));
    return *into != nullptr;
  }
  bool FindAll(void* handle) {
    return Find(handle, "cuptiSubscribe", &Subscribe) && Find(handle, "cuptiUnsubscribe", &Unsubscribe) &&
           Find(handle, "cuptiActivityRegisterCallbacks", &RegisterCallbacks) &&
           Find(handle, "cuptiActivityEnable", &Enable) && Find(handle, "cuptiActivityDisable", &Disable) &&
           Find(handle, "cuptiActivityFlushAll", &FlushAll) &&
           Find(handle, "cuptiActivityGetNextRecord", &GetNextRecord) &&
           Find(handle, "cuptiActivityGetNumDroppedRecords", &GetNumDropped) &&
           Find(handle, "cuptiGetResultString", &GetResultString);
  }
};

// One for the process, never destroyed: CUPTI may call back until the very end.
class Watch {
 public:
  static Watch& Instance() {
    static Watch* const watch = new Watch;
    return *watch;
  }

  void Start() {
    {
      std::lock_guard lock(mutex_);
      if (started_) return;
      started_ = true;
      pid_ = getpid();
      path_ = PathFromEnvironment();
      reason_ = Begin();
    }
    Write();
    std::atexit([] { Instance().End(); });
    if (subscribed_) std::thread([this] { Run(); }).detach();
  }

  void End() {
    // A forked child that exits has neither the thread nor the file.
    if (getpid() != pid_) return;
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
    }
    changed_.notify_all();
    if (subscribed_) {
      calls_.FlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
      calls_.Disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      calls_.Unsubscribe(subscriber_);
    }
    Write();
  }

  const KernelTimes& times() const { return times_; }
  std::string Reason() const {
    std::lock_guard lock(mutex_);
    return reason_;
  }

  void Take(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid) {
    CUpti_Activity* record = nullptr;
    while (valid > 0 && calls_.GetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_KERNEL)
        continue;
      const auto* kernel = reinterpret_cast<const KernelRecord*>(record);
      if (kernel->end > kernel->start) times_.Add(kernel->name, kernel->end - kernel->start);
    }
    size_t lost = 0;
    if (calls_.GetNumDropped(context, stream, &lost) == CUPTI_SUCCESS && lost > 0) times_.AddLost(lost);
    std::free(buffer);
    --buffers_;
  }

  uint8_t* NewBuffer() {
    if (++buffers_ > kMaxBuffers) {
      --buffers_;
      return nullptr;
    }
    return static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  }

 private:
  static std::string PathFromEnvironment() {
    const char* path = std::getenv("FORESHOCK_CUPTI_FILE");
    return path != nullptr && *path != '\0' ? path : "foreshock-cupti-" + std::to_string(getpid()) + ".json";
  }

  std::string Words(CUptiResult code) const {
    const char* words = nullptr;
    calls_.GetResultString(code, &words);
    return (words != nullptr ? words : "error") + std::string(" (CUPTI ") + std::to_string(code) + ")";
  }

  // Why nothing is measured; empty when it is. Touches nothing of CUPTI before it holds the only
  // subscription.
  std::string Begin() {
    void* handle = nullptr;
    const char* named = std::getenv("FORESHOCK_CUPTI_LIBRARY");
    if (named != nullptr) handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
      if (handle == nullptr && named == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) return "CUPTI is not there: libcupti.so.13 or .12 cannot be loaded";
    if (!calls_.FindAll(handle)) return "this CUPTI lacks calls of the activity interface";
    const auto nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
    // Without one, CUPTI 13.2 asks itself for ever what its own error means, until the stack is full.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
      return "no NVIDIA driver: libcuda.so.1 is not there";
    CUptiResult code = calls_.Subscribe(&subscriber_, nothing, nullptr);
    if (code == CUPTI_ERROR_MAX_LIMIT_REACHED || code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
      return "another profiler is attached: " + Words(code);
    }
    if (code != CUPTI_SUCCESS) return "cuptiSubscribe: " + Words(code);
    code = calls_.RegisterCallbacks(
        [](uint8_t** buffer, size_t* size, size_t* records) {
          *buffer = Instance().NewBuffer();
          *size = *buffer != nullptr ? kBufferBytes : 0;
          *records = 0;
        },
        [](CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
          Instance().Take(context, stream, buffer, valid);
        });
    if (code == CUPTI_SUCCESS) code = calls_.Enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (code != CUPTI_SUCCESS) {
      calls_.Unsubscribe(subscriber_);
      return "kernel records: " + Words(code);
    }
    subscribed_ = true;
    return "";
  }

  void Run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kReportEvery, [this] { return ended_; })) {
      lock.unlock();
      calls_.FlushAll(0);
      Write();
      lock.lock();
    }
  }

  // Replaced as a whole, so that readers never see half of it.
  void Write() {
    const std::string text = times_.Json(Reason());
    std::lock_guard lock(write_mutex_);
    struct stat there;
    const bool device =
        stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode);  // /dev/null is written, not replaced
    const std::string temporary = device ? path_ : path_ + ".tmp";
    std::FILE* file = std::fopen(temporary.c_str(), "w");
    bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = file != nullptr && std::fclose(file) == 0 && written;
    if ((written && (device || std::rename(temporary.c_str(), path_.c_str()) == 0)) || told_) return;
    told_ = true;
    std::fprintf(stderr, "foreshock: kernel times cannot be written to %s: %s\n", path_.c_str(),
                 std::strerror(errno));
  }

  Calls calls_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::atomic<bool> subscribed_{false};
  std::atomic<size_t> buffers_{0};
  KernelTimes times_;
  std::mutex write_mutex_;
  bool told_ = false;         // that the file cannot be written; guarded by write_mutex_
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string path_, reason_;
  std::atomic<pid_t> pid_{0};
  bool started_ = false, ended_ = false;
};

}  // namespace

extern "C" {

// Called by the CUDA driver for CUDA_INJECTION64_PATH. 1: loaded; the program goes on in either case.
__attribute__((visibility("default"))) int InitializeInjection(void) {
  Watch::Instance().Start();
  return 1;
}

// The same for a program that loads this library itself. 1: measuring; 0: the file says why not.
__attribute__((visibility("default"))) int fs_cupti_start(void) {
  Watch::Instance().Start();
  return Watch::Instance().Reason().empty() ? 1 : 0;
}

// Why nothing is measured, into `room`; empty when it is.
__attribute__((visibility("default"))) void fs_cupti_reason(char* room, size_t room_bytes) {
  std::snprintf(room, room_bytes, "%s", Watch::Instance().Reason().c_str());
}

// Device time so far, of Foreshock's kernels and of all, for its governor. Takes no lock and makes no call.
__attribute__((visibility("default"))) void fs_cupti_times(uint64_t* own_nanos, uint64_t* all_nanos) {
  *own_nanos = Watch::Instance().times().own_nanos();
  *all_nanos = Watch::Instance().times().all_nanos();
}

// Takes in what is still on its way and writes the file for the last time.
__attribute__((visibility("default"))) void fs_cupti_end(void) { Watch::Instance().End(); }

}  // extern "C"
