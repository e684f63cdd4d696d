#include "foreshock/sdk/exporter.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "agent_starter.h"
#include "foreshock/sdk/frame_encoder.h"
#include "foreshock/sdk/send_window.h"
#include "link.h"

namespace foreshock::sdk {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);
constexpr int64_t kGreetingNanos = 5'000'000'000;

std::unique_ptr<Link> MakeLink(const ExporterOptions& options, const Clock& clock) {
  const Address& address = options.address;
  switch (address.kind) {
    case LinkKind::kUnix:
      return MakeUnixLink(address.target);
    case LinkKind::kFile:
      return MakeFileLink(address.target, address.json_lines, clock);
    case LinkKind::kGrpc:
      return MakeGrpcLink(address.target, options.grpc_library, options.token);
    case LinkKind::kNone:
      break;
  }
  return nullptr;
}

uint64_t NewIncarnation() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;  // never 0
}

// Blocks every signal for the life of the object, so that a thread made meanwhile has all of them blocked.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

 private:
  sigset_t old_;
};

}  // namespace

struct Exporter::State {
  State(const ExporterOptions& options, const Clock& clock)
      : link(MakeLink(options, clock)),
        window(options.window_bytes),
        agent({options.start_agent, options.agent_path, options.agent_arguments}),
        backoff(options.first_backoff) {}

  std::unique_ptr<Link> link;
  SendWindow window;
  AgentStarter agent;
  enum { kDown, kGreeting, kReady, kRefused } phase = kDown;
  int64_t retry_at = 0;
  int64_t greeting_until = 0;
  std::chrono::milliseconds backoff;
  uint64_t next_seq = 1;
  uint64_t highest_sent = 0;
  bool ending = false;      // the last record is in the window
  int failures_at_end = 0;  // to connect, since then
};

Exporter::Exporter(ExporterOptions options, const FrameLayout& layout, StepQueue& queue,
                   SamplingRequest& request, const Clock& clock, LogFn log)
    : options_(std::move(options)),
      layout_(layout),
      queue_(queue),
      request_(request),
      clock_(clock),
      log_(std::move(log)),
      state_(std::make_unique<State>(options_, clock)) {}

Exporter::~Exporter() = default;

Status Exporter::Start() {
  const BlockSignals blocked;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::exception& error) {
    return Status(Code::kResourceExhausted, std::string("background thread: ") + error.what());
  }
  return OkStatus();
}

void Exporter::Stop(wire::GoodbyeStatus status, int64_t step, std::chrono::milliseconds timeout) {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    goodbye_ = status;
    goodbye_step_ = step;
    deadline_nanos_ = clock_.MonotonicNanos() + std::chrono::nanoseconds(timeout).count();
  }
  wake_.notify_all();
  thread_.join();
}

void Exporter::PostLog(LogLevel level, const char* text) noexcept {
  LogLine& line = log_lines_.Slot();
  line.level = level;
  CopyText(text, line.text, sizeof line.text);
  log_lines_.Publish();
}

std::string Exporter::NotRecording() const {
  std::lock_guard lock(mutex_);
  return not_recording_;
}

void Exporter::AddUnmonitored(wire::Unmonitored item) {
  std::lock_guard lock(mutex_);
  new_unmonitored_.push_back(std::move(item));
}

void Exporter::Run() {
  pthread_setname_np(pthread_self(), "foreshock");
  for (;;) {
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      // Nobody wakes this thread for a record: a wake-up would be a system call on the step path.
      if (!stopping_) wake_.wait_for(lock, kTick, [this] { return stopping_; });
      stopping = stopping_;
      for (auto& item : new_unmonitored_) options_.hello.unmonitored.push_back(std::move(item));
      new_unmonitored_.clear();
    }
    try {
      Tick();
    } catch (const std::exception& error) {
      Complain(std::string("background thread: ") + error.what());
    }
    if (!stopping) continue;
    if (Flushed() || clock_.MonotonicNanos() >= deadline_nanos_ || state_->failures_at_end > 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!state_->window.empty()) {
    const auto left = state_->window.bytes();
    log_(LogLevel::kWarning, "closed with " + std::to_string(left) + " bytes that " +
                                 options_.address.ToString() + " has not acknowledged");
  }
  state_->link->Stop();
  counters_.connected = false;
}

// Nobody takes what is left of a refused run.
bool Exporter::Flushed() const {
  if (state_->ending && state_->phase == State::kRefused) return true;
  return state_->ending && state_->window.empty() && state_->link->Drained();
}

