#include "foreshock/sdk/address.h"

#include <gtest/gtest.h>

#include <map>

#include "foreshock/sdk/grpc_target.h"

namespace foreshock::sdk {
namespace {

using wire::AttemptSource;

TEST(AddressTest, Schemes) {
  EXPECT_EQ(ParseAddress("")->kind, LinkKind::kNone);
  const auto unix_link = ParseAddress("unix:/run/foreshock.sock");
  EXPECT_EQ(unix_link->kind, LinkKind::kUnix);
  EXPECT_EQ(unix_link->target, "/run/foreshock.sock");
  EXPECT_FALSE(ParseAddress("file:a.fsk")->json_lines);
  EXPECT_TRUE(ParseAddress("file:a.jsonl")->json_lines);
  EXPECT_EQ(ParseAddress("grpc://host:4317")->target, "host:4317");
  for (const char* text : {"unix:/a", "file:b.jsonl", "grpc://h:1"})
    EXPECT_EQ(ParseAddress(text)->ToString(), text);
}

TEST(AddressTest, GrpcTakesOptions) {
  const auto address = ParseAddress("grpc://host:4317?tls_ca=/etc/ca.pem&token_file=/etc/token");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  const auto target = ParseGrpcTarget(address->target);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->host_port, "host:4317");
  EXPECT_EQ(target->ca_file, "/etc/ca.pem");
  EXPECT_EQ(target->token_file, "/etc/token");
  EXPECT_FALSE(target->tls);
  EXPECT_TRUE(ParseGrpcTarget(ParseAddress("grpcs://host:1")->target)->tls);
  EXPECT_TRUE(ParseGrpcTarget(ParseAddress("grpcs://host:1?tls_key=k")->target)->tls);
  EXPECT_EQ(ParseAddress("grpc://host:1?tls_cs=x").status().message(),
            "address: 'tls_cs': no such option; known are tls, tls_ca, tls_cert, tls_key and token_file");
  EXPECT_FALSE(ParseAddress("grpc://host:1?tls=yes").ok());
  EXPECT_FALSE(ParseAddress("grpc://host?tls_ca=/a:b").ok()) << "no port";
}

TEST(AddressTest, WhatCannotBeAnAddress) {
  for (const char* text : {"tcp:1", "unix:", "grpc://", "grpc://host", "/a/b"}) {
    const auto address = ParseAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(ParseAddress("unix:" + std::string(108, 'x')).ok());
  EXPECT_TRUE(ParseAddress("unix:" + std::string(107, 'x')).ok());
}

class AttemptTest : public ::testing::Test {
 protected:
  Attempt Discover(LinkKind link, uint32_t world = 1, uint32_t local = 1, const std::string& option = "") {
    return DiscoverAttempt(
        option, [this](const char* name) { return variables_.count(name) ? variables_.at(name) : ""; }, link,
        world, local, 0xabcdef);
  }
  std::map<std::string, std::string> variables_;
};

TEST_F(AttemptTest, TheFirstOfOptionVariableElasticSlurm) {
  variables_["SLURM_JOB_ID"] = "77";
  EXPECT_EQ(Discover(LinkKind::kUnix).name, "77.0");
  variables_["SLURM_RESTART_COUNT"] = "2";
  EXPECT_EQ(Discover(LinkKind::kUnix).name, "77.2");
  EXPECT_EQ(Discover(LinkKind::kUnix).source, AttemptSource::kSlurm);
  variables_["TORCHELASTIC_RUN_ID"] = "job9";
  variables_["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_EQ(Discover(LinkKind::kUnix).name, "job9.1");
  EXPECT_EQ(Discover(LinkKind::kUnix).source, AttemptSource::kTorchelastic);
  variables_["FORESHOCK_ATTEMPT"] = "mine";
  EXPECT_EQ(Discover(LinkKind::kUnix).name, "mine");
  EXPECT_EQ(Discover(LinkKind::kUnix, 1, 1, "option").name, "option");
  EXPECT_EQ(Discover(LinkKind::kUnix).source, AttemptSource::kExplicit);
}

TEST_F(AttemptTest, TorchrunsDefaultRunIdNamesNoRun) {
  variables_["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(Discover(LinkKind::kFile).source, AttemptSource::kMinted);
}

TEST_F(AttemptTest, MintedByTheAgentOrHere) {
  EXPECT_EQ(Discover(LinkKind::kUnix).name, "");
  EXPECT_EQ(Discover(LinkKind::kFile).name, "m0000000000abcdef");
  EXPECT_EQ(Discover(LinkKind::kGrpc).source, AttemptSource::kMinted);
}

TEST_F(AttemptTest, SeveralNodesWithoutAnyIsUnknown) {
  EXPECT_EQ(Discover(LinkKind::kUnix, 16, 8).source, AttemptSource::kUnknown);
  EXPECT_EQ(Discover(LinkKind::kUnix, 8, 8).source, AttemptSource::kUnspecified);
}

}  // namespace
}  // namespace foreshock::sdk
