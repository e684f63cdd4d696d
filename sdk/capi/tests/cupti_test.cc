// FORESHOCK_CUPTI on a machine where nothing can be measured: the run goes on, and says why.
#include <gmock/gmock.h>

#include "recording_support.h"

namespace foreshock::testing {
namespace {

using ::testing::HasSubstr;

// What the run says of it, in its log and in its recording; both empty: nothing.
struct Said {
  std::string logged, recorded;
};

Said RunWith(const char* cupti) {
  TempDir dir;
  setenv("FORESHOCK_CUPTI", cupti, 1);
  setenv("FORESHOCK_CUPTI_FILE", "/dev/null", 1);
  setenv("FORESHOCK_CUPTI_LIBRARY", "libno-cupti-here.so", 1);
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  Said said;
  options.log_context = &said.logged;
  options.log = [](void* into, fs_log_level level, const char* text) {
    if (level == FS_LOG_WARNING) static_cast<std::string*>(into)->append(text);
  };
  fs_run* run = nullptr;
  EXPECT_EQ(fs_open(&options, &run), FS_OK);
  unsetenv("FORESHOCK_CUPTI");
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_EQ(recording.frames.size(), 1u);
  EXPECT_EQ(recording.hellos.size(), 1u);
  for (const auto& item : recording.hellos.at(0).unmonitored) {
    if (item.name == "device time of kernels") said.recorded = item.reason;
  }
  return said;
}

TEST(CuptiTest, NobodyAsked) {
  for (const char* value : {"", "0"}) {
    const Said said = RunWith(value);
    EXPECT_EQ(said.logged + said.recorded, "") << value;
  }
}

TEST(CuptiTest, ALibraryThatIsNotThereIsNamed) {
  const Said said = RunWith("/nonexistent/libforeshock_cupti.so");
  EXPECT_THAT(said.logged, HasSubstr("FORESHOCK_CUPTI: /nonexistent/libforeshock_cupti.so"));
  EXPECT_THAT(said.recorded, HasSubstr("cannot open shared object file"));
}

TEST(CuptiTest, AnotherLibraryIsNotTaken) {
  EXPECT_THAT(RunWith("libm.so.6").recorded, HasSubstr("not a libforeshock_cupti.so of this version"));
}

#ifdef CUPTI_LIBRARY
TEST(CuptiTest, WithoutCuptiTheLibrarysReasonIsSaid) {
  const Said said = RunWith(CUPTI_LIBRARY);
  EXPECT_THAT(said.logged, HasSubstr("CUPTI is not there"));
  EXPECT_THAT(said.recorded, HasSubstr("CUPTI is not there"));
}
#endif

}  // namespace
}  // namespace foreshock::testing
