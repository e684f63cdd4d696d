// Puts the items of a recording together to steps and feeds them to an alert engine. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert_core/alert_engine.h"
#include "foreshock/wire/recording.h"

namespace foreshock::cli {

class Player {
 public:
  using OnEvent = std::function<void(const alert::AlertEvent&)>;
  // A step as the engine gets it, before the engine; with the shape of its run.
  using OnSample = std::function<void(const detect::RunInfo&, const detect::StepSample&)>;
  using OnWarning = std::function<void(const std::string&)>;

  Player(detect::DetectorOptions options, OnEvent on_event, OnWarning on_warning)
      : options_(std::move(options)), on_event_(std::move(on_event)), on_warning_(std::move(on_warning)) {}

  void SetOnSample(OnSample on_sample) { on_sample_ = std::move(on_sample); }

  void Take(wire::RecordingItem item);
  // Feeds what is still held back. Call once, at the end.
  void Finish();

  int64_t steps() const { return steps_; }
  // Of the last hello; empty before it.
  const std::string& run() const { return run_; }
  // The last step fed, -1 before the first.
  int64_t last_step() const { return last_fed_; }
  // Alerts that still fire.
  std::vector<alert::Alert> Firing() const;

 private:
  void TakeHello(const wire::Hello& hello);
  void TakeFrame(const wire::Frame& frame);
  void Feed();

  detect::DetectorOptions options_;
  OnEvent on_event_;
  OnWarning on_warning_;
  OnSample on_sample_;
  detect::RunInfo info_;
  std::unique_ptr<alert::AlertEngine> engine_;
  std::string run_, attempt_;
  detect::StepSample sample_;  // the step being put together
  bool sample_has_frame_ = false;
  int64_t last_fed_ = -1;
  int64_t steps_ = 0;
};

// Reads a recording, text or framed (told apart by its first bytes).
Status ReadRecording(const std::string& path, const std::function<void(wire::RecordingItem)>& each,
                     std::vector<std::string>* warnings);
// Into a player; Finish is the caller's.
Status ReadRecording(const std::string& path, Player* player, std::vector<std::string>* warnings);

}  // namespace foreshock::cli
