// foreshock report RUN... [-o FILE] [--png FILE]
#include "commands.h"
#include "common.h"
#include "foreshock/base/file.h"
#include "foreshock/cli/picture.h"
#include "foreshock/json/writer.h"

namespace foreshock::cli {
namespace {

Status WritePage(const std::string& path, const std::string& page) {
  if (page.empty()) return Status(Code::kDataLoss, "the server sent an empty page");
  const Status written = WriteFileAtomically(PosixFileSystem(), path, page);
  return written.ok() ? written : Status(Code::kIo, "output: " + path + ": " + written.message());
}

class Report final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "report", "Write a self-contained HTML page about one run, or several side by side",
        "Of a run that went wrong it tells what happened: when it began, which head went first, the "
        "evidence, the last\n"
        "checkpoint before it, what was done and what that did.\n"
        "Examples:\n  foreshock report gpt-7 -o gpt-7.html\n  foreshock report healthy faulty -o both.html\n"
        "  foreshock report gpt-7 --png gpt-7.png",
        [this](ArgSink& sink) {
          sink.Positionals("RUN", &runs_, "runs' names");
          sink.Option("-o,--output", &output_,
                      "file to write (default: RUN.html, '-' for the standard output)");
          sink.Option("--png", &png_,
                      "draw the page into this PNG file; alone, no page is kept. Needs a chromium, which\n"
                      "FORESHOCK_CHROMIUM may name");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    Result<std::string> browser = std::string();
    if (!png_.empty()) browser = FindBrowser();  // before anything is asked for
    if (!browser.ok()) return Fail(context, browser.status());
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    v1::ReportRequest request;
    for (const std::string& run : runs_) request.add_runs(run);
    std::string page;
    Status status = (*client)->Report(request, [&](const std::string& piece) {
      page += piece;
      return OkStatus();
    });
    if (!status.ok()) return Fail(context, status);
    if (output_ == "-") context.out << page;
    const bool keep = output_ != "-" && (png_.empty() || !output_.empty());
    const std::string path = output_.empty() ? FileName() : output_;
    if (keep) status = WritePage(path, page);
    if (status.ok() && !png_.empty()) status = DrawPage(*browser, page, png_, PictureOptions());
    if (!status.ok()) return Fail(context, status);
    if (output_ != "-") Tell(context, keep ? path : "");
    return kExitOk;
  }

 private:
  void Tell(Context& context, const std::string& path) const {
    if (!server_.json()) {
      for (const std::string& file : {path, png_}) {
        if (!file.empty()) context.out << "wrote " << file << "\n";
      }
      return;
    }
    json::Writer writer;
    writer.BeginObject();
    if (!path.empty()) writer.Key("file").String(path);
    if (!png_.empty()) writer.Key("png").String(png_);
    context.out << writer.EndObject().text() << "\n";
  }

  // Run names may hold '/'.
  std::string FileName() const {
    std::string name = runs_[0];
    for (char& c : name) c = c == '/' ? '_' : c;
    return name + ".html";
  }

  std::vector<std::string> runs_;
  std::string output_, png_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeReport() { return std::make_unique<Report>(); }

}  // namespace foreshock::cli
