#include "foreshock/base/tls_identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "tls_error.h"

namespace foreshock {
namespace {

using tls::BioPtr;
using tls::ChainPtr;
using tls::KeyPtr;
using tls::StorePtr;
using tls::X509Ptr;

Status Wrong(std::string_view field, const std::string& file, const std::string& what) {
  return Status(Code::kInvalidArgument, std::string(field) + ": " + file + ": " + what);
}

Result<BioPtr> OpenPem(std::string_view field, const std::string& file) {
  errno = 0;
  BioPtr in(BIO_new_file(file.c_str(), "r"));
  const int error = errno;
  if (in != nullptr) return in;
  tls::LastReason();
  return Wrong(field, file, "cannot be read: " + std::system_category().message(error));
}

// Nobody is there to be asked for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

Result<KeyPtr> LoadKey(std::string_view field, const std::string& file) {
  FS_ASSIGN_OR_RETURN(const BioPtr in, OpenPem(field, file));
  KeyPtr key(PEM_read_bio_PrivateKey(in.get(), nullptr, NoPassphrase, nullptr));
  if (key != nullptr) return key;
  return Wrong(field, file, "no PEM private key without passphrase (" + tls::LastReason() + ")");
}

// Whether reading stopped at the end, and not at a damaged block.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (at_end) tls::LastReason();
  return at_end;
}

int64_t UnixSeconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<int64_t>(::timegm(&parts)) : 0;
}

class Identity final : public TlsIdentity {
 public:
  Identity(X509Ptr certificate, ChainPtr chain, KeyPtr key)
      : certificate_(std::move(certificate)), chain_(std::move(chain)), key_(std::move(key)) {}

  std::string subject() const override { return tls::NameText(X509_get_subject_name(certificate_.get())); }
  std::string issuer() const override { return tls::NameText(X509_get_issuer_name(certificate_.get())); }
  int64_t expires_unix_s() const override { return UnixSeconds(X509_get0_notAfter(certificate_.get())); }
  bool expired() const override { return X509_cmp_current_time(X509_get0_notAfter(certificate_.get())) < 0; }
  bool UseIn(SSL* ssl) const override {
    return SSL_use_certificate(ssl, certificate_.get()) == 1 && SSL_use_PrivateKey(ssl, key_.get()) == 1 &&
           SSL_set1_chain(ssl, chain_.get()) == 1;
  }

 private:
  const X509Ptr certificate_;
  const ChainPtr chain_;
  const KeyPtr key_;
};

class Roots final : public TlsRoots {
 public:
  explicit Roots(StorePtr store) : store_(std::move(store)) {}
  X509_STORE* store() const override { return store_.get(); }

 private:
  const StorePtr store_;
};

}  // namespace

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::Load(std::string_view cert_field,
                                                             const std::string& cert_file,
                                                             std::string_view key_field,
                                                             const std::string& key_file) {
  FS_ASSIGN_OR_RETURN(const BioPtr in, OpenPem(cert_field, cert_file));
  X509Ptr certificate(PEM_read_bio_X509_AUX(in.get(), nullptr, NoPassphrase, nullptr));
  if (certificate == nullptr) {
    return Wrong(cert_field, cert_file, "no PEM certificate (" + tls::LastReason() + ")");
  }
  ChainPtr chain(sk_X509_new_null());
  while (X509* next = PEM_read_bio_X509(in.get(), nullptr, NoPassphrase, nullptr)) {
    sk_X509_push(chain.get(), next);
  }
  if (!AtEnd()) return Wrong(cert_field, cert_file, "a damaged PEM block (" + tls::LastReason() + ")");
  FS_ASSIGN_OR_RETURN(KeyPtr key, LoadKey(key_field, key_file));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    tls::LastReason();
    return Wrong(key_field, key_file, "is not the key of the certificate in " + cert_file);
  }
  return std::shared_ptr<const TlsIdentity>(
      std::make_shared<Identity>(std::move(certificate), std::move(chain), std::move(key)));
}

Result<std::shared_ptr<const TlsRoots>> TlsRoots::Load(std::string_view field, const std::string& ca_file) {
  FS_ASSIGN_OR_RETURN(const BioPtr in, OpenPem(field, ca_file));
  StorePtr store(X509_STORE_new());
  int found = 0;
  while (const X509Ptr root{PEM_read_bio_X509_AUX(in.get(), nullptr, NoPassphrase, nullptr)}) {
    found += X509_STORE_add_cert(store.get(), root.get());
  }
  if (!AtEnd()) return Wrong(field, ca_file, "a damaged PEM block (" + tls::LastReason() + ")");
  if (found == 0) return Wrong(field, ca_file, "holds no PEM certificate");
  return std::shared_ptr<const TlsRoots>(std::make_shared<Roots>(std::move(store)));
}

std::string UtcText(int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d:%02d UTC", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text;
}

}  // namespace foreshock
