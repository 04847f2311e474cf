// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/known_secrets.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

TEST(KnownSecrets, NoneCostNothing) {
  KnownSecrets known;
  EXPECT_EQ(known.patterns(), nullptr);
  EXPECT_EQ(known.redacted("text"), "text");
  known.add({});
  EXPECT_EQ(known.patterns(), nullptr);
}

TEST(KnownSecrets, BecomeMore) {
  KnownSecrets known;
  known.add({{"A", "first value"}});
  const auto before = known.patterns();
  known.add({{"A", "first value"}});
  EXPECT_EQ(known.patterns(), before) << "the same again changes nothing";
  known.add({{"B", "second value"}});
  EXPECT_NE(known.patterns(), before);
  EXPECT_EQ(known.redacted("first value, second value"), "[secret A], [secret B]");
}

TEST(KnownSecrets, AllTextsOfAValueAreWithout) {
  KnownSecrets known;
  known.add({{"A", "first value"}});
  base::json::value value =
      base::parseJson(R"([{"first value":{"x":["a first value",7,null]}},"plain"])").value();
  known.redact(value);
  EXPECT_EQ(base::toJson(value), R"([{"[secret A]":{"x":["a [secret A]",7,null]}},"plain"])");
}

}  // namespace
}  // namespace cloister::orchestrator
