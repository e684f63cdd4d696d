#include "nvml.h"

#include <dlfcn.h>

#include <thread>

namespace foreshock::agent {
namespace {

constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kSmClock = 1, kMemoryClock = 2;
constexpr int kCorrected = 0, kUncorrected = 1, kAggregate = 1;
constexpr unsigned long long kXidEvent = 0x8;

}  // namespace

// As NVML lays them out. No anonymous namespace: Nvml::Calls names them.
namespace nvml {

struct Utilization {
  unsigned gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

}  // namespace nvml

// Null where a library lacks the call.
struct Nvml::Calls {
  void* handle = nullptr;
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  const char* (*ErrorString)(int) = nullptr;
  int (*Count)(unsigned*) = nullptr;
  int (*HandleByIndex)(unsigned, void**) = nullptr;
  int (*Name)(void*, char*, unsigned) = nullptr;
  int (*Uuid)(void*, char*, unsigned) = nullptr;
  int (*Power)(void*, unsigned*) = nullptr;
  int (*Temperature)(void*, int, unsigned*) = nullptr;
  int (*Clock)(void*, int, unsigned*) = nullptr;
  int (*Throttle)(void*, unsigned long long*) = nullptr;
  int (*Ecc)(void*, int, int, unsigned long long*) = nullptr;
  int (*Utilized)(void*, nvml::Utilization*) = nullptr;
  int (*MemoryInfo)(void*, nvml::Memory*) = nullptr;
  int (*EventSetCreate)(void**) = nullptr;
  int (*EventSetFree)(void*) = nullptr;
  int (*RegisterEvents)(void*, unsigned long long, void*) = nullptr;
  int (*EventSetWait)(void*, nvml::EventData*, unsigned) = nullptr;

  template <typename Function>
  void Find(const char* name, Function* into) {
    if (*into == nullptr) *into = reinterpret_cast<Function>(dlsym(handle, name));
  }
  void FindAll() {
    Find("nvmlInit_v2", &Init);
    Find("nvmlShutdown", &Shutdown);
    Find("nvmlErrorString", &ErrorString);
    Find("nvmlDeviceGetCount_v2", &Count);
    Find("nvmlDeviceGetHandleByIndex_v2", &HandleByIndex);
    Find("nvmlDeviceGetName", &Name);
    Find("nvmlDeviceGetUUID", &Uuid);
    Find("nvmlDeviceGetPowerUsage", &Power);
    Find("nvmlDeviceGetTemperature", &Temperature);
    Find("nvmlDeviceGetClockInfo", &Clock);
    Find("nvmlDeviceGetCurrentClocksEventReasons", &Throttle);
    Find("nvmlDeviceGetCurrentClocksThrottleReasons", &Throttle);  // its older name
    Find("nvmlDeviceGetTotalEccErrors", &Ecc);
    Find("nvmlDeviceGetUtilizationRates", &Utilized);
    Find("nvmlDeviceGetMemoryInfo", &MemoryInfo);
    Find("nvmlEventSetCreate", &EventSetCreate);
    Find("nvmlEventSetFree", &EventSetFree);
    Find("nvmlDeviceRegisterEvents", &RegisterEvents);
    Find("nvmlEventSetWait_v2", &EventSetWait);
  }
};

Nvml::Nvml(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}

Nvml::~Nvml() {
  if (events_ != nullptr && calls_->EventSetFree != nullptr) calls_->EventSetFree(events_);
  if (begun_ && calls_->Shutdown != nullptr) calls_->Shutdown();
  dlclose(calls_->handle);
}

std::string Nvml::Words(int code) const {
  const char* words = calls_->ErrorString != nullptr ? calls_->ErrorString(code) : nullptr;
  return (words != nullptr ? words : "error") + std::string(" (NVML ") + std::to_string(code) + ")";
}

Result<std::unique_ptr<Nvml>> Nvml::Load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status(Code::kNotFound, why != nullptr ? why : library + ": cannot be loaded");
  }
  auto calls = std::make_unique<Calls>();
  calls->handle = handle;
  calls->FindAll();
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(calls)));
  FS_RETURN_IF_ERROR(nvml->Begin());
  return nvml;
}

