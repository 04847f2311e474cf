// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/java_trust.h"

#include <gtest/gtest.h>

#include "base/crypto.h"

namespace cloister::orchestrator {
namespace {

std::string pem(const std::string& der) {
  return "# a comment\n-----BEGIN CERTIFICATE-----\n" + base::toBase64(der) +
         "\n-----END CERTIFICATE-----\n";
}

// `integration/inspection` reads a store with Java.
TEST(JavaTrust, HasEachCertificateOfTheBundle) {
  const std::string store = javaTrustStore(pem("first") + pem("second"));
  EXPECT_EQ(base::toHex(store.substr(0, 12)), "feedfeed0000000200000002");
  EXPECT_EQ(base::toHex(store.substr(12, 6)), "00000002000b");
  EXPECT_EQ(store.substr(18, 11), "authority-0");
  EXPECT_NE(store.find(std::string("\0\0\0\x05", 4) + "first"), std::string::npos);
  EXPECT_NE(store.find(std::string("\0\0\0\x06", 4) + "second"), std::string::npos);
}

TEST(JavaTrust, LeavesOutWhatIsMalformed) {
  const std::string none = javaTrustStore("");
  EXPECT_EQ(none.size(), 12U + 20U);
  EXPECT_EQ(javaTrustStore("-----BEGIN CERTIFICATE-----\nAAAA"), none);
  EXPECT_EQ(javaTrustStore("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"), none);
}

}  // namespace
}  // namespace cloister::orchestrator
