// The server as the command line sees it: one call a question. gRPC stays behind client.cc.
//
// Every call takes at most Options::timeout_ms (Watch and Report: none) and answers kUnavailable when the
// server cannot be reached; the message then names the address. Where certificates are the reason, it is
// kPermissionDenied or kFailedPrecondition, and the message says what to do. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/v1/control.pb.h"
#include "foreshock/v1/query.pb.h"
#include "foreshock/wire/recording.h"

namespace foreshock::cli {

struct ClientOptions {
  std::string server = "127.0.0.1:7071";  // host:port
  std::string token;                      // bearer token; empty: none
  std::string token_file;                 // its first line is the token; wins over `token`
  std::string ca_file;                    // TLS roots; empty: the system's
  std::string cert_file, key_file;        // mTLS; empty: none
  bool tls = false;
  int timeout_ms = 10'000;
};

// kInvalidArgument when `server` is not host:port with a port of 1 to 65535.
Status CheckServerAddress(const std::string& server);

// An archive on its way into a server.
class ImportStream {
 public:
  virtual ~ImportStream() = default;  // without Finish: broken off
  // The next bytes. kUnavailable when the server takes no more: Finish says why.
  virtual Status Write(std::string_view archive) = 0;
  virtual Result<v1::ImportRunReply> Finish() = 0;
};

class Client {
 public:
  // Does not wait for the connection. kInvalidArgument for a wrong address or unreadable files.
  static Result<std::unique_ptr<Client>> Create(const ClientOptions& options);
  virtual ~Client() = default;

  virtual Result<v1::ListRunsReply> ListRuns(const v1::ListRunsRequest& request) = 0;
  virtual Result<v1::Run> GetRun(const std::string& run) = 0;
  // All points, by rising step.
  virtual Result<v1::SeriesPoints> ReadSeries(const v1::ReadSeriesRequest& request) = 0;
  virtual Result<v1::StepReply> ReadStep(const v1::ReadStepRequest& request) = 0;
  virtual Result<v1::ListAlertsReply> ListAlerts(const v1::ListAlertsRequest& request) = 0;
  virtual Result<v1::ListEventsReply> ListEvents(const v1::ListEventsRequest& request) = 0;
  virtual Result<v1::ServerStatus> GetStatus() = 0;
  virtual Result<v1::ActReply> Act(const v1::ActRequest& request) = 0;
  virtual Result<v1::ListActionsReply> ListActions(const std::string& run) = 0;
  virtual Result<v1::DeleteRunReply> DeleteRun(const v1::DeleteRunRequest& request) = 0;
  // Takes as long as the disk does.
  virtual Result<v1::BackupReply> Backup(const v1::BackupRequest& request) = 0;
  // Calls `each` for every piece of the run's archive; its error ends the call and is its status.
  virtual Status ExportRun(const v1::ExportRunRequest& request,
                           const std::function<Status(std::string_view archive)>& each) = 0;
  // The client must outlive the stream.
  virtual std::unique_ptr<ImportStream> StartImport(const std::string& issuer) = 0;
  virtual Result<v1::Silence> CreateSilence(const v1::CreateSilenceRequest& request) = 0;
  virtual Result<v1::ListSilencesReply> Acknowledge(const v1::AcknowledgeRequest& request) = 0;
  virtual Result<v1::ListSilencesReply> ListSilences(const v1::ListSilencesRequest& request) = 0;
  virtual Result<v1::Silence> ExpireSilence(const v1::ExpireSilenceRequest& request) = 0;
  virtual Result<v1::ListAuditReply> ListAudit(const v1::ListAuditRequest& request) = 0;

  // Sends a recording as its processes would have: every Hello begins one, its frames must be numbered from
  // 1, and a Goodbye (finished) is added to each. Returns when all of it is durable. Sending the same again
  // adds nothing. The server's refusals come as kInvalidArgument and so on, naming the field.
  virtual Status SendRecording(const std::vector<wire::RecordingItem>& items) = 0;

  // Calls `each` for every update until it returns false, the run ends, or the connection breaks.
  virtual Status Watch(const v1::WatchRequest& request,
                       const std::function<bool(const v1::WatchUpdate&)>& each) = 0;
  // Calls `each` for every piece of the page.
  virtual Status Report(const v1::ReportRequest& request,
                        const std::function<Status(const std::string&)>& each) = 0;
};

}  // namespace foreshock::cli
