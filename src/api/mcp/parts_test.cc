// SPDX-License-Identifier: Apache-2.0
// The pure parts: messages, headers, texts, states.
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "api/mcp/approval.h"
#include "api/mcp/exchange.h"
#include "api/mcp/headers.h"
#include "api/mcp/legacy.h"
#include "api/mcp/message.h"
#include "api/mcp/text.h"
#include "api/mcp/tool.h"

namespace cloister::api::mcp {
namespace {

using testing::HasSubstr;

constexpr size_t kMost = 1 << 20;

int codeOf(std::string_view text) {
  const auto message = parseMessage(text, kMost);
  return message ? 0 : message.error().error.code;
}

TEST(McpMessage, TellsRequestsNotificationsAndResponsesApart) {
  const auto request = parseMessage(R"({"jsonrpc":"2.0","id":"a","method":"ping"})", kMost);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, Kind::kRequest);
  EXPECT_EQ(request->id, json::value("a"));
  const auto told = parseMessage(R"({"jsonrpc":"2.0","method":"x","params":{"b":1}})", kMost);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, Kind::kNotification);
  EXPECT_TRUE(told->params.contains("b"));
  const auto answer = parseMessage(R"({"jsonrpc":"2.0","id":7,"result":{}})", kMost);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::kResponse);
}

TEST(McpMessage, RefusesWhatIsNoSingleMessage) {
  EXPECT_EQ(codeOf("{"), code::kParse);
  EXPECT_EQ(codeOf(R"({"a":1,"a":2})"), code::kParse);
  for (const std::string_view bad :
       {R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", "7", R"({"id":1,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":null,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":[],"method":"ping"})", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","id":1,"method":""})", R"({"jsonrpc":"2.0","id":1,"method":5})",
        R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})",
        R"({"jsonrpc":"2.0","id":1,"result":{},"error":{}})"}) {
    EXPECT_EQ(codeOf(bad), code::kInvalidRequest) << bad;
  }
}

TEST(McpMessage, AnErrorCarriesTheIdWhereItCanBeTold) {
  const auto known = parseMessage(R"({"jsonrpc":"1.0","id":"x","method":"ping"})", kMost);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().id, json::value("x"));
  EXPECT_FALSE(errorMessage(nullptr, RpcError{}).contains("id"));
}

TEST(McpHeaders, AreTrimmedAndDecoded) {
  EXPECT_EQ(headerText("  run\t").value(), "run");
  EXPECT_EQ(headerText("=?base64?w6k=?=").value(), "\xc3\xa9");
  EXPECT_EQ(headerText("=?base64?").value(), "=?base64?");
  EXPECT_FALSE(headerText("=?base64?w6k?="));
  EXPECT_FALSE(headerText("=?base64?/w==?="));  // not UTF-8
}

Request withHeaders(std::vector<Header> headers) {
  Request request;
  request.headers = std::move(headers);
  return request;
}

TEST(McpHeaders, MustSayWhatTheMessageSays) {
  const auto call = parseMessage(
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run"}})", kMost);
  const Header version{"mcp-protocol-version", std::string(kModernVersion)};
  const Header method{"mcp-method", "tools/call"};
  const auto check = [&](std::vector<Header> headers) {
    return checkHeaders(withHeaders(std::move(headers)), *call, kModernVersion);
  };
  EXPECT_FALSE(check({version, method, {"mcp-name", "run"}}));
  EXPECT_FALSE(check({version, method, {"mcp-name", "=?base64?cnVu?="}}));
  EXPECT_THAT(check({version, method, {"mcp-name", "Run"}}).value_or(""), HasSubstr("Mcp-Name"));
  EXPECT_THAT(check({version, method}).value_or(""), HasSubstr("Mcp-Name"));
  EXPECT_THAT(check({version, {"mcp-name", "run"}}).value_or(""), HasSubstr("Mcp-Method"));
  EXPECT_THAT(check({method, {"mcp-name", "run"}}).value_or(""), HasSubstr("Version"));
}

