// OpenSSL's objects and errors. Private.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace foreshock::tls {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

inline void FreeChain(STACK_OF(X509) * chain) { sk_X509_pop_free(chain, X509_free); }

using BioPtr = std::unique_ptr<BIO, Freer<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using ChainPtr = std::unique_ptr<STACK_OF(X509), Freer<FreeChain>>;
using StorePtr = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freer<SSL_free>>;

// The reason of this thread's last error, in OpenSSL's words; empties the thread's queue.
std::string LastReason();

// "CN = a, O = b"
std::string NameText(const X509_NAME* name);

}  // namespace foreshock::tls
