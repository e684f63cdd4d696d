// The background thread: takes records from the step queue, encodes them, and sees them out of the process.
//
// It keeps what is not acknowledged (bounded, oldest dropped, gap declared), connects again with growing
// pauses, hands actions and sampling changes back, and says in one line why nothing is recorded. A run that
// the other side refuses (its name, its version) is not offered again. It runs with all signals blocked and
// never touches the trainer's memory other than the queue.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/drop_oldest_queue.h"
#include "foreshock/sdk/address.h"
#include "foreshock/sdk/step_sampler.h"
#include "foreshock/wire/types.h"

namespace foreshock::sdk {

// An action in fixed room, so that the step path can take it without allocating.
struct ActionSlot {
  char id[80] = "";
  char kind[32] = "";
  char issuer[80] = "";
  char reason[256] = "";
  int64_t effective_step = 0;
  int64_t expiry_step = 0;
  double value = 0;
  uint32_t layer_count = 0;
  uint32_t layers[256] = {};
  bool proposal = false;   // to be acknowledged, not to be done
  bool committed = false;  // every rank has acknowledged it
  // Set when the trainer must not see it: the reason to refuse it with.
  char refuse[128] = "";
};
using ActionQueue = BoundedDropOldestQueue<ActionSlot>;

enum class LogLevel : uint8_t { kInfo, kWarning, kError };
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  char text[512] = "";
};
using LogFn = std::function<void(LogLevel, const std::string&)>;

struct ExporterOptions {
  Address address;
  wire::Hello hello;  // attempt as discovered; may be empty on unix:
  uint64_t window_bytes = 64u << 20;
  std::string grpc_library, token;
  bool start_agent = false;
  std::string agent_path;
  std::vector<std::string> agent_arguments;
  // Pauses between attempts to connect double from the first to the second.
  std::chrono::milliseconds first_backoff{100}, last_backoff{3000};
};

struct ExporterCounters {
  std::atomic<bool> connected{false};
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<uint64_t> window_dropped{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> connects{0};
  std::atomic<uint64_t> actions_received{0};
  std::atomic<uint64_t> actions_refused{0};
};

class Link;
class AgentStarter;

class Exporter {
 public:
  // layout, queue, request and clock must outlive this. Starts nothing.
  Exporter(ExporterOptions options, const FrameLayout& layout, StepQueue& queue, SamplingRequest& request,
           const Clock& clock, LogFn log);
  // After Start, Stop must come first.
  ~Exporter();

  // Starts the thread. kResourceExhausted when the system gives none.
  Status Start();
  // Sends what is left and a Goodbye (none for kUnspecified), waiting up to `timeout` for the
  // acknowledgement; then ends the thread.
  void Stop(wire::GoodbyeStatus status, int64_t step, std::chrono::milliseconds timeout);
  // Trainer's thread: a line for the log, written by the background thread, because a log may block.
  void PostLog(LogLevel level, const char* text) noexcept;

  // Actions for the trainer's thread.
  ActionQueue& actions() { return actions_; }
  const ExporterCounters& counters() const { return counters_; }
  // Why nothing is recorded now; "" when all is well. Any thread.
  std::string NotRecording() const;
  // Something stopped being measured: later Hellos say so. Any thread but not within a step.
  void AddUnmonitored(wire::Unmonitored item);

 private:
  void Run();
  void Tick();
  void TakeRecords();
  void AddRecord(const StepRecord& record, uint64_t dropped_before);
  void Connect();
  void Down(const Status& why);
  void Refused(const std::string& why);
  void Receive();
  void SendSome();
  void OnReply(const wire::Reply& reply);
  void OnAction(const wire::Action& action, bool proposal);
  void Complain(const std::string& why);
  bool Flushed() const;
  void Encode(wire::Frame frame);

  ExporterOptions options_;
  const FrameLayout& layout_;
  StepQueue& queue_;
  SamplingRequest& request_;
  const Clock& clock_;
  LogFn log_;
  ExporterCounters counters_;
  ActionQueue actions_{64};
  BoundedDropOldestQueue<LogLine> log_lines_{32};

  struct State;  // the thread's own
  std::unique_ptr<State> state_;

  mutable std::mutex mutex_;  // guards what follows; never taken on the step path
  std::condition_variable wake_;
  bool stopping_ = false;
  wire::GoodbyeStatus goodbye_ = wire::GoodbyeStatus::kUnspecified;
  int64_t goodbye_step_ = 0;
  int64_t deadline_nanos_ = 0;
  std::string not_recording_;
  std::vector<wire::Unmonitored> new_unmonitored_;
  std::thread thread_;
};

}  // namespace foreshock::sdk
