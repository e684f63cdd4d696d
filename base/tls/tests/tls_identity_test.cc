#include "foreshock/base/tls_identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "foreshock/tests/certificates.h"

namespace foreshock {
namespace {

class TlsIdentityTest : public testing::Test {
 protected:
  TlsIdentityTest() {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_tls_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TlsIdentityTest() override { std::filesystem::remove_all(folder_); }

  Status Load(const std::string& cert, const std::string& key) {
    return TlsIdentity::Load("tls_cert", cert, "tls_key", key).status();
  }

  std::string folder_;
};

TEST_F(TlsIdentityTest, TellsWhoAndUntilWhen) {
  tests::Authority ca(folder_, "ca");
  ca.Issue("node", {.common_name = "node-7"});
  const auto identity = TlsIdentity::Load("c", ca.cert_file("node"), "k", ca.key_file("node"));
  ASSERT_TRUE(identity.ok()) << identity.status().ToString();
  EXPECT_EQ((*identity)->subject(), "CN = node-7");
  EXPECT_EQ((*identity)->issuer(), "CN = ca");
  EXPECT_FALSE((*identity)->expired());
  EXPECT_NEAR(static_cast<double>((*identity)->expires_unix_s()),
              static_cast<double>(std::time(nullptr) + 86'400), 600);
}

TEST_F(TlsIdentityTest, AnExpiredOneLoadsAndSaysSo) {
  tests::Authority ca(folder_, "ca");
  ca.Issue("old", {.valid_from_s = -7200, .valid_to_s = -3600});
  const auto identity = TlsIdentity::Load("c", ca.cert_file("old"), "k", ca.key_file("old"));
  ASSERT_TRUE(identity.ok());
  EXPECT_TRUE((*identity)->expired());
}

TEST_F(TlsIdentityTest, NamesWhatIsWrong) {
  tests::Authority ca(folder_, "ca");
  ca.Issue("a");
  ca.Issue("b");
  const std::string junk = folder_ + "/junk";
  std::ofstream(junk) << "no certificate\n";
  const std::string absent = folder_ + "/absent";
  EXPECT_EQ(Load(absent, ca.key_file("a")).message(),
            "tls_cert: " + absent + ": cannot be read: No such file or directory");
  EXPECT_EQ(Load(ca.cert_file("a"), absent).message(),
            "tls_key: " + absent + ": cannot be read: No such file or directory");
  EXPECT_NE(Load(junk, ca.key_file("a")).message().find("no PEM certificate"), std::string::npos);
  EXPECT_NE(Load(ca.cert_file("a"), junk).message().find("no PEM private key"), std::string::npos);
  EXPECT_EQ(Load(ca.cert_file("a"), ca.key_file("b")).message(),
            "tls_key: " + ca.key_file("b") + ": is not the key of the certificate in " + ca.cert_file("a"));
  EXPECT_EQ(TlsRoots::Load("tls_ca", junk).status().message(),
            "tls_ca: " + junk + ": holds no PEM certificate");
  EXPECT_TRUE(TlsRoots::Load("tls_ca", ca.ca_file()).ok());
}

TEST_F(TlsIdentityTest, ADamagedBlockBehindAGoodOneIsNoEnd) {
  tests::Authority ca(folder_, "ca");
  ca.Issue("a");
  const std::string damaged = "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n";
  std::ofstream(ca.cert_file("a"), std::ios::app) << damaged;
  EXPECT_NE(Load(ca.cert_file("a"), ca.key_file("a")).message().find("a damaged PEM block"), std::string::npos);
  std::ofstream(ca.ca_file(), std::ios::app) << damaged;
  EXPECT_FALSE(TlsRoots::Load("tls_ca", ca.ca_file()).ok());
}

TEST(UtcText, IsReadable) { EXPECT_EQ(UtcText(1'700'000'000), "2023-11-14 22:13:20 UTC"); }

}  // namespace
}  // namespace foreshock