void Exporter::Tick() {
  uint64_t lost = 0;
  while (const LogLine* line = log_lines_.Take(&lost)) log_(line->level, line->text);
  TakeRecords();
  const int64_t now = clock_.MonotonicNanos();
  if (state_->phase == State::kDown && now >= state_->retry_at) Connect();
  if (state_->phase == State::kGreeting || state_->phase == State::kReady) Receive();
  if (state_->phase == State::kReady) SendSome();
  if (state_->phase == State::kReady) Receive();
  if (state_->phase == State::kGreeting && clock_.MonotonicNanos() > state_->greeting_until) {
    Down(Status(Code::kUnavailable,
                options_.address.ToString() + ": connected, but no answer to the greeting"));
  }
  state_->agent.Reap();
}

void Exporter::TakeRecords() {
  uint64_t dropped = 0;
  while (StepRecord* record = queue_.Take(&dropped)) AddRecord(*record, dropped);
  // After the last record of the queue.
  bool stopping = false;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
  }
  if (!stopping || state_->ending) return;
  state_->ending = true;
  state_->retry_at = 0;
  if (goodbye_ == wire::GoodbyeStatus::kUnspecified) return;  // a process that just ends announces nothing
  wire::Goodbye goodbye;
  goodbye.seq = state_->next_seq++;
  goodbye.step = goodbye_step_;
  goodbye.status = goodbye_;
  goodbye.time_unix_ns = static_cast<uint64_t>(std::max<int64_t>(clock_.WallNanos(), 0));
  state_->window.Add(goodbye.seq, wire::RecordType::kGoodbye, wire::Encode(goodbye));
}

void Exporter::AddRecord(const StepRecord& record, uint64_t dropped_before) {
  state_->next_seq += dropped_before;  // the hole in seq is what declares the gap
  if (record.is_event) {
    wire::Event event = ToEvent(record.event);
    event.seq = state_->next_seq++;
    state_->window.Add(event.seq, wire::RecordType::kEvent, wire::Encode(event));
  } else {
    Encode(ToFrame(layout_, record.frame));
  }
  counters_.window_dropped = state_->window.dropped();
}

void Exporter::Encode(wire::Frame frame) {
  frame.seq = state_->next_seq;
  if (options_.address.kind == LinkKind::kFile) {
    state_->window.Add(state_->next_seq++, wire::RecordType::kFrame, wire::Encode(frame));
    return;
  }
  for (const wire::Frame& part : wire::SplitFrame(std::move(frame), wire::kSafeMessageBytes)) {
    state_->window.Add(part.seq, wire::RecordType::kFrame, wire::Encode(part));
    state_->next_seq = part.seq + 1;
  }
}

void Exporter::Connect() {
  Status status = state_->link->Start(options_.hello);
  if (!status.ok() && status.code() == Code::kNotFound && options_.address.kind == LinkKind::kUnix &&
      options_.start_agent) {
    const Status started = state_->agent.Start(options_.address.target);
    if (started.ok()) {
      // It needs a moment; ask again soon, and complain only when that leads nowhere.
      state_->retry_at = clock_.MonotonicNanos() + std::chrono::nanoseconds(options_.first_backoff).count();
      return;
    }
    status = started;
  }
  if (!status.ok()) return Down(status);
  state_->phase = State::kGreeting;
  state_->greeting_until = clock_.MonotonicNanos() + kGreetingNanos;
}

void Exporter::Down(const Status& why) {
  state_->link->Stop();
  state_->phase = State::kDown;
  counters_.connected = false;
  state_->retry_at = clock_.MonotonicNanos() + std::chrono::nanoseconds(state_->backoff).count();
  state_->backoff = std::min(state_->backoff * 2, options_.last_backoff);
  if (state_->ending) {
    // A side that is away is not waited for to the end of the flush time.
    ++state_->failures_at_end;
    state_->retry_at = clock_.MonotonicNanos() + kTick.count() * 1'000'000;
  }
  Complain(why.message());
}

// The Hello was judged by rules that all receivers share: asking again would get the same answer.
void Exporter::Refused(const std::string& why) {
  state_->link->Stop();
  state_->phase = State::kRefused;
  counters_.connected = false;
  {
    std::lock_guard lock(mutex_);
    not_recording_ = why;
  }
  log_(LogLevel::kWarning, "nothing is recorded: " + options_.address.ToString() + " refuses run '" +
                               options_.hello.run + "': " + why + " (training goes on, not tried again)");
}

void Exporter::Complain(const std::string& why) {
  const std::string line = "nothing is recorded now: " + why + " (training goes on, will try again)";
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = not_recording_.empty();
    not_recording_ = why;
  }
  // One line for each time that recording stops, however often connecting fails meanwhile.
  if (first) log_(LogLevel::kWarning, line);
}

void Exporter::Receive() {
  std::vector<wire::Reply> replies;
  const Status status = state_->link->Pump(&replies);
  for (const wire::Reply& reply : replies) {
    OnReply(reply);
    if (state_->phase == State::kDown || state_->phase == State::kRefused) return;
  }
  if (status.code() == Code::kInvalidArgument) return Refused(status.message());
  if (!status.ok()) Down(status);
}

