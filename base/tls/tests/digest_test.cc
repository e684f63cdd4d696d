#include "foreshock/base/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace foreshock {
namespace {

TEST(Digest, Sha256OfKnownTexts) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, SecretsAreEqualOrNot) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "abcd"));
  EXPECT_FALSE(SameSecret("", "a"));
  EXPECT_TRUE(SameSecret("", ""));
}

TEST(Digest, RandomTextsAreUrlSafeAndDiffer) {
  std::set<std::string> seen;
  for (size_t bytes = 1; bytes <= 33; ++bytes) {
    const auto text = RandomText(bytes);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(text->size(), (bytes * 8 + 5) / 6);
    EXPECT_EQ(text->find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
              std::string::npos);
    if (bytes >= 16) {
      EXPECT_TRUE(seen.insert(*text).second);
    }
  }
}

}  // namespace
}  // namespace foreshock
