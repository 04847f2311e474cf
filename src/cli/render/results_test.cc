// SPDX-License-Identifier: Apache-2.0
#include "cli/render/results.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::cli {
namespace {

namespace json = base::json;
using testing::HasSubstr;

json::object execution(std::string_view text) {
  return base::parseJson(text)->get_object();
}

TEST(Results, AreTextOneBeneathTheOther) {
  EXPECT_EQ(resultsText(execution(R"({"stdout":"x"})")), "");
  EXPECT_EQ(resultsText(execution(
                R"({"results":[{"text/plain":"2"},{"image/png":"aGk="},7,{"text/plain":"3"}]})")),
            "2\n3\n");
  EXPECT_EQ(leftOutText(execution(R"({"results":[{"text/plain":"2"}]})")), "");
  EXPECT_THAT(leftOutText(execution(R"({"results":[],"results_truncated":true})")),
              HasSubstr("more results"));
  EXPECT_EQ(leftOutText(execution(R"({"results_truncated":true,"results_left_out":[)"
                                  R"({"result":0,"type":"text/html","bytes":9,"kept_bytes":0},)"
                                  R"({"result":0,"type":"text/plain","bytes":8,"kept_bytes":7},)"
                                  R"({"result":null,"type":"","bytes":6,"kept_bytes":0},7]})")),
            "text/html of 9 bytes was over a bound and was left out\n"
            "text/plain of 8 bytes was over a bound and is cut to 7\n"
            "a result of 6 bytes was over a bound and was left out\n");
}

TEST(Results, ImagesBecomeFiles) {
  const std::string dir = testing::TempDir() + "cloister-results";
  std::filesystem::create_directories(dir);
  const auto saved = saveImages(
      execution(R"({"cell":{"number":3},"results":[{"text/plain":"2"},)"
                R"({"image/png":"aGk=","image/svg+xml":"<svg>"},{"image/png":"no base64!"}]})"),
      dir);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*saved, dir + "/cell-3-2.png\n" + dir + "/cell-3-2.svg\n");
  EXPECT_EQ(*base::readFile(dir + "/cell-3-2.png", 100), "hi");
  EXPECT_EQ(*base::readFile(dir + "/cell-3-2.svg", 100), "<svg>");
  EXPECT_FALSE(saveImages(execution(R"({"results":[{"image/png":"aGk="}]})"), dir + "/nowhere"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace cloister::cli
