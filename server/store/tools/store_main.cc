// foreshock-store check FOLDER | dump FOLDER: looks through the data folder of a server that does not run.
//
// check: says what is there and what is wrong; exit status 0: clean, 1: faults, 2: could not be read.
// dump: one line an entry.
#include <cstdio>
#include <string>

#include "foreshock/server/store/check.h"

namespace {

using foreshock::store::CheckReport;

int Fail(const foreshock::Status& status) {
  std::fprintf(stderr, "foreshock-store: %s\n", status.ToString().c_str());
  return 2;
}

constexpr char kHelp[] =
    "Looks through the data folder of a server that does not run.\n"
    "Usage: foreshock-store check FOLDER | dump FOLDER\n\n"
    "Verbs:\n"
    "  check    what is there and what is wrong; exit status 0: clean, 1: faults\n"
    "  dump     one line an entry\n\n"
    "Exit status 2: wrong usage, or a folder that cannot be read or is in use.\n";

unsigned long long Count(uint64_t n) { return n; }

int Check(const std::string& folder) {
  const auto report = foreshock::store::CheckStore({.folder = folder});
  if (!report.ok()) return Fail(report.status());
  std::printf(
      "%llu runs, %llu open frames, %llu frames kept as they came, %llu sealed in %llu groups of %llu "
      "columns\n",
      Count(report->runs), Count(report->open_frames), Count(report->kept_frames),
      Count(report->sealed_frames), Count(report->groups), Count(report->columns));
  for (const std::string& fault : report->first_faults) std::printf("fault: %s\n", fault.c_str());
  if (report->faults == 0)
    std::printf("clean\n");
  else
    std::printf("%llu faults\n", Count(report->faults));
  return report->faults == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "", verb = argc == 3 ? word : "";
  if (argc == 2 && (word == "--help" || word == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (verb == "check") return Check(argv[2]);
  if (verb == "dump") {
    const auto status = foreshock::store::DumpStore({.folder = argv[2]},
                                                    [](const std::string& line) { std::puts(line.c_str()); });
    return status.ok() ? 0 : Fail(status);
  }
  std::fputs(kHelp, stderr);
  return 2;
}
