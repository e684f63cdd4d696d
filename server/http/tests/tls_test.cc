// HTTPS with certificates made here.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"
#include "foreshock/tests/certificates.h"

namespace foreshock::http {
namespace {

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_https_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ca_ = std::make_unique<tests::Authority>(folder_, "ca");
    other_ca_ = std::make_unique<tests::Authority>(folder_, "other-ca");
    ca_->Issue("server");
    ca_->Issue("client", {.common_name = "reader", .names = {}});
  }
  ~HttpTlsTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  Status Serve(bool mutual) {
    Routes routes;
    routes.Get("/size/{bytes}", [](const Request& r) {
      return Response{200, "text/plain", std::string(std::stoul(r.Path("bytes")), 'x')};
    });
    routes.Post("/echo", [](const Request& r) {
      return Response{200, "text/plain", r.authorization + r.body};
    });
    ServerOptions options;
    options.cert_file = ca_->cert_file("server");
    options.key_file = ca_->key_file("server");
    if (mutual) options.client_ca_file = ca_->ca_file();
    FS_ASSIGN_OR_RETURN(server_, Server::Start(options, std::move(routes)));
    return OkStatus();
  }

  std::string Url(const std::string& path) const {
    return "https://127.0.0.1:" + std::to_string(server_->port()) + path;
  }

  ClientOptions Client(bool with_certificate = false) const {
    ClientOptions options;
    options.ca_file = ca_->ca_file();
    if (!with_certificate) return options;
    options.cert_file = ca_->cert_file("client");
    options.key_file = ca_->key_file("client");
    return options;
  }

  // Once so many are counted: a client knows that it was refused before the server has counted it.
  uint64_t FailedHandshakes(uint64_t expected) const {
    for (int i = 0; i < 1000 && server_->stats().failed_handshakes < expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return server_->stats().failed_handshakes;
  }

  std::string folder_;
  std::unique_ptr<tests::Authority> ca_, other_ca_;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpTlsTest, AnswersLargeAndSmall) {
  ASSERT_TRUE(Serve(false).ok());
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{3'000'000}}) {
    const auto got = Get(Url("/size/" + std::to_string(bytes)), Client());
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(got->body.size(), bytes);
  }
  ClientOptions with_header = Client();
  with_header.headers["Authorization"] = "Bearer x";
  const std::string body(500'000, 'b');
  const auto posted = Post(Url("/echo"), body, "text/plain", with_header);
  ASSERT_TRUE(posted.ok()) << posted.status().ToString();
  EXPECT_EQ(posted->body, "Bearer x" + body);
}

TEST_F(HttpTlsTest, AClientWithAnotherCaDoesNotTrustIt) {
  ASSERT_TRUE(Serve(false).ok());
  ClientOptions wrong = Client();
  wrong.ca_file = other_ca_->ca_file();
  EXPECT_FALSE(Get(Url("/size/1"), wrong).ok());
  EXPECT_TRUE(Get(Url("/size/1"), Client()).ok());
}

TEST_F(HttpTlsTest, APlainRequestIsToldToUseHttps) {
  ASSERT_TRUE(Serve(false).ok());
  const auto got = Get("http://127.0.0.1:" + std::to_string(server_->port()) + "/size/1");
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->code, 400);
  EXPECT_EQ(got->body, "This port talks TLS: use https://\n");
  EXPECT_EQ(FailedHandshakes(1), 1u);
}

TEST_F(HttpTlsTest, MutualTlsTakesItsOwnClientsAlone) {
  ca_->Issue("expired", {.valid_from_s = -7200, .valid_to_s = -3600});
  other_ca_->Issue("stranger");
  ASSERT_TRUE(Serve(true).ok());
  EXPECT_TRUE(Get(Url("/size/1"), Client(true)).ok());
  EXPECT_FALSE(Get(Url("/size/1"), Client(false)).ok());
  for (const auto& [cert, key] :
       {std::pair{ca_->cert_file("expired"), ca_->key_file("expired")},
        std::pair{other_ca_->cert_file("stranger"), other_ca_->key_file("stranger")}}) {
    ClientOptions options = Client();
    options.cert_file = cert;
    options.key_file = key;
    EXPECT_FALSE(Get(Url("/size/1"), options).ok()) << cert;
  }
  EXPECT_EQ(FailedHandshakes(3), 3u);
}

TEST_F(HttpTlsTest, CertificatesChangeWithoutARestart) {
  ASSERT_TRUE(Serve(true).ok());
  ca_->Issue("server", {.common_name = "elsewhere", .names = {"DNS:elsewhere.example"}});
  EXPECT_TRUE(Get(Url("/size/1"), Client(true)).ok()) << "not before it is read again";
  ASSERT_TRUE(server_->ReloadCertificates().ok());
  EXPECT_FALSE(Get(Url("/size/1"), Client(true)).ok()) << "the new one is for another name";
  ca_->Issue("server");
  ASSERT_TRUE(server_->ReloadCertificates().ok());
  EXPECT_TRUE(Get(Url("/size/1"), Client(true)).ok());
  std::filesystem::remove(ca_->key_file("server"));
  EXPECT_EQ(server_->ReloadCertificates().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Get(Url("/size/1"), Client(true)).ok()) << "the old ones stay";
}

TEST_F(HttpTlsTest, WrongFilesAreNamed) {
  ServerOptions options;
  options.cert_file = ca_->cert_file("server");
  options.key_file = ca_->key_file("client");
  const Status status = Server::Start(options, Routes()).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("http_key_file: "), std::string::npos);
}

}  // namespace
}  // namespace foreshock::http
