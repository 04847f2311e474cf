// SPDX-License-Identifier: Apache-2.0
#include "model/receipt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;

class Receipt : public ::testing::Test {
 protected:
  [[nodiscard]] json::object sealed() const {
    return sealReceipt({{"execution_id", "exec_1"},
                        {"usage", {{"wall_ms", 12}, {"a/b~c", "x"}}},
                        {"weakened", json::array{"one", "two"}},
                        {"approvals", json::array{}},
                        {"exit_code", nullptr}},
                       key_);
  }

  [[nodiscard]] Result<> verify(const json::object& receipt) const {
    return verifyReceipt(receipt, key_.verifyKey());
  }

  void expectWrong(const json::object& receipt, const std::string& field,
                   const std::string& words) const {
    const auto verified = verify(receipt);
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().field, field) << verified.error().message;
    EXPECT_THAT(verified.error().message, HasSubstr(words));
  }

  base::SigningKey key_ = base::SigningKey::generate();
};

TEST_F(Receipt, VerifiesAndIsTheSameEachTime) {
  const json::object receipt = sealed();
  EXPECT_TRUE(verify(receipt)) << verify(receipt).error().message;
  EXPECT_EQ(base::toJson(receipt), base::toJson(sealed()));
  const auto again = base::parseJson(base::toJson(receipt));
  EXPECT_TRUE(verify(again->get_object())) << "as it is read from a file";
}

TEST_F(Receipt, NamesWhatWasChangedRemovedOrAdded) {
  json::object receipt = sealed();
  receipt["usage"].as_object()["wall_ms"] = 13;
  expectWrong(receipt, "/usage/wall_ms", "/usage/wall_ms: was changed");
  receipt = sealed();
  receipt["usage"].as_object()["a/b~c"] = "y";
  expectWrong(receipt, "/usage/a~1b~0c", "was changed");
  receipt = sealed();
  receipt["weakened"].as_array().pop_back();
  expectWrong(receipt, "/weakened/1", "was removed");
  receipt = sealed();
  receipt["weakened"].as_array().emplace_back("three");
  expectWrong(receipt, "/weakened/2", "was added");
  receipt = sealed();
  receipt["approvals"].as_array().emplace_back("mallory");
  expectWrong(receipt, "/approvals", "/approvals/0: was added");
  receipt = sealed();
  receipt.erase("exit_code");
  expectWrong(receipt, "/exit_code", "was removed");
  receipt["more"] = 1;
  expectWrong(receipt, "/exit_code", "/more: was added");
}

TEST_F(Receipt, IsNotVerifiedByDigestsThatWereComputedAnew) {
  const json::object other =
      sealReceipt({{"execution_id", "exec_2"}}, base::SigningKey::generate());
  expectWrong(other, "/signature/key", "another key");
  json::object claimed = other;
  claimed["signature"].as_object()["key"] = key_.verifyKey().id();
  expectWrong(claimed, "/signature/value", "not the signature");
  json::object moved = sealed();
  moved["signature"].as_object()["value"] = other.at("signature").at("value");
  expectWrong(moved, "/signature/value", "not the signature");
}

TEST_F(Receipt, IsNotVerifiedInAnotherShapeWithTheSameDigests) {
  json::object receipt = sealed();
  receipt["weakened"] = {{"0", "one"}, {"1", "two"}};
  expectWrong(receipt, "/signature/value", "not the signature");
}

TEST_F(Receipt, RefusesWhatIsNone) {
  expectWrong({}, "/fields", "is missing");
  expectWrong({{"fields", 1}, {"signature", 1}}, "/fields", "must be an object");
  json::object receipt = sealed();
  receipt["format"] = "cloister-execution-receipt v2";
  expectWrong(receipt, "/format", "is not");
  receipt = sealed();
  receipt["fields"].as_object()["/usage/wall_ms"] = 1;
  expectWrong(receipt, "/fields/~1usage~1wall_ms", "must be a string");
  receipt = sealed();
  receipt["signature"].as_object()["more"] = 1;
  expectWrong(receipt, "/signature", "do not belong");
  receipt = sealed();
  receipt["signature"].as_object()["algorithm"] = "none";
  expectWrong(receipt, "/signature/algorithm", "is not");
  receipt = sealed();
  receipt["signature"].as_object()["value"] = "!";
  expectWrong(receipt, "/signature/value", "not the signature");
}

}  // namespace
}  // namespace cloister::model
