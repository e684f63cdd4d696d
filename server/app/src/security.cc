#include "security.h"

#include <sys/stat.h>

#include "foreshock/base/file.h"
#include "foreshock/base/logging.h"
#include "foreshock/base/tls_identity.h"

namespace foreshock::app {
namespace {

constexpr std::chrono::seconds kLook{1};
constexpr int64_t kSoonS = 7 * 86'400;
constexpr size_t kLeastTokenBytes = 16;

// The file's first line.
Result<std::string> ReadControlToken(const std::string& path) {
  if (path.empty()) return std::string();
  auto text = ReadWholeFile(PosixFileSystem(), path, 4096);
  if (!text.ok()) return text.status().Annotate("control_token_file");
  std::string token = text->substr(0, text->find_first_of("\r\n"));
  if (token.size() >= kLeastTokenBytes) return token;
  return Status(Code::kInvalidArgument, "control_token_file: the first line of " + path + " has " +
                                            std::to_string(token.size()) +
                                            " bytes, a token needs at least 16");
}

// Changes whenever the file does.
std::string StampOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "absent";
  return std::to_string(info.st_ino) + " " + std::to_string(info.st_size) + " " +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

void WarnIfReadable(const std::string& key_file) {
  struct stat info {};
  if (key_file.empty() || ::stat(key_file.c_str(), &info) != 0 || (info.st_mode & S_IROTH) == 0) return;
  LogWarning("server/app", "every user of this machine can read the private key", {{"file", key_file}});
}

}  // namespace

Result<std::unique_ptr<Security>> Security::Create(const AppOptions& options, const Clock& clock) {
  FS_ASSIGN_OR_RETURN(std::string control_token, ReadControlToken(options.control_token_file));
  std::unique_ptr<Security> security(new Security(options, clock, std::move(control_token)));
  FS_RETURN_IF_ERROR(security->gate_.Reload());
  FS_RETURN_IF_ERROR(security->LookAtCertificate());
  WarnIfReadable(options.tls_key_file);
  return security;
}

Security::Security(const AppOptions& options, const Clock& clock, std::string control_token)
    : cert_file_(options.tls_cert_file),
      key_file_(options.tls_key_file),
      files_{options.tokens_file, options.tls_cert_file, options.tls_key_file, options.http_client_ca_file},
      clock_(clock),
      gate_(
          {.tokens_file = options.tokens_file, .control_token = std::move(control_token), .clock = &clock}) {}

Security::~Security() { Stop(); }

void Security::Start(http::Server* http) {
  http_ = http;
  thread_ = std::thread([this] { Watch(); });
}

void Security::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Security::Reload() {
  std::lock_guard lock(reload_mutex_);
  const Status tokens = ReloadTokens();
  const Status certificates = ReloadCertificates();
  return tokens.ok() ? certificates : tokens;
}

Status Security::ReloadTokens() {
  const Status status = gate_.Reload();
  if (!status.ok()) {
    LogError("server/app", "tokens not reloaded, the old ones stay", {{"error", status}});
  } else if (gate_.tokens_needed()) {
    LogInfo("server/app", "tokens reloaded", {{"tokens", gate_.stats().tokens}});
  }
  return status;
}

// gRPC reads its own; this looks at them for it, because it says nothing.
Status Security::ReloadCertificates() {
  if (cert_file_.empty()) return OkStatus();
  Status status = LookAtCertificate();
  if (status.ok() && http_ != nullptr) status = http_->ReloadCertificates();
  if (!status.ok()) {
    ++failures_;
    LogError("server/app", "certificate not reloaded, the old one stays", {{"error", status}});
    return status;
  }
  ++reloads_;
  LogInfo("server/app", "certificate reloaded", {{"expires", UtcText(expires_)}});
  return OkStatus();
}

Status Security::LookAtCertificate() {
  if (cert_file_.empty()) return OkStatus();
  FS_ASSIGN_OR_RETURN(const auto identity,
                      TlsIdentity::Load("tls_cert_file", cert_file_, "tls_key_file", key_file_));
  expires_ = identity->expires_unix_s();
  const int64_t now_s = clock_.WallNanos() / 1'000'000'000;
  if (identity->expired()) {
    LogError("server/app", "the certificate has expired: clients will refuse it",
             {{"file", cert_file_}, {"expired", UtcText(expires_)}});
  } else if (expires_ - now_s < kSoonS) {
    LogWarning("server/app", "the certificate expires soon",
               {{"file", cert_file_}, {"expires", UtcText(expires_)}});
  }
  return OkStatus();
}

std::vector<std::string> Security::Stamps() const {
  std::vector<std::string> stamps;
  for (const std::string& file : files_) stamps.push_back(file.empty() ? "" : StampOf(file));
  return stamps;
}

void Security::Watch() {
  std::vector<std::string> seen = Stamps();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kLook, [this] { return stopping_; })) {
    lock.unlock();
    const std::vector<std::string> now = Stamps();
    if (now != seen) {
      seen = now;
      Reload().IgnoreError();  // logged and counted
    }
    lock.lock();
  }
}

}  // namespace foreshock::app
