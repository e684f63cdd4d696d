#include "tls_context.h"

#include <openssl/ssl.h>

namespace foreshock::http {

Result<std::unique_ptr<TlsContext>> TlsContext::Create(const TlsFiles& files) {
  std::unique_ptr<TlsContext> context(new TlsContext(files));
  FS_RETURN_IF_ERROR(context->Reload());
  FS_RETURN_IF_ERROR(context->MakeContext());
  return context;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Status TlsContext::MakeContext() {
  context_ = SSL_CTX_new(TLS_server_method());
  if (context_ == nullptr) return Status(Code::kInternal, "http: no TLS context");
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_options(context_, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  // A resumed session would keep a client whose certificate is trusted no more.
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!files_.client_ca_file.empty()) {
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  SSL_CTX_set_cert_cb(context_, ChooseCertificate, this);
  return OkStatus();
}

Status TlsContext::Reload() {
  FS_ASSIGN_OR_RETURN(
      auto identity, TlsIdentity::Load("http_cert_file", files_.cert_file, "http_key_file", files_.key_file));
  std::shared_ptr<const TlsRoots> roots;
  if (!files_.client_ca_file.empty()) {
    FS_ASSIGN_OR_RETURN(roots, TlsRoots::Load("http_client_ca_file", files_.client_ca_file));
  }
  std::lock_guard lock(mutex_);
  identity_ = std::move(identity);
  client_roots_ = std::move(roots);
  return OkStatus();
}

// Called by OpenSSL in each handshake, on the connection's thread.
int TlsContext::ChooseCertificate(SSL* ssl, void* self) {
  const auto* context = static_cast<const TlsContext*>(self);
  std::lock_guard lock(context->mutex_);
  if (context->client_roots_ != nullptr) SSL_set1_verify_cert_store(ssl, context->client_roots_->store());
  return context->identity_->UseIn(ssl) ? 1 : 0;
}

SSL* TlsContext::NewSession(int fd) const {
  SSL* ssl = SSL_new(context_);
  if (ssl == nullptr) return nullptr;
  if (SSL_set_fd(ssl, fd) == 1) {
    SSL_set_accept_state(ssl);
    return ssl;
  }
  SSL_free(ssl);
  return nullptr;
}

}  // namespace foreshock::http
