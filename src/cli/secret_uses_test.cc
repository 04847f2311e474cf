// SPDX-License-Identifier: Apache-2.0
#include "cli/secret_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

std::string use(std::string_view text) {
  const auto made = secretUse(text);
  return made ? base::toJson(*made) : made.error().message;
}

TEST(SecretUses, HaveTheFormsOfTheRequest) {
  EXPECT_EQ(use("KEY"), R"({"name":"KEY","as":"env"})");
  EXPECT_EQ(use("KEY=env"), R"({"name":"KEY","as":"env"})");
  EXPECT_EQ(use("KEY=env:API_KEY"), R"({"name":"KEY","as":"env","variable":"API_KEY"})");
  EXPECT_EQ(use("KEY=file"), R"({"name":"KEY","as":"file"})");
  EXPECT_EQ(use("KEY=file:/run/secrets/a:b"),
            R"({"name":"KEY","as":"file","path":"/run/secrets/a:b"})");
  EXPECT_EQ(use("KEY=broker:api.test"),
            R"({"name":"KEY","as":"broker","host":"api.test","header":"Authorization",)"
            R"("format":"Bearer {}"})");
  EXPECT_EQ(use("KEY=broker:api.test:8443,header=X-Key,method=GET,method=POST,path=/v1/*"),
            R"({"name":"KEY","as":"broker","host":"api.test","port":8443,"header":"X-Key",)"
            R"("methods":["GET","POST"],"paths":["/v1/*"]})");
  EXPECT_EQ(use("KEY=broker:api.test,header=Authorization,format=key={}"),
            R"({"name":"KEY","as":"broker","host":"api.test","header":"Authorization",)"
            R"("format":"key={}"})");
  EXPECT_EQ(use("KEY=broker:api.test,variable=KEY"),
            R"({"name":"KEY","as":"broker","host":"api.test","variable":"KEY"})");
}

TEST(SecretUses, RefusalsNameTheForm) {
  using ::testing::HasSubstr;
  EXPECT_THAT(use("KEY=value"), HasSubstr("cloister secret set"));
  EXPECT_THAT(use("KEY=broker"), HasSubstr("broker:HOST"));
  EXPECT_THAT(use("KEY=broker:api.test:x"), HasSubstr("is no port"));
  EXPECT_THAT(use("KEY=broker:api.test,color=red"), HasSubstr("none of header"));
  EXPECT_EQ(secretUse("KEY=value").error().field, "--secret");
}

}  // namespace
}  // namespace cloister::cli
