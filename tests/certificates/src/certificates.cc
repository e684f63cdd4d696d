#include "foreshock/tests/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>

namespace foreshock::tests {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

void Check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("test certificate: ") + what);
}

Key NewKey() {
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  Check(key != nullptr, "key");
  return key;
}

void Extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "extension");
  X509_EXTENSION_free(extension);
}

Certificate NewCertificate(const CertificateSpec& spec, EVP_PKEY* key) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new(), X509_free);
  Check(certificate != nullptr, "memory");
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), spec.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), spec.valid_to_s);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1, -1, 0);
  return certificate;
}

template <typename Write>
void ToFile(const std::string& path, Write write) {
  const std::string part = path + ".part";
  FILE* out = std::fopen(part.c_str(), "w");
  Check(out != nullptr, "file");
  const bool written = write(out) == 1;
  Check(std::fclose(out) == 0 && written, "write");
  Check(std::rename(part.c_str(), path.c_str()) == 0, "rename");
}

}  // namespace

struct Authority::Keys {
  Key key = NewKey();
  Certificate certificate{nullptr, X509_free};
};

Authority::Authority(const std::string& folder, const std::string& name)
    : folder_(folder), ca_file_(folder + "/" + name + ".ca.pem"), keys_(std::make_unique<Keys>()) {
  keys_->certificate = NewCertificate({.common_name = name}, keys_->key.get());
  X509* self = keys_->certificate.get();
  X509_set_issuer_name(self, X509_get_subject_name(self));
  Extend(self, self, NID_basic_constraints, "critical,CA:TRUE");
  Extend(self, self, NID_key_usage, "critical,keyCertSign,cRLSign");
  Extend(self, self, NID_subject_key_identifier, "hash");
  Check(X509_sign(self, keys_->key.get(), EVP_sha256()) > 0, "sign");
  ToFile(ca_file_, [self](FILE* out) { return PEM_write_X509(out, self); });
}

Authority::~Authority() = default;

void Authority::Issue(const std::string& file, const CertificateSpec& spec) {
  const Key key = NewKey();
  const Certificate certificate = NewCertificate(spec, key.get());
  X509* issuer = keys_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  Extend(certificate.get(), issuer, NID_basic_constraints, "CA:FALSE");
  Extend(certificate.get(), issuer, NID_key_usage, "critical,digitalSignature");
  Extend(certificate.get(), issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  std::string names;
  for (const std::string& name : spec.names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) Extend(certificate.get(), issuer, NID_subject_alt_name, names);
  Check(X509_sign(certificate.get(), keys_->key.get(), EVP_sha256()) > 0, "sign");
  ToFile(key_file(file), [&](FILE* out) {
    return PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  ToFile(cert_file(file), [&](FILE* out) { return PEM_write_X509(out, certificate.get()); });
}

}  // namespace foreshock::tests
