// SPDX-License-Identifier: Apache-2.0
// /v1/sessions through the router, over the real service and the fake runtime.
#include <gmock/gmock.h>

#include "api/rest/rest_fixture.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SessionsRestTest : public RestTest {};

TEST_F(SessionsRestTest, FromItsCreationToItsEnd) {
  serve();
  const Answer created =
      request("POST", "/v1/sessions", R"({"ttl_seconds": 60, "metadata": {"a": "b"}})");
  EXPECT_EQ(created.status, 201);
  EXPECT_EQ(created.text("status"), "running");
  const std::string path = "/v1/sessions/" + created.text("id");
  EXPECT_EQ(created.header("Location"), path);
  const Answer ran = request("POST", path + "/exec?wait=20", R"({"command": ["echo", "hi"]})");
  EXPECT_EQ(ran.status, 200);
  EXPECT_EQ(ran.text("stdout"), "hi\n");
  EXPECT_EQ("/v1/sessions/" + ran.text("session_id"), path);
  EXPECT_EQ(ran.header("Location"), "/v1/executions/" + ran.text("id"));
  EXPECT_EQ(request("GET", path).object().at("executions_running").as_int64(), 0);
  EXPECT_EQ(request("GET", ran.header("Location")).text("stdout"), "hi\n");
  const Answer ended = request("DELETE", path);
  EXPECT_EQ(ended.status, 200);
  EXPECT_EQ(ended.text("status"), "ended");
  EXPECT_EQ(ended.object().at("end_reason").at("type").as_string(), "CANCELLED");
  EXPECT_EQ(request("DELETE", path).body, ended.body);
  EXPECT_EQ(request("GET", path).body, ended.body);
}

