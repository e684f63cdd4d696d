#include "foreshock/cli/player.h"

#include <utility>

#include "foreshock/base/file.h"
#include "foreshock/jsonl/text_recording.h"
#include "foreshock/server/alert_core/frame_sample.h"

namespace foreshock::cli {
namespace {

// As at ingest: a step further than this beyond the last is taken for a counter gone wild, and left out.
constexpr int64_t kWildJump = 10'000'000;

}  // namespace

void Player::Take(wire::RecordingItem item) {
  if (const auto* hello = std::get_if<wire::Hello>(&item)) return TakeHello(*hello);
  if (!engine_) return on_warning_("an item before any hello: left out");
  if (const auto* frame = std::get_if<wire::Frame>(&item)) return TakeFrame(*frame);
  if (const auto* event = std::get_if<wire::Event>(&item)) {
    if (sample_has_frame_ && event->step > sample_.step) Feed();
    alert::AddEvent(*event, &sample_);
    return;
  }
  alert::AddGoodbye(std::get<wire::Goodbye>(item), &sample_);
}

void Player::TakeHello(const wire::Hello& hello) {
  Finish();
  // A restarted process of the same attempt goes on where it was; another attempt has its own alerts.
  if (!engine_ || hello.run != run_ || hello.attempt != attempt_) {
    run_ = hello.run;
    attempt_ = hello.attempt;
    info_ = alert::RunInfoOf(hello);
    engine_ = std::make_unique<alert::AlertEngine>(run_, attempt_, info_, options_);
    last_fed_ = -1;
  }
  sample_.events = alert::UnmonitoredOf(hello);
}

void Player::TakeFrame(const wire::Frame& frame) {
  if (sample_has_frame_ && frame.step != sample_.step) Feed();
  const int64_t before = sample_has_frame_ ? sample_.step : last_fed_;
  if (frame.step < before) {
    return on_warning_("step " + std::to_string(frame.step) + " after step " + std::to_string(before) +
                       ": left out");
  }
  if (before >= 0 && frame.step - before > kWildJump) {
    return on_warning_("step " + std::to_string(frame.step) + " after step " + std::to_string(before) +
                       ": wild, left out");
  }
  alert::AddFrame(frame, &sample_);
  sample_has_frame_ = true;
}

void Player::Feed() {
  if (on_sample_) on_sample_(info_, sample_);
  for (const alert::AlertEvent& event : engine_->Observe(sample_)) on_event_(event);
  last_fed_ = sample_.step;
  ++steps_;
  sample_ = detect::StepSample();
  sample_has_frame_ = false;
}

void Player::Finish() {
  if (sample_has_frame_) Feed();
  sample_ = detect::StepSample();
}

Status ReadRecording(const std::string& path, Player* player, std::vector<std::string>* warnings) {
  return ReadRecording(
      path, [player](wire::RecordingItem item) { player->Take(std::move(item)); }, warnings);
}

Status ReadRecording(const std::string& path, const std::function<void(wire::RecordingItem)>& each,
                     std::vector<std::string>* warnings) {
  FS_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(PosixFileSystem(), path));
  const bool framed = bytes.compare(0, 4, "FSK1") == 0;
  return framed ? wire::ReadFramedRecording(bytes, each, warnings)
                : jsonl::ReadTextRecording(bytes, each, warnings);
}

std::vector<alert::Alert> Player::Firing() const {
  std::vector<alert::Alert> firing;
  if (!engine_) return firing;
  for (alert::Alert& alert : engine_->Open()) {
    if (alert.state == alert::AlertState::kFiring) firing.push_back(std::move(alert));
  }
  return firing;
}

}  // namespace foreshock::cli
