// Certificates for tests, made when they are needed. Failures throw.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace foreshock::tests {

struct CertificateSpec {
  std::string common_name = "localhost";
  // "DNS:name" and "IP:address".
  std::vector<std::string> names = {"DNS:localhost", "IP:127.0.0.1"};
  int valid_from_s = -3600;  // from now
  int valid_to_s = 86'400;
};

// A certification authority in a folder.
class Authority {
 public:
  // Writes FOLDER/NAME.ca.pem.
  Authority(const std::string& folder, const std::string& name);
  ~Authority();
  const std::string& ca_file() const { return ca_file_; }
  // Writes FILE.pem and FILE.key into the folder, replacing older ones; every certificate has another serial.
  void Issue(const std::string& file, const CertificateSpec& spec = {});
  std::string cert_file(const std::string& file) const { return folder_ + "/" + file + ".pem"; }
  std::string key_file(const std::string& file) const { return folder_ + "/" + file + ".key"; }

 private:
  struct Keys;
  const std::string folder_, ca_file_;
  const std::unique_ptr<Keys> keys_;
};

}  // namespace foreshock::tests
