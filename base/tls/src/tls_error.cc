#include "tls_error.h"

#include <openssl/err.h>

namespace foreshock::tls {

std::string LastReason() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  const std::string text = reason == nullptr ? "unknown reason" : reason;
  ERR_clear_error();
  return text;
}

std::string NameText(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  if (out == nullptr || name == nullptr) return "?";
  // Control characters of a foreign certificate are escaped.
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace foreshock::tls