TEST(McpHeaders, OfArgumentsMustSayWhatTheArgumentsSay) {
  const json::object schema{
      {"properties", {{"region", {{"type", "string"}, {"x-mcp-header", "Region"}}}}}};
  const auto check = [&](std::vector<Header> headers, const json::object& arguments) {
    return checkParameters(withHeaders(std::move(headers)), schema, arguments);
  };
  EXPECT_FALSE(check({{"mcp-param-region", "eu"}}, {{"region", "eu"}}));
  EXPECT_TRUE(check({{"mcp-param-region", "us"}}, {{"region", "eu"}}));
  EXPECT_TRUE(check({}, {{"region", "eu"}}));
  EXPECT_TRUE(check({{"mcp-param-region", "eu"}}, {}));
  EXPECT_FALSE(check({}, {{"region", nullptr}}));
}

TEST(McpArguments, TheNetworkIsATierAndDestinations) {
  const auto network = [](const char* text) {
    json::object arguments = base::parseJson(text).value().as_object();
    const auto done = namedNetwork(arguments);
    return done ? base::toJson(arguments) : done.error().field;
  };
  EXPECT_EQ(network(R"({"network_policy":"full"})"), R"({"network_policy":{"tier":"full"}})");
  EXPECT_EQ(network(R"({"network_allow":["a.test:443"]})"),
            R"({"network_policy":{"tier":"restricted","allow":["a.test:443"]}})");
  EXPECT_EQ(network(R"({"network_policy":"internal","network_allow":["a.test:443"]})"),
            R"({"network_policy":{"tier":"internal","allow":["a.test:443"]}})");
  EXPECT_EQ(network(R"({"network_allow":null})"), "{}");
  EXPECT_EQ(network(R"({"network_policy":{"allow":[]},"network_allow":[]})"), "network_allow");
  EXPECT_EQ(network(R"({"on_denied":"ask"})"),
            R"({"network_policy":{"tier":"restricted","on_denied":"ask"}})");
  EXPECT_EQ(network(R"({"network_policy":"full","network_allow":null,"on_denied":"escalate"})"),
            R"({"network_policy":{"tier":"full","on_denied":"escalate"}})");
  EXPECT_EQ(network(R"({"network_policy":{"on_denied":"ask"},"on_denied":"ask"})"), "on_denied");
}

