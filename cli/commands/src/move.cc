// foreshock export RUN --archive FILE, foreshock move RUN --from A --to B
#include <functional>
#include <string>
#include <string_view>

#include "archive_file.h"
#include "commands.h"
#include "foreshock/cli/render.h"
#include "foreshock/json/json.h"

namespace foreshock::cli {
namespace {

// Hands the run's archive to `take`, piece by piece, and tells how far that is. Its error ends it.
Status ExportTo(Context& context, Client& from, const std::string& run, const char* done,
                const std::function<Status(std::string_view)>& take) {
  v1::ExportRunRequest request;
  request.set_run(run);
  request.set_issuer(UserName());
  Progress progress(context.err, done);
  const Status status = from.ExportRun(request, [&](std::string_view bytes) {
    progress.Add(bytes.size());
    return take(bytes);
  });
  progress.End();
  return status;
}

class Export final : public Command {
 public:
  CommandSpec Spec() override {
    return {"export", "Write everything that a server has of a run into a file",
            "The archive holds all attempts and ranks bit for bit, sequence numbers, events, alerts, "
            "silences and the\n"
            "audit trail; `foreshock import` brings it into another server. The server goes on meanwhile, "
            "and so may\n"
            "the run. A file that is there already is not touched.\n"
            "Tables for pandas and DuckDB are written by the Python package, from a server:\n"
            "  python -m foreshock.export gpt-7 --parquet gpt-7.parquet\n\nExamples:\n"
            "  foreshock export gpt-7 --archive gpt-7.fsar\n"
            "  foreshock import gpt-7.fsar --server other:7071",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Option("--archive", &file_, "the file to write (default: RUN.fsar, without slashes)");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    if (file_.empty()) {
      file_ = run_ + ".fsar";
      for (char& c : file_) c = c == '/' ? '_' : c;
    }
    const auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const auto file = ArchiveFile::Create(file_);
    if (!file.ok()) return Fail(context, file.status());
    Status status = ExportTo(context, **client, run_, "exported",
                             [&](std::string_view bytes) { return (*file)->Write(bytes); });
    if (status.ok()) status = (*file)->Finish();
    if (!status.ok()) return Fail(context, status);
    Print(context, **file);
    return kExitOk;
  }

 private:
  void Print(Context& context, const ArchiveFile& file) const {
    const archive::Counts& c = file.counts();
    if (server_.json()) {
      json::Writer out;
      out.BeginObject().Key("run").String(run_).Key("file").String(file_);
      out.Key("bytes").Uint(file.bytes()).Key("attempts").Uint(c.attempts).Key("processes").Uint(c.processes);
      out.Key("frames")
          .Uint(c.frames)
          .Key("merged_frames")
          .Uint(c.merged_frames)
          .Key("events")
          .Uint(c.events);
      out.Key("quarantined").Uint(c.quarantined).Key("notes").Uint(c.notes).EndObject();
      context.out << out.text() << "\n";
      return;
    }
    context.out << "wrote " << Printable(file_) << ": " << file.bytes() << " bytes, " << c.frames
                << " frames of " << c.processes << " processes in " << c.attempts << " attempts, " << c.events
                << " events\n";
  }

  std::string run_, file_;
  ServerArgs server_;
};

class Move final : public Command {
 public:
  CommandSpec Spec() override {
    return {"move", "Copy a run from one server to another, as export and import do, without a file",
            "The run stays on the server it came from: look at the copy, then `foreshock delete` it there. A "
            "run that\n"
            "goes on: see docs/operations.md for the order (hold its agents back, move, point them to the "
            "new server).\n"
            "Token and certificates are used for both servers.\n\nExamples:\n"
            "  foreshock move gpt-7 --from a:7071 --to b:7071\n"
            "  foreshock delete gpt-7 --yes --server a:7071",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Option("--from", &from_, "the server that has it, host:port (default: --server)");
              sink.Option("--to", &to_, "the server that is to have it, host:port");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    if (to_.empty())
      return Fail(context, Status(Code::kInvalidArgument, "to: missing: the server that is to have it"));
    const auto from = from_.empty() ? server_.Connect() : server_.ConnectTo(from_);
    if (!from.ok()) return Fail(context, from.status());
    const auto to = server_.ConnectTo(to_);
    if (!to.ok()) return Fail(context, to.status());
    archive::Reader reader;
    const auto stream = (*to)->StartImport(UserName());
    bool refused = false;
    Status status = ExportTo(context, **from, run_, "moved", [&](std::string_view bytes) {
      FS_RETURN_IF_ERROR(reader.Feed(bytes, [](archive::Entry) { return OkStatus(); }));
      const Status written = stream->Write(bytes);
      refused = !written.ok();
      return written;
    });
    if (status.ok()) status = reader.Finish();
    if (!status.ok() && !refused) return Fail(context, status);
    const auto reply = stream->Finish();
    if (!reply.ok()) return Fail(context, reply.status());
    server_.json() ? PrintJson(context, *reply) : PrintImported(context, *reply);
    return kExitOk;
  }

 private:
  std::string run_, from_, to_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<Export>(); }
std::unique_ptr<Command> MakeMove() { return std::make_unique<Move>(); }

}  // namespace foreshock::cli