void Exporter::OnReply(const wire::Reply& reply) {
  if (reply.hello && state_->phase == State::kGreeting) {
    // The other side has records of this incarnation that this process never made: it is a copy (a restored
    // snapshot), and what it sends would be taken for repetitions.
    if (reply.hello->durable_seq >= state_->next_seq) {
      options_.hello.incarnation = NewIncarnation();
      return Down(Status(
          Code::kUnavailable,
          options_.address.ToString() + ": knows another process by this incarnation; taking a new one"));
    }
    if (options_.hello.attempt.empty()) {
      options_.hello.attempt = reply.hello->attempt;
      options_.hello.attempt_source = reply.hello->attempt_source;
    }
    state_->window.Rewind(std::max(reply.hello->durable_seq, state_->window.acknowledged()));
    state_->phase = State::kReady;
    state_->backoff = options_.first_backoff;
    counters_.connected = true;
    ++counters_.connects;
    bool was_down = false;
    {
      std::lock_guard lock(mutex_);
      was_down = !not_recording_.empty();
      not_recording_.clear();
    }
    if (was_down) log_(LogLevel::kInfo, "recording to " + options_.address.ToString() + " again");
  }
  if (reply.durable_seq > 0) state_->window.Acknowledge(std::min(reply.durable_seq, state_->next_seq - 1));
  counters_.acknowledged = state_->window.acknowledged();
  counters_.window_dropped = state_->window.dropped();
  for (const wire::Action& action : reply.proposals) OnAction(action, true);
  for (const wire::Action& action : reply.actions) OnAction(action, false);
  if (reply.sampling) {
    request_.attention_every_steps = reply.sampling->attention_every_steps;
    request_.spectra_every_steps = reply.sampling->spectra_every_steps;
    request_.projections_every_steps = reply.sampling->projections_every_steps;
    request_.row_every = reply.sampling->row_stride;
  }
  if (reply.error) {
    const wire::IngestError& error = *reply.error;
    if (error.final && state_->phase == State::kGreeting) return Refused(error.message);
    const std::string what = error.seq > 0 ? "the receiver refused record " + std::to_string(error.seq) + ": "
                                           : "not recorded beyond " + options_.address.ToString() + ": ";
    log_(LogLevel::kWarning, what + error.message);
    if (error.final && error.seq > 0 && error.seq < state_->next_seq) state_->window.Discard(error.seq);
  }
}

void Exporter::OnAction(const wire::Action& action, bool proposal) {
  ++counters_.actions_received;
  ActionSlot& slot = actions_.Slot();
  slot = ActionSlot();
  CopyText(action.id.c_str(), slot.id, sizeof slot.id);
  CopyText(action.kind.c_str(), slot.kind, sizeof slot.kind);
  CopyText(action.issuer.c_str(), slot.issuer, sizeof slot.issuer);
  CopyText(action.reason.c_str(), slot.reason, sizeof slot.reason);
  slot.effective_step = action.effective_step;
  slot.expiry_step = action.expiry_step;
  slot.value = action.value;
  slot.proposal = proposal;
  slot.committed = action.committed;
  const auto refuse = [&](const std::string& why) { CopyText(why.c_str(), slot.refuse, sizeof slot.refuse); };
  if (action.layers.size() > std::size(slot.layers)) {
    refuse("names " + std::to_string(action.layers.size()) + " layers, at most " +
           std::to_string(std::size(slot.layers)));
  } else {
    slot.layer_count = static_cast<uint32_t>(action.layers.size());
    std::copy(action.layers.begin(), action.layers.end(), slot.layers);
  }
  const auto& allowed = options_.hello.allowed_actions;
  if (std::find(allowed.begin(), allowed.end(), action.kind) == allowed.end()) {
    refuse("not on the trainer's allow-list");
  } else if (!action.attempt.empty() && action.attempt != options_.hello.attempt) {
    refuse("meant for attempt " + action.attempt + ", this is " + options_.hello.attempt);
  }
  if (slot.refuse[0] != '\0') ++counters_.actions_refused;
  actions_.Publish();
}

void Exporter::SendSome() {
  uint64_t gap = 0;
  while (const SendWindow::Item* item = state_->window.Next(&gap)) {
    std::string payload = gap > 0 ? wire::WithDroppedBefore(item->payload, gap) : item->payload;
    const uint64_t size = payload.size(), seq = item->seq;
    const Status status = state_->link->Send(item->type, std::move(payload), seq);
    if (status.code() == Code::kResourceExhausted) return;
    if (!status.ok()) return Down(status);
    state_->window.Advance();
    counters_.bytes_sent += size;
    if (seq <= state_->highest_sent) continue;
    state_->highest_sent = seq;
    ++counters_.sent;
  }
}

}  // namespace foreshock::sdk