TEST(McpText, IsUtf8WithoutControlCharacters) {
  EXPECT_EQ(plainText("a\r\nb\rc\td\n"), "a\nc\td\n");
  EXPECT_EQ(plainText("\r  0%\r 50%\r100%\nnext"), "100%\nnext");
  EXPECT_EQ(plainText("\r 50%"), " 50%");
  EXPECT_EQ(plainText("one\r\ntwo\r"), "one\ntwo");
  EXPECT_EQ(plainText("working\r       \rdone\n"), "done\n");
  EXPECT_EQ(plainText("a bar\r     \r\nafter\n"), "a bar\nafter\n");
  EXPECT_EQ(plainText("\x1b[32m 1/2\x1b[0m\r\x1b[K\x1b[32m 2/2\x1b[0m\n"), " 2/2\n");
  EXPECT_EQ(plainText("\r\r\n\r"), "\n");
  EXPECT_EQ(plainText("\x1b[31mred\x1b[0m"), "red");
  EXPECT_EQ(plainText("\x1b]52;c;aGk=\x07!"), "!");
  EXPECT_EQ(plainText("\x1b]0;title\x1b\\!"), "!");
  EXPECT_EQ(plainText(std::string_view("a\0b\x7f", 4)), "ab");
  EXPECT_EQ(plainText("\xff\xc3"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(plainText("\xc2\x9b"
                      "31m\xc3\xa9"),
            "31m\xc3\xa9");
  EXPECT_EQ(plainText("\x1b"), "");
}

TEST(McpText, ExcerptsHaveHeadAndTailAndSayWhatIsLeftOut) {
  const std::string bytes = std::string(50, 'h') + std::string(100, 'm') + std::string(50, 't');
  EXPECT_TRUE(excerpt(bytes, bytes.size(), 200, "").whole);
  const Excerpt cut = excerpt(bytes, bytes.size(), 100, "get_logs reads it");
  EXPECT_FALSE(cut.whole);
  EXPECT_TRUE(cut.text.starts_with(std::string(50, 'h') + "\n"));
  EXPECT_TRUE(cut.text.ends_with("\n" + std::string(50, 't')));
  EXPECT_THAT(cut.text, HasSubstr("100 bytes left out; get_logs reads it"));
  const Excerpt lost = excerpt("abc", 1000, 100, "");
  EXPECT_FALSE(lost.whole);
  EXPECT_THAT(lost.text, HasSubstr("997 bytes more were written and not kept"));
}

TEST(McpText, TheLastLineIsShortAndOneLine) {
  EXPECT_EQ(lastLine("a\n  b \n\n"), "b");
  EXPECT_EQ(lastLine(" \n"), "");
  EXPECT_EQ(lastLine(std::string(5000, 'x')).size(), 200U);
}

Subject subject(std::string tenant = "acme", std::string tool = "run") {
  return {.principal =
              {.tenant = std::move(tenant), .app = "", .agent = "", .user = "", .key_id = "key_1"},
          .tool = std::move(tool),
          .arguments = digestOf({{"a", 1}, {"b", 2}})};
}

TEST(McpApproval, AStateIsGoodOnceForItsSubject) {
  Approvals approvals{Millis(60'000)};
  const std::string state = approvals.seal(subject(), {{"round", 1}});
  const auto opened = approvals.open(subject(), state);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->at("round"), json::value(1));
  const auto again = approvals.open(subject(), state);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, code::kInvalidParams);
}

TEST(McpApproval, RefusesAStateForAnythingElse) {
  Approvals approvals{Millis(60'000)};
  const std::string state = approvals.seal(subject(), {});
  EXPECT_FALSE(approvals.open(subject("other"), state));
  EXPECT_FALSE(approvals.open(subject("acme", "exec"), state));
  Subject changed = subject();
  changed.arguments = digestOf({{"a", 1}, {"b", 3}});
  EXPECT_FALSE(approvals.open(changed, state));
  EXPECT_FALSE(approvals.open(subject(), state + "-TAMPERED"));
  EXPECT_FALSE(approvals.open(subject(), ""));
  EXPECT_FALSE(Approvals(Millis(60'000)).open(subject(), state));  // another server's key
  EXPECT_TRUE(approvals.open(subject(), state));
}

TEST(McpApproval, AStateExpires) {
  Approvals approvals{Millis(0)};
  EXPECT_FALSE(approvals.open(subject(), approvals.seal(subject(), {})));
}

TEST(McpApproval, TheDigestDoesNotDependOnTheOrder) {
  EXPECT_EQ(digestOf({{"a", {{"x", 1}, {"y", 2}}}, {"b", 2}}),
            digestOf({{"b", 2}, {"a", {{"y", 2}, {"x", 1}}}}));
  EXPECT_NE(digestOf({{"a", 1}}), digestOf({{"a", "1"}}));
}

TEST(McpExchange, SaysNothingAfterItsEndOrItsCancellation) {
  boost::asio::io_context io;
  Exchange exchange(io.get_executor());
  exchange.say({{"n", 1}});
  exchange.answer({{"n", 2}}, 200);
  exchange.say({{"n", 3}});
  EXPECT_EQ(exchange.endPosition(), 2U);
  Exchange cancelled(io.get_executor());
  int told = 0;
  cancelled.onCancel([&] { ++told; });
  cancelled.cancel();
  cancelled.cancel();
  cancelled.answer({{"n", 2}}, 200);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(cancelled.ended());
  EXPECT_EQ(cancelled.endPosition(), 0U);
}

TEST(McpExchange, IsBounded) {
  boost::asio::io_context io;
  Exchange exchange(io.get_executor());
  for (size_t i = 0; i < 2 * Exchange::kMaxEvents; ++i)
    exchange.say({{"n", i}});
  EXPECT_EQ(exchange.endPosition(), Exchange::kMaxEvents);
  exchange.answer({{"n", 2}}, 200);
  EXPECT_EQ(exchange.endPosition(), Exchange::kMaxEvents + 1);
}

TEST(McpExchange, KeepsNoLargeAnswerForAReaderThatIsAway) {
  boost::asio::io_context io;
  const json::object large{{"text", std::string(Exchange::kMaxEventBytes, 'x')}};
  const auto answered = [&](bool read) {
    Exchange exchange(io.get_executor());
    exchange.setStandIn("away");
    exchange.say({{"n", 1}});
    if (read) exchange.begin();
    exchange.answer(large, 200);
    uint64_t last = 1;
    return exchange.at(last).value_or("").size();
  };
  EXPECT_EQ(answered(false), 4U);
  EXPECT_GT(answered(true), Exchange::kMaxEventBytes);
  Exchange told(io.get_executor());
  told.begin();
  told.say({{"n", 1}});
  told.answer(large, 200);
  told.leave(true);
  uint64_t first = 0;
  EXPECT_FALSE(told.at(first));
}

model::Principal someone(const std::string& key) {
  return {.tenant = "acme", .app = "", .agent = "", .user = "", .key_id = key};
}

TEST(McpSessions, AreOnesOwnAndBounded) {
  boost::asio::io_context io;
  LegacySessions sessions(io.get_executor(), {.sessions = 3, .sessions_of_a_key = 2});
  const LegacyPtr first = sessions.open(someone("a"), "2025-06-18", {});
  ASSERT_TRUE(first);
  EXPECT_TRUE(sessions.find(first->id, someone("a")));
  EXPECT_FALSE(sessions.find(first->id, someone("b")));
  EXPECT_TRUE(sessions.open(someone("a"), "2025-06-18", {}));
  EXPECT_TRUE(sessions.open(someone("a"), "2025-06-18", {}));  // the oldest of the key goes
  EXPECT_FALSE(sessions.find(first->id, someone("a")));
  const LegacyPtr other = sessions.open(someone("b"), "2025-06-18", {});
  ASSERT_TRUE(other);
  EXPECT_FALSE(sessions.open(someone("c"), "2025-06-18", {}));
  const auto exchange = std::make_shared<Exchange>(io.get_executor());
  other->under_way.emplace("1", exchange);
  sessions.end(other);
  EXPECT_TRUE(exchange->cancelled());
  EXPECT_FALSE(sessions.find(other->id, someone("b")));
}

TEST(McpSessions, EndWithTheirCredentialWhereSomethingIsUnderWay) {
  boost::asio::io_context io;
  LegacySessions sessions(io.get_executor(), {});
  model::Principal token = someone("jwt_1");
  token.ends_at = 7;
  std::vector<ExchangePtr> under_way;
  for (const model::Principal& owner : {someone("key_1"), someone("key_2"), token}) {
    const LegacyPtr session = sessions.open(owner, "2025-06-18", {});
    under_way.push_back(std::make_shared<Exchange>(io.get_executor()));
    session->under_way.emplace("1", under_way.back());
  }
  ASSERT_TRUE(sessions.open(someone("key_1"), "2025-06-18", {}));
  size_t looks = 0;
  sessions.endLost([&](const auth::Credential& each) {
    ++looks;
    return each.id == "key_2" && each.ends_at == 0;
  });
  EXPECT_EQ(looks, 3U);
  EXPECT_TRUE(under_way[0]->cancelled());
  EXPECT_FALSE(under_way[1]->cancelled());
  EXPECT_TRUE(under_way[2]->cancelled());
  EXPECT_EQ(sessions.size(), 2U) << "that of key_2, and one in which nothing goes on";
}

TEST(McpSessions, InUseAreNoMoreThanOneMayHave) {
  boost::asio::io_context io;
  LegacySessions sessions(io.get_executor(), {.sessions = 3, .sessions_of_a_key = 2});
  for (int i = 0; i < 2; ++i) {
    const LegacyPtr busy = sessions.open(someone("a"), "2025-06-18", {});
    ASSERT_TRUE(busy);
    busy->under_way.emplace("1", std::make_shared<Exchange>(io.get_executor()));
  }
  EXPECT_FALSE(sessions.open(someone("a"), "2025-06-18", {}));
  EXPECT_TRUE(sessions.open(someone("b"), "2025-06-18", {}));
}

TEST(ErrorAnswer, AdvisesToRepeatOnlyWhatMaySucceed) {
  Error full{Code::kQuota, "full", ""};
  full.retry_after_seconds = 7;
  EXPECT_TRUE(errorAnswer(full).structured.at("error").at("retryable").as_bool());
  EXPECT_EQ(errorAnswer(full).structured.at("error").at("next_step").as_string(),
            "call again in 7 s");
  full.lasting = true;
  EXPECT_FALSE(errorAnswer(full).structured.at("error").at("retryable").as_bool());
  EXPECT_EQ(errorAnswer(full).structured.at("error").at("next_step").as_string(),
            "ask for less, or ask the operator to raise the quota");
}

}  // namespace
}  // namespace cloister::api::mcp
