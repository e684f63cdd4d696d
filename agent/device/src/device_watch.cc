#include <condition_variable>
#include <mutex>
#include <thread>

#include "foreshock/agent/device.h"
#include "foreshock/base/logging.h"
#include "nvml.h"

namespace foreshock::agent {
namespace {

constexpr std::string_view kComponent = "agent/device";
constexpr uint32_t kXidWaitMs = 200;
constexpr std::chrono::seconds kFarewell{2};

}  // namespace

// Shared with the thread, which outlives the watch when the driver hangs.
struct DeviceWatch::State {
  DeviceOptions options;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  DeviceHealth health;
  bool stopping = false, ended = false;

  bool Stopping() {
    std::lock_guard lock(mutex);
    return stopping;
  }
  void Run();
  void Measure(Nvml& nvml);
  void Count(const Nvml::Xid& xid);
};

void DeviceWatch::State::Run() {
  auto nvml = Nvml::Load(options.library);
  if (!nvml.ok()) {
    LogInfo(kComponent, "no health of GPUs", {{"reason", nvml.status().message()}});
    std::lock_guard lock(mutex);
    health.reason = nvml.status().message();
    return;
  }
  LogInfo(kComponent, "watching GPUs", {{"gpus", (*nvml)->gpus()}, {"no_xids", (*nvml)->no_xids()}});
  int64_t next_ns = 0;
  while (!Stopping()) {
    const int64_t now_ns = options.clock->MonotonicNanos();
    if (now_ns >= next_ns) {
      Measure(**nvml);
      next_ns = now_ns + options.interval_ms * 1'000'000;
    }
    if (const auto xid = (*nvml)->WaitForXid(kXidWaitMs)) Count(*xid);
  }
}

void DeviceWatch::State::Measure(Nvml& nvml) {
  std::vector<Gpu> gpus;
  for (size_t i = 0; i < nvml.gpus(); ++i) gpus.push_back(nvml.Measure(i));
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < gpus.size() && i < health.gpus.size(); ++i) {
    gpus[i].xids = health.gpus[i].xids;
    gpus[i].last_xid = health.gpus[i].last_xid;
    gpus[i].last_xid_unix_ns = health.gpus[i].last_xid_unix_ns;
  }
  health.gpus = std::move(gpus);
  health.reason.clear();
  health.measured_unix_ns = options.clock->WallNanos();
}

void DeviceWatch::State::Count(const Nvml::Xid& xid) {
  LogWarning(kComponent, "a GPU's driver reports an error", {{"gpu", xid.gpu}, {"xid", xid.number}});
  std::lock_guard lock(mutex);
  Gpu& gpu = health.gpus[xid.gpu];
  ++gpu.xids;
  gpu.last_xid = xid.number;
  gpu.last_xid_unix_ns = options.clock->WallNanos();
}

DeviceWatch::DeviceWatch(const DeviceOptions& options) : options_(options), state_(std::make_shared<State>()) {
  state_->options = options;
  if (!options.enabled) {
    state_->health.reason = "switched off";
    state_->ended = true;
    return;
  }
  state_->health.reason = "the driver has not answered yet";
  std::thread([state = state_] {
    state->Run();
    std::lock_guard lock(state->mutex);
    state->ended = true;
    state->changed.notify_all();
  }).detach();
}

DeviceWatch::~DeviceWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  if (!state_->changed.wait_for(lock, kFarewell, [this] { return state_->ended; })) {
    LogWarning(kComponent, "the GPUs' driver does not answer, left behind");
  }
}

DeviceHealth DeviceWatch::Health() const {
  std::lock_guard lock(state_->mutex);
  DeviceHealth health = state_->health;
  const int64_t age_ns = options_.clock->WallNanos() - health.measured_unix_ns;
  if (health.reason.empty() && age_ns > 3 * options_.interval_ms * 1'000'000) {
    health.reason = "the driver does not answer since " + std::to_string(age_ns / 1'000'000'000) + " s";
  }
  return health;
}

}  // namespace foreshock::agent
