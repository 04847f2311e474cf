// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/memory through the router, over the real ledger.
#include <gmock/gmock.h>

#include "api/rest/rest_fixture.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using testing::HasSubstr;

class MemoryRestTest : public RestTest {};

TEST_F(MemoryRestTest, GivesBackWhatItWasGivenByteForByte) {
  serve();
  const std::string path = made() + "/memory";
  for (const std::string value :
       {"null", "0", "-0.10", "1e-12", "123456789012345678901234567890", "\"\\u00e9\xc3\xa9\"",
        " { \"b\" : [ 1.0 , { } ] , \"a\" : 9007199254740993 }\n"}) {
    const Answer kept = request("PUT", path + "/k", value);
    ASSERT_EQ(kept.status, 200) << kept.body;
    EXPECT_EQ(kept.text("key"), "k");
    EXPECT_EQ(kept.object().at("size").to_number<size_t>(), value.size());
    const Answer read = request("GET", path + "/k");
    EXPECT_EQ(read.status, 200);
    EXPECT_EQ(read.header("Content-Type"), "application/json");
    EXPECT_EQ(read.body, value);
  }
  EXPECT_EQ(request("DELETE", path + "/k").status, 204);
  EXPECT_EQ(request("DELETE", path + "/k").status, 404);
  EXPECT_EQ(request("GET", path + "/k").status, 404);
}

TEST_F(MemoryRestTest, ListsByKeyAPageAtATime) {
  serve();
  const std::string path = made() + "/memory";
  std::vector<std::string> expected;
  for (char c = 'a'; c < 'a' + 20; ++c) {
    expected.push_back(std::string(1, c));
    ASSERT_EQ(request("PUT", path + "/" + expected.back(), "1").status, 200);
  }
  std::vector<std::string> found;
  std::string query = "?limit=18";
  for (int pages = 0; pages < 2; ++pages) {
    const json::object page = request("GET", path + query).object();
    for (const json::value& item : page.at("memory").as_array()) {
      EXPECT_FALSE(item.as_object().contains("value"));
      found.emplace_back(item.at("key").as_string());
    }
    const json::value& next = page.at("next_cursor");
    ASSERT_EQ(next.is_null(), pages == 1);
    if (!next.is_null()) query = "?cursor=" + percentEncode(std::string(next.as_string()));
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(request("GET", path + "?cursor=x").status, 400);
  EXPECT_EQ(request("GET", path + "?limit=0").status, 400);
}

TEST_F(MemoryRestTest, SaysWhatIsWrong) {
  memory_bounds_ = {.keys = 1, .value_bytes = 10, .bytes = 100};
  serve();
  const std::string path = made() + "/memory";
  EXPECT_EQ(request("PUT", path + "/a%2Fb", "1").status, 400);
  EXPECT_EQ(request("PUT", path + "/a", "hello").status, 422);
  EXPECT_EQ(request("PUT", path + "/a").status, 422);
  const Answer large = request("PUT", path + "/a", "\"0123456789\"");
  EXPECT_EQ(large.status, 413);
  EXPECT_THAT(large.body, HasSubstr("session.memory.max_value_bytes"));
  ASSERT_EQ(request("PUT", path + "/a", "1").status, 200);
  const Answer full = request("PUT", path + "/b", "1");
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.body, HasSubstr("session.memory.max_keys"));
  EXPECT_EQ(request("GET", "/v1/sessions/ses_none/memory").status, 404);
  EXPECT_EQ(request("PUT", "/v1/sessions/ses_none/memory/a", "not JSON").status, 404);
  ASSERT_EQ(request("DELETE", path.substr(0, path.rfind('/'))).status, 200);
  EXPECT_EQ(request("PUT", path + "/a", "2").status, 409);
  EXPECT_EQ(request("GET", path + "/a").body, "1");
}

}  // namespace
}  // namespace cloister::api
