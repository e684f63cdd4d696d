#include "foreshock/cli/picture.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "browser.h"
#include "foreshock/base/file.h"

namespace foreshock::cli {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;
constexpr int kLeastHeight = 400;
constexpr int kMostHeight = 16'000;  // beyond it Chromium's own limit of a picture's side is near

// A folder of our own for the page and the browser's profile, gone at the end.
class WorkFolder {
 public:
  WorkFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "foreshock-picture-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    if (geteuid() == 0 && chown(name.c_str(), kNobody, kNobody) != 0) path_.clear();
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The height that the page's script measured, or a screenful.
int HeightOf(const std::string& dom) {
  constexpr std::string_view kKey = "data-height=\"";
  const size_t at = dom.find(kKey);
  const int height = at == std::string::npos ? 0 : std::atoi(dom.c_str() + at + kKey.size());
  return std::clamp(height, kLeastHeight, kMostHeight);
}

std::vector<std::string> BrowserWords(const std::string& browser, const fs::path& work, int width,
                                      int height) {
  std::vector<std::string> words = {browser,
                                    "--headless",
                                    "--disable-gpu",
                                    "--hide-scrollbars",
                                    "--no-first-run",
                                    "--disable-background-networking",
                                    "--host-resolver-rules=MAP * ~NOTFOUND",  // a page loads nothing
                                    "--virtual-time-budget=10000",
                                    "--user-data-dir=" + (work / "profile").string(),
                                    "--window-size=" + std::to_string(width) + "," + std::to_string(height)};
  if (geteuid() != 0) return words;
  // Chromium's sandbox refuses root, and a page may come from a server that is not ours: it is drawn by
  // nobody.
  words.push_back("--no-sandbox");
  const std::string nobody = std::to_string(kNobody);
  words.insert(words.begin(), {"setpriv", "--reuid=" + nobody, "--regid=" + nobody, "--clear-groups", "--"});
  return words;
}

}  // namespace

Result<std::string> FindBrowser() {
  if (const char* named = std::getenv("FORESHOCK_CHROMIUM")) return std::string(named);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::vector<std::string> all;
  for (std::string folder; std::getline(folders, folder, ':');) all.push_back(folder);
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    for (const std::string& folder : all) {
      const std::string file = folder + "/" + name;
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  }
  return Status(Code::kFailedPrecondition,
                "--png: no chromium on PATH: install it (Debian: apt install chromium), name one in "
                "FORESHOCK_CHROMIUM, or "
                "write the page with -o and open it");
}

Status DrawPage(const std::string& browser, const std::string& html, const std::string& png_path,
                const PictureOptions& options) {
  const WorkFolder work;
  if (work.path().empty())
    return Status(Code::kIo, "--png: no temporary folder: set TMPDIR to one that can be written");
  const fs::path page = work.path() / "page.html", dom = work.path() / "dom",
                 picture = work.path() / "page.png";
  if (!(std::ofstream(page, std::ios::binary) << html << std::flush)) {
    return Status(Code::kIo, "--png: cannot write " + page.string());
  }
  const std::string address = "file://" + page.string();
  auto measure = BrowserWords(browser, work.path(), options.width_pixels, 1000);
  measure.insert(measure.end(), {"--dump-dom", address});
  FS_RETURN_IF_ERROR(RunProgram(browser, measure, dom.string(), options.timeout));
  const auto drawn = ReadWholeFile(PosixFileSystem(), dom.string());
  const int height = HeightOf(drawn.ok() ? *drawn : "");
  auto draw = BrowserWords(browser, work.path(), options.width_pixels, height);
  draw.insert(draw.end(), {"--screenshot=" + picture.string(), address});
  FS_RETURN_IF_ERROR(RunProgram(browser, draw, dom.string(), options.timeout));
  const auto bytes = ReadWholeFile(PosixFileSystem(), picture.string());
  if (!bytes.ok() || !bytes->starts_with("\x89PNG\r\n\x1a\n")) {
    return Status(Code::kUnavailable, "--png: " + browser + " drew no picture");
  }
  const Status written = WriteFileAtomically(PosixFileSystem(), png_path, *bytes);
  return written.ok() ? written : Status(Code::kIo, "--png: " + png_path + ": " + written.message());
}

}  // namespace foreshock::cli