Status Nvml::Begin() {
  const auto unusable = [](const std::string& why) { return Status(Code::kUnavailable, why); };
  if (calls_->Init == nullptr || calls_->Count == nullptr || calls_->HandleByIndex == nullptr) {
    return unusable("this libnvidia-ml lacks nvmlInit_v2 or nvmlDeviceGetCount_v2");
  }
  if (const int code = calls_->Init(); code != kSuccess) return unusable("nvmlInit: " + Words(code));
  begun_ = true;
  unsigned count = 0;
  if (const int code = calls_->Count(&count); code != kSuccess) return unusable("nvmlDeviceGetCount: " + Words(code));
  if (count == 0) return unusable("the driver knows no GPU");
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    if (const int code = calls_->HandleByIndex(i, &device); code != kSuccess) {
      return unusable("GPU " + std::to_string(i) + ": " + Words(code));
    }
    devices_.push_back(device);
  }
  RegisterXids();
  return OkStatus();
}

void Nvml::RegisterXids() {
  if (calls_->EventSetCreate == nullptr || calls_->RegisterEvents == nullptr || calls_->EventSetWait == nullptr) {
    no_xids_ = "this libnvidia-ml cannot wait for events";
    return;
  }
  int code = calls_->EventSetCreate(&events_);
  for (size_t i = 0; code == kSuccess && i < devices_.size(); ++i) {
    code = calls_->RegisterEvents(devices_[i], kXidEvent, events_);
  }
  if (code != kSuccess) no_xids_ = Words(code);
}

Gpu Nvml::Measure(size_t index) {
  void* const device = devices_[index];
  Gpu gpu;
  gpu.index = static_cast<uint32_t>(index);
  char text[128] = "";
  if (calls_->Name != nullptr && calls_->Name(device, text, sizeof text) == kSuccess) gpu.name = text;
  if (calls_->Uuid != nullptr && calls_->Uuid(device, text, sizeof text) == kSuccess) gpu.uuid = text;
  const auto put = [&](const char* name, bool there, int code, double value) {
    if (there && code == kSuccess) {
      gpu.values[name] = value;
    } else {
      gpu.missing[name] = there ? Words(code) : "this libnvidia-ml lacks the call";
    }
  };
  const auto ask = [&](const char* name, auto* call, auto value, double scale, auto... arguments) {
    const int code = call != nullptr ? call(device, arguments..., &value) : -1;
    put(name, call != nullptr, code, static_cast<double>(value) * scale);
    return value;
  };
  ask("gpu_power_watts", calls_->Power, 0u, 1e-3);
  ask("gpu_temperature_celsius", calls_->Temperature, 0u, 1, kTemperatureOfGpu);
  ask("gpu_sm_clock_mhz", calls_->Clock, 0u, 1, kSmClock);
  ask("gpu_memory_clock_mhz", calls_->Clock, 0u, 1, kMemoryClock);
  ask("gpu_ecc_corrected_errors", calls_->Ecc, 0ull, 1, kCorrected, kAggregate);
  ask("gpu_ecc_uncorrected_errors", calls_->Ecc, 0ull, 1, kUncorrected, kAggregate);
  const auto mask = ask("gpu_throttle_mask", calls_->Throttle, 0ull, 1);
  if (gpu.values.contains("gpu_throttle_mask")) gpu.throttled_by = ThrottleNames(mask);
  nvml::Utilization use = {};
  int code = calls_->Utilized != nullptr ? calls_->Utilized(device, &use) : -1;
  put("gpu_utilization_ratio", calls_->Utilized != nullptr, code, use.gpu / 100.0);
  nvml::Memory memory = {};
  code = calls_->MemoryInfo != nullptr ? calls_->MemoryInfo(device, &memory) : -1;
  put("gpu_memory_used_bytes", calls_->MemoryInfo != nullptr, code, static_cast<double>(memory.used));
  put("gpu_memory_total_bytes", calls_->MemoryInfo != nullptr, code, static_cast<double>(memory.total));
  if (!no_xids_.empty()) gpu.missing["gpu_xid_errors"] = no_xids_;
  return gpu;
}

std::optional<Nvml::Xid> Nvml::WaitForXid(uint32_t timeout_ms) {
  if (!no_xids_.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
    return std::nullopt;
  }
  nvml::EventData event = {};
  const int code = calls_->EventSetWait(events_, &event, timeout_ms);
  constexpr int kTimeout = 10;
  if (code != kSuccess) {
    // Other errors would come at once, again and again.
    if (code != kTimeout) no_xids_ = Words(code);
    return std::nullopt;
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i] == event.device && (event.type & kXidEvent) != 0) return Xid{i, event.data};
  }
  return std::nullopt;
}

}  // namespace foreshock::agent