// A page is held in memory as a whole, so its bytes are bounded as well as its length.
TEST_F(SessionsRestTest, APageOfLargeRecordsIsShort) {
  serve();
  json::object metadata;
  for (int i = 0; i < 20; i++)
    metadata["m" + std::to_string(i)] = std::string(30'000, 'x');
  const std::string large = base::toJson(json::object{{"metadata", std::move(metadata)}});
  for (int i = 0; i < 20; i++)
    ASSERT_EQ(request("DELETE", made(large)).status, 200);
  std::vector<size_t> pages;
  for (std::string cursor; pages.empty() || !cursor.empty();) {
    const std::string from = cursor.empty() ? "" : "&cursor=" + percentEncode(cursor);
    const json::object page = request("GET", "/v1/sessions?limit=500" + from).object();
    pages.push_back(page.at("sessions").as_array().size());
    const json::value& next = page.at("next_cursor");
    cursor = next.is_null() ? "" : next.as_string().c_str();
  }
  EXPECT_THAT(pages, ElementsAre(16, 4));
}

TEST_F(SessionsRestTest, AnswersAProgramAsARun) {
  serve();
  const std::string path = made();
  const std::string echo = R"({"command": ["echo"]})";
  const std::string hold = R"({"command": ["hold"]})";
  EXPECT_EQ(request("POST", path + "/exec", echo).status, 201);
  EXPECT_EQ(request("POST", path + "/exec?wait=20", echo).status, 200);
  EXPECT_EQ(request("POST", path + "/exec?wait=0", hold).status, 202);
  const Answer beside =
      request("POST", path + "/exec", R"({"command": ["hold"], "background": true})");
  EXPECT_EQ(beside.status, 202);
  EXPECT_EQ(beside.text("status"), "running");
  const Answer both =
      request("POST", path + "/exec?wait=1", R"({"command": ["hold"], "background": true})");
  EXPECT_EQ(both.status, 400);
  EXPECT_THAT(both.body, HasSubstr("query.wait"));
  EXPECT_EQ(request("DELETE", "/v1/executions/" + beside.text("id")).status, 202);
  fake_->release();
}

TEST_F(SessionsRestTest, KnowsOneRequestFromAnother) {
  serve();
  const std::vector<Header> key = {{"idempotency-key", "k1"}};
  const Answer first = request("POST", "/v1/sessions", "{}", key);
  EXPECT_EQ(request("POST", "/v1/sessions", "{}", key).text("id"), first.text("id"));
  EXPECT_EQ(request("POST", "/v1/sessions", R"({"ttl_seconds": 5})", key).status, 409);
  const std::string exec = "/v1/sessions/" + first.text("id") + "/exec";
  const Answer program = request("POST", exec, R"({"command": ["echo"]})", key);
  EXPECT_EQ(request("POST", exec, R"({"command": ["echo"]})", key).text("id"), program.text("id"));
}

TEST_F(SessionsRestTest, SaysWhatIsWrong) {
  session_config_.max_execs = 1;
  serve();
  const std::string path = made(R"({"memory_mb": 128})");
  EXPECT_EQ(request("POST", "/v1/sessions", R"({"ttl_seconds": 1e9})").status, 422);
  EXPECT_EQ(request("POST", "/v1/sessions", R"({"nonsense": 1})").status, 422);
  EXPECT_EQ(request("GET", "/v1/sessions?status=nice").status, 400);
  EXPECT_EQ(request("GET", "/v1/sessions/ses_none").status, 404);
  EXPECT_EQ(request("POST", "/v1/sessions/ses_none/exec", R"({"command": ["echo"]})").status, 404);
  EXPECT_EQ(request("DELETE", "/v1/sessions/ses_none").status, 404);
  EXPECT_EQ(request("POST", "/v1/sessions/ses_none/renew", "{}").status, 404);
  EXPECT_EQ(request("GET", "/v1/sessions/ses_none/events").status, 404);
  EXPECT_EQ(request("POST", path + "/exec", R"({"command": ["echo"], "memory_mb": 256})").status,
            422);
  EXPECT_EQ(request("POST", path + "/exec", R"({"command": ["hold"]})").status, 201);
  const Answer full = request("POST", path + "/exec", R"({"command": ["echo"]})");
  EXPECT_EQ(full.status, 429);
  EXPECT_NE(full.header("Retry-After"), "");
  ASSERT_EQ(request("DELETE", path).status, 200);
  for (const char* step : {"/exec", "/renew"}) {
    const std::string body = step == std::string("/exec") ? R"({"command": ["echo"]})" : "{}";
    const Answer late = request("POST", path + step, body);
    EXPECT_EQ(late.status, 409);
    EXPECT_THAT(late.body, HasSubstr("ended on request"));
  }
  control_->nodes.set({});
  EXPECT_EQ(request("POST", "/v1/sessions", "{}").status, 503);
}

TEST_F(SessionsRestTest, Renews) {
  serve();
  const std::string path = made(R"({"ttl_seconds": 60, "idle_ttl_seconds": 30})");
  const Answer longer = request("POST", path + "/renew", R"({"ttl_seconds": 500})");
  EXPECT_EQ(longer.status, 200);
  EXPECT_EQ(longer.object().at("ttl_seconds").as_int64(), 500);
  EXPECT_EQ(longer.object().at("idle_ttl_seconds").as_int64(), 30);
  EXPECT_EQ(request("POST", path + "/renew").status, 200);
  EXPECT_EQ(request("POST", path + "/renew", R"({"ttl_seconds": 1e9})").status, 422);
}

TEST_F(SessionsRestTest, ListsThem) {
  serve();
  const std::string one = made();
  const std::string two = made();
  request("DELETE", one);
  const json::object page = request("GET", "/v1/sessions?limit=1").object();
  ASSERT_EQ(page.at("sessions").as_array().size(), 1U);
  EXPECT_EQ("/v1/sessions/" + std::string(page.at("sessions").at(0).at("id").as_string()), two);
  const std::string cursor(page.at("next_cursor").as_string());
  const json::object next =
      request("GET", "/v1/sessions?limit=5&cursor=" + percentEncode(cursor)).object();
  ASSERT_EQ(next.at("sessions").as_array().size(), 1U);
  EXPECT_EQ(next.at("sessions").at(0).at("status").as_string(), "ended");
  EXPECT_TRUE(next.at("next_cursor").is_null());
  EXPECT_EQ(request("GET", "/v1/sessions?status=running").object().at("sessions").as_array().size(),
            1U);
}

TEST_F(SessionsRestTest, SendsInputAndSignals) {
  serve();
  const std::string path = made();
  const Answer cat = request("POST", path + "/exec", R"({"command": ["cat"], "keep_input": true})");
  const std::string program = "/v1/executions/" + cat.text("id");
  const Answer sent = request("POST", program + "/input", R"({"data": "hello"})");
  EXPECT_EQ(sent.status, 200);
  EXPECT_EQ(sent.body, "{}");
  EXPECT_EQ(request("POST", program + "/input", R"({"data": "!", "eof": true})").status, 200);
  await(service_->wait(principal(), cat.text("id"), Millis(60'000)));
  EXPECT_EQ(request("GET", program).text("stdout"), "hello!");
  EXPECT_EQ(request("POST", program + "/input", R"({"data": "late"})").status, 409);
  EXPECT_EQ(request("POST", program + ":signal", R"({"signal": "SIGINT"})").status, 409);

  const Answer trap = request("POST", path + "/exec", R"({"command": ["trap"]})");
  const std::string trapped = "/v1/executions/" + trap.text("id");
  EXPECT_EQ(request("POST", trapped + ":signal", R"({"signal": "SIGNONE"})").status, 422);
  EXPECT_EQ(request("POST", trapped + ":signal", R"({"signal": "SIGINT"})").status, 200);
  await(service_->wait(principal(), trap.text("id"), Millis(60'000)));
  EXPECT_EQ(request("GET", trapped).text("stdout"), "2\n");
  EXPECT_EQ(request("POST", "/v1/executions/exec_none:signal", R"({"signal": 2})").status, 404);
  const Answer alone = request("POST", "/v1/executions", R"({"command": ["hold"]})");
  const Answer refused =
      request("POST", "/v1/executions/" + alone.text("id") + ":signal", R"({"signal": "SIGINT"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("DELETE"));
}

TEST_F(SessionsRestTest, StreamsWhatHappens) {
  serve();
  const std::string path = made();
  const std::string program =
      request("POST", path + "/exec?wait=20", R"({"command": ["echo"]})").text("id");
  const auto live = start(answer("GET", path + "/events", "", {}));
  settle();
  EXPECT_FALSE(live->done());
  request("DELETE", path);
  const Answer stream = finish(live);
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(stream.header("Content-Type"), "text/event-stream");
  EXPECT_THAT(stream.body, AllOf(HasSubstr("id: 1\nevent: status\n"),
                                 HasSubstr("id: 4\nevent: execution\ndata: {\"id\":\"" + program +
                                           "\",\"status\":\"completed\"}\n\n"),
                                 HasSubstr("id: 5.end\nevent: status\n")));
  const Answer rest = request("GET", path + "/events", "", {{"last-event-id", "3"}});
  EXPECT_THAT(rest.body,
              AllOf(HasSubstr("id: 4\n"), HasSubstr("id: 5.end\n"), Not(HasSubstr("id: 3\n"))));
  EXPECT_EQ(request("GET", path + "/events", "", {{"last-event-id", "5.end"}}).status, 204);
  EXPECT_EQ(request("GET", path + "/events", "", {{"last-event-id", "nonsense"}}).status, 400);
  EXPECT_THAT(request("GET", path + "/events?last_event_id=77").body, HasSubstr("\"ended\""));
}

TEST_F(SessionsRestTest, SendsHeartbeats) {
  serve();
  parts_->heartbeat = Millis(20);
  const std::string path = made();
  const auto live = start(answer("GET", path + "/events", "", {}));
  const auto until = base::monotonicNow() + Millis(60);
  while (base::monotonicNow() < until)
    settle();
  request("DELETE", path);
  EXPECT_THAT(finish(live).body, HasSubstr("event: heartbeat\ndata: {\"time\":"));
}

}  // namespace
}  // namespace cloister::api
