// foreshock report RUN... -o FILE
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "commands.h"
#include "common.h"
#include "foreshock/json/writer.h"

namespace foreshock::cli {
namespace {

// Writes beside the target and renames, so that a page is whole or not there.
class PageFile {
 public:
  explicit PageFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {}
  ~PageFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(part_.c_str());
  }

  Status Append(const std::string& bytes) {
    if (file_ == nullptr) file_ = std::fopen(part_.c_str(), "wb");
    if (file_ == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return Wrong();
    return OkStatus();
  }
  Status Finish() {
    if (file_ == nullptr) return Status(Code::kDataLoss, "the server sent an empty page");
    FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0 || std::rename(part_.c_str(), path_.c_str()) != 0) {
      const Status wrong = Wrong();
      std::remove(part_.c_str());
      return wrong;
    }
    return OkStatus();
  }

 private:
  Status Wrong() const { return Status(Code::kIo, "output: " + path_ + ": " + std::strerror(errno)); }

  std::string path_, part_;
  FILE* file_ = nullptr;
};

class Report final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "report", "Write a self-contained HTML page about one run, or several side by side",
        "Examples:\n  foreshock report gpt-7 -o gpt-7.html\n  foreshock report healthy faulty -o both.html",
        [this](ArgSink& sink) {
          sink.Positionals("RUN", &runs_, "runs' names");
          sink.Option("-o,--output", &output_,
                      "file to write (default: RUN.html, '-' for the standard output)");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    v1::ReportRequest request;
    for (const std::string& run : runs_) request.add_runs(run);
    if (output_ == "-") {
      const Status status = (*client)->Report(request, [&](const std::string& piece) {
        context.out << piece;
        return OkStatus();
      });
      return status.ok() ? kExitOk : Fail(context, status);
    }
    const std::string path = output_.empty() ? FileName() : output_;
    PageFile file(path);
    Status status = (*client)->Report(request, [&](const std::string& piece) { return file.Append(piece); });
    if (status.ok()) status = file.Finish();
    if (!status.ok()) return Fail(context, status);
    if (server_.json()) {
      context.out << json::Writer().BeginObject().Key("file").String(path).EndObject().text() << "\n";
    } else {
      context.out << "wrote " << path << "\n";
    }
    return kExitOk;
  }

 private:
  // Run names may hold '/'.
  std::string FileName() const {
    std::string name = runs_[0];
    for (char& c : name) c = c == '/' ? '_' : c;
    return name + ".html";
  }

  std::vector<std::string> runs_;
  std::string output_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeReport() { return std::make_unique<Report>(); }

}  // namespace foreshock::cli
