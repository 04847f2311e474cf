// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/h2_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/relay/inspect_testing.h"

namespace cloister::egress {
namespace {

using namespace boost::asio::experimental::awaitable_operators;
using testing::HasSubstr;
using testing::Not;

std::string field(const h2::Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, [](const auto& each) { return each.first; });
  return found == fields.end() ? std::string() : found->second;
}

// A message of gRPC.
std::string framed(const std::string& text) {
  const size_t size = text.size();
  return std::string{0, 0, 0, static_cast<char>(size >> 8), static_cast<char>(size)} + text;
}

class InspectHttp2 : public InspectTest {
 protected:
  InspectHttp2() {
    offer({"h2", "http/1.1"});
    choose({"h2"});
  }

  void open() {
    auto [inside, outside] = run(pairOverRelay());
    EXPECT_EQ(inside->protocol(), "h2");
    client = std::make_unique<H2Peer>(std::move(inside), h2::Role::kClient);
    server = std::make_unique<H2Peer>(std::move(outside), h2::Role::kServer);
    server->on_end = [this](int32_t stream) { answer(stream); };
  }
  // What the origin answers by default, when a request is complete.
  void answer(int32_t stream) {
    server->session().respond(stream, reply, false);
    server->session().send(stream, reply_body);
    server->session().finish(stream, reply_trailers);
  }
  [[nodiscard]] h2::Message request(const std::string& path, const std::string& method = "GET",
                                    h2::Fields fields = {}) const {
    h2::Message made;
    made.method = method;
    made.scheme = "https";
    made.authority = "origin.test:" + portText();
    made.path = path;
    made.fields = std::move(fields);
    return made;
  }
  // Runs both ends until `done`.
  void until(std::function<bool()> done) {
    run([](H2Peer& a, H2Peer& b, std::function<bool()> when) -> Task<void> {
      co_await (a.until(when) || b.until(when));
    }(*client, *server, std::move(done)));
  }
  // The answer to one request.
  H2Peer::Seen& ask(const h2::Message& message, const std::string& body = "") {
    const int32_t stream = client->session().request(message, body.empty());
    EXPECT_GT(stream, 0);
    client->session().send(stream, body);
    if (!body.empty()) client->session().finish(stream);
    until([this, stream] { return client->of(stream).closed; });
    return client->of(stream);
  }

  std::unique_ptr<H2Peer> client;
  std::unique_ptr<H2Peer> server;
  h2::Message reply{.status = 200, .fields = {{"content-type", "text/plain"}}};
  std::string reply_body = "hello";
  h2::Fields reply_trailers;
};

TEST_F(InspectHttp2, PassesRequestsAnswersAndTrailers) {
  inspected();
  open();
  reply_trailers = {{"grpc-status", "0"}};
  const H2Peer::Seen& seen =
      ask(request("/a?b=c", "POST", {{"x-one", "1"}, {"te", "trailers"}}), "the body");
  const H2Peer::Seen& there = server->of(server->streams().at(0));
  EXPECT_EQ(there.head.path, "/a?b=c");
  EXPECT_EQ(there.head.authority, "origin.test:" + portText());
  EXPECT_EQ(field(there.head.fields, "x-one"), "1");
  EXPECT_EQ(field(there.head.fields, "te"), "trailers");
  EXPECT_EQ(there.body, "the body");
  EXPECT_EQ(seen.head.status, 200);
  EXPECT_EQ(seen.body, "hello");
  EXPECT_EQ(field(seen.trailers, "grpc-status"), "0");
  EXPECT_EQ(seen.error, 0U);
  EXPECT_TRUE(guard->refusals.empty()) << refusalsText();
  EXPECT_GT(guard->bytes_out, 0U);
}

TEST_F(InspectHttp2, JudgesEachRequest) {
  model::PlanRule& rule = inspected();
  rule.entry.methods = {"GET"};
  rule.entry.paths = {"/v1/*"};
  open();
  EXPECT_EQ(ask(request("/v1/x")).head.status, 200);
  const H2Peer::Seen& refused = ask(request("/v1/x", "DELETE"));
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("rule-0"));
  EXPECT_EQ(ask(request("/v2/x")).head.status, 403);
  EXPECT_EQ(ask(request("/v1/../v2/x")).head.status, 403);
  h2::Message other = request("/v1/x");
  other.authority = "evil.test";
  EXPECT_EQ(ask(other).head.status, 421);
  h2::Message plain = request("/v1/x");
  plain.scheme = "http";
  EXPECT_EQ(ask(plain).head.status, 421);
  h2::Message two = request("/v1/x", "GET", {{"host", "evil.test"}});
  EXPECT_EQ(ask(two).head.status, 400);
  EXPECT_EQ(ask(request("/v1/x")).head.status, 200);
  EXPECT_EQ(server->streams().size(), 2U);
  EXPECT_EQ(guard->refusals.size(), 6U) << refusalsText();
}

TEST_F(InspectHttp2, MasksTextsOfARequest) {
  inspected();
  search("[0-9]{16}", redact::RuleAction::kRedact);
  open();
  EXPECT_EQ(ask(request("/?card=4111111111111111", "POST", {{"x-card", "4111111111111111"}}),
                "card=4111111111111111&b")
                .head.status,
            200);
  const H2Peer::Seen& there = server->of(server->streams().at(0));
  EXPECT_EQ(there.head.path, "/?card=****************");
  EXPECT_EQ(field(there.head.fields, "x-card"), "****************");
  EXPECT_EQ(there.body, "card=****************&b");
  EXPECT_EQ(guard->notes,
            (std::vector<std::string>{"origin.test dlp.card 2", "origin.test dlp.card 1"}));
}

TEST_F(InspectHttp2, RefusesARequestWithAText) {
  inspected();
  search("[0-9]{16}", redact::RuleAction::kRefuse);
  open();
  EXPECT_EQ(ask(request("/fine")).head.status, 200);
  EXPECT_EQ(ask(request("/4111111111111111")).head.status, 403);
  const H2Peer::Seen& refused = ask(request("/", "POST"), "card 4111111111111111");
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("dlp.card"));
  EXPECT_EQ(server->streams().size(), 1U);
  EXPECT_THAT(refusalsText(), HasSubstr("(dlp.card)"));
  EXPECT_EQ(refusalsText().find("4111"), std::string::npos);
}

TEST_F(InspectHttp2, ARefusedUploadNeedNotBeSent) {
  inspected().entry.methods = {"GET"};
  open();
  const int32_t stream = client->session().request(request("/", "POST"), false);
  client->session().send(stream, std::string(1'000'000, 'x'));  // more than any window
  until([&] { return client->of(stream).closed; });
  EXPECT_EQ(client->of(stream).head.status, 403);
  EXPECT_EQ(client->of(stream).error, 0U);
  EXPECT_EQ(ask(request("/")).head.status, 200);
}

TEST_F(InspectHttp2, RequestsTakeFromTheRate) {
  inspected();
  guard->requests = 1;
  open();
  EXPECT_EQ(ask(request("/")).head.status, 200);
  EXPECT_EQ(ask(request("/")).head.status, 429);
}

TEST_F(InspectHttp2, BodiesPassTheWindows) {
  inspected();
  open();
  reply_body = std::string(3'000'000, 'a');
  const std::string upload(2'000'000, 'b');
  const H2Peer::Seen& seen = ask(request("/", "POST"), upload);
  EXPECT_EQ(seen.body, reply_body);
  EXPECT_EQ(server->of(server->streams().at(0)).body, upload);
}

TEST_F(InspectHttp2, AReaderThatStopsIsBuffered) {
  inspected();
  open();
  reply_body = std::string(3'000'000, 'a');
  client->consumes = false;
  const int32_t slow = client->session().request(request("/slow"), true);
  const size_t window = h2::Limits().window;
  until([&] { return client->of(slow).body.size() >= window; });
  // Others are served meanwhile, and without bounds each of them would move more of the first.
  client->consumes = true;
  reply_body = "small";
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(ask(request("/other")).body, "small");
  EXPECT_EQ(client->of(slow).body.size(), window);
  EXPECT_LE(guard->bytes_in, 600'000U);
}

TEST_F(InspectHttp2, StreamsRunBothWays) {
  inspected();
  open();
  // Each message is answered before the next is sent.
  server->on_head = [this](int32_t stream) {
    server->session().respond(
        stream, {.status = 200, .fields = {{"content-type", "application/grpc"}}}, false);
  };
  server->on_data = [this](int32_t stream) {
    std::string& body = server->of(stream).body;
    server->session().send(stream, framed("re:" + body.substr(5)));
    body.clear();
  };
  server->on_end = [this](int32_t stream) {
    server->session().finish(stream, {{"grpc-status", "0"}});
  };
  const int32_t stream =
      client->session().request(request("/pkg.Service/Chat", "POST",
                                        {{"content-type", "application/grpc"}, {"te", "trailers"}}),
                                false);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string text = "message " + std::to_string(i);
    client->session().send(stream, framed(text));
    expected += framed("re:" + text);
    until([&] { return client->of(stream).body.size() >= expected.size(); });
    EXPECT_EQ(client->of(stream).body, expected);
  }
  client->session().finish(stream);
  until([&] { return client->of(stream).closed; });
  EXPECT_EQ(field(client->of(stream).trailers, "grpc-status"), "0");
}

TEST_F(InspectHttp2, InterimAnswersPass) {
  inspected();
  open();
  server->on_head = [this](int32_t stream) {
    server->session().interim(stream, {.status = 103, .fields = {{"link", "</a>"}}});
  };
  const H2Peer::Seen& seen = ask(request("/"));
  EXPECT_EQ(seen.interim, std::vector<int>{103});
  EXPECT_EQ(seen.head.status, 200);
}

TEST_F(InspectHttp2, AResetPassesBothWays) {
  inspected();
  open();
  server->on_end = [](int32_t) {};
  server->on_head = [this](int32_t stream) {
    if (server->of(stream).head.path == "/reset")
      server->session().reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
  };
  EXPECT_EQ(ask(request("/reset")).error, uint32_t{NGHTTP2_ENHANCE_YOUR_CALM});
  const int32_t stream = client->session().request(request("/wait"), true);
  until([this] { return server->streams().size() == 2; });
  client->session().reset(stream, NGHTTP2_CANCEL);
  until([this] { return server->of(server->streams().at(1)).closed; });
  EXPECT_EQ(server->of(server->streams().at(1)).error, uint32_t{NGHTTP2_CANCEL});
}

TEST_F(InspectHttp2, TheEndOfTheOriginIsAnswered) {
  inspected();
  open();
  server->on_end = [](int32_t) {};
  const int32_t stream = client->session().request(request("/wait"), true);
  until([this] { return server->streams().size() == 1; });
  server->close();
  run(client->until([&] { return client->of(stream).closed && client->left; }));
  EXPECT_EQ(client->of(stream).head.status, 502);
  EXPECT_TRUE(client->left);
  finish();
}

TEST_F(InspectHttp2, AnAnswerIsWholeThoughTheOriginLeaves) {
  inspected();
  open();
  reply_body = std::string(100'000, 'a');
  const int32_t stream = client->session().request(request("/"), true);
  run(client->flush());
  run(server->until([this] { return server->of(1).closed; }));
  server->leave();
  run(client->until([&] { return client->of(stream).closed; }));
  EXPECT_EQ(client->of(stream).body, reply_body);
  EXPECT_EQ(client->of(stream).error, 0U);
}

TEST_F(InspectHttp2, APlanThatTakesTheRuleEndsTheRequest) {
  inspected();
  open();
  server->on_end = [](int32_t) {};
  const int32_t kept = client->session().request(request("/kept"), true);
  const int32_t lost = client->session().request(request("/lost"), true);
  until([this] { return server->streams().size() == 2; });
  guard->change([](model::NetworkPlan& plan) { plan.rules[0].entry.paths = {"/kept"}; });
  until([&] { return client->of(lost).closed; });
  EXPECT_EQ(client->of(lost).error, uint32_t{NGHTTP2_CANCEL});
  EXPECT_FALSE(client->of(kept).closed);
  EXPECT_THAT(refusalsText(), HasSubstr("/lost"));
}

TEST_F(InspectHttp2, AnApproverIsAskedForARequest) {
  model::PlanRule& rule = inspected();
  rule.entry.methods = {"GET"};
  rule.entry.on_denied = model::OnDenied::kAsk;
  guard->approve = [](model::NetworkPlan& plan) { plan.rules[0].entry.methods = {"GET", "POST"}; };
  open();
  EXPECT_EQ(ask(request("/", "POST"), "body").head.status, 200);
  EXPECT_EQ(guard->held, 1);
  EXPECT_EQ(server->of(server->streams().at(0)).body, "body");
}

TEST_F(InspectHttp2, AFloodEndsTheConnection) {
  inspected();
  open();
  // PING frames, by hand: nghttp2 would pace its own.
  std::string pings;
  for (int i = 0; i < 3000; ++i)
    pings += std::string("\0\0\x08\x06\0\0\0\0\0", 9) + "12345678";
  run(client->flush());
  run(client->tls().send(pings));
  run(client->until([] { return false; }));
  finish();
  EXPECT_THAT(refusalsText(), HasSubstr("ended its HTTP/2 badly"));
}

TEST_F(InspectHttp2, BrokenFramesEndTheConnection) {
  inspected();
  open();
  run(client->flush());
  run(client->tls().send("GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n"));
  run(client->until([] { return false; }));
  finish();
  EXPECT_EQ(guard->refusals.size(), 1U);
}

TEST_F(InspectHttp2, AHeadThatIsTooLargeIsRefused) {
  inspected();
  open();
  EXPECT_EQ(
      ask(request("/", "GET",
                  {{"x-large", std::string(60'000, 'x')}, {"x-more", std::string(6'000, 'y')}}))
          .head.status,
      431);
  EXPECT_TRUE(server->streams().empty());
}

// --- secrets

class BrokerHttp2 : public InspectHttp2 {
 protected:
  void openWith(model::PlanSecret made) {
    inspected();
    broker(std::move(made));
    open();
  }
  const std::string value{kValue};
  const std::string sign{kPlaceholder};
};

TEST_F(BrokerHttp2, SetsTheHeaderAndCleansTheAnswer) {
  openWith(secret());
  reply.fields.emplace_back("x-echo", "Bearer " + value);
  reply.fields.emplace_back("location", "https://evil.test/?" + value);
  reply.fields.emplace_back("content-length", std::to_string(value.size() + 5));
  reply_body = "echo " + value;
  reply_trailers = {{"x-trailer", value}};
  const H2Peer::Seen& seen =
      ask(request("/", "GET", {{"authorization", "mine"}, {"accept-encoding", "gzip"}}));
  const h2::Fields& there = server->of(server->streams().at(0)).head.fields;
  EXPECT_EQ(field(there, "authorization"), "Bearer " + value);
  EXPECT_EQ(field(there, "accept-encoding"), "identity");
  EXPECT_EQ(field(seen.head.fields, "x-echo"), "Bearer [secret api-key]");
  EXPECT_EQ(field(seen.head.fields, "location"), "https://evil.test/?[secret api-key]");
  EXPECT_EQ(field(seen.head.fields, "content-length"), "");
  EXPECT_EQ(seen.body, "echo [secret api-key]");
  EXPECT_EQ(field(seen.trailers, "x-trailer"), "[secret api-key]");
  EXPECT_THAT(refusalsText(), Not(HasSubstr(value)));
}

TEST_F(BrokerHttp2, ACompressedAnswerIsRefused) {
  openWith(secret());
  reply.fields.emplace_back("content-encoding", "br");
  const H2Peer::Seen& seen = ask(request("/"));
  EXPECT_EQ(seen.head.status, 502);
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-broker)"));
}

TEST_F(BrokerHttp2, AMessageOfGrpcWithTheValueEndsTheCall) {
  openWith(secret());
  reply.fields = {{"content-type", "application/grpc"}};
  reply_body = framed("first") + framed("echo " + value);
  const H2Peer::Seen& seen = ask(request("/", "POST"), framed("call"));
  EXPECT_EQ(seen.error, uint32_t{NGHTTP2_CANCEL});
  EXPECT_THAT(seen.body, Not(HasSubstr(value)));
  EXPECT_THAT(refusalsText(), HasSubstr("repeats the secret api-key"));
}

TEST_F(BrokerHttp2, APlaceholderElsewhereIsRefused) {
  model::PlanSecret made = secret();
  made.header.clear();
  openWith(made);
  const H2Peer::Seen& replaced = ask(request("/", "GET", {{"x-key", "k " + sign}}));
  EXPECT_EQ(replaced.head.status, 200);
  EXPECT_EQ(field(server->of(server->streams().at(0)).head.fields, "x-key"), "k " + value);
  EXPECT_EQ(ask(request("/" + sign)).head.status, 403);
  EXPECT_EQ(ask(request("/", "POST"), "a body with " + sign).head.status, 403);
  for (const int32_t stream : server->streams())
    EXPECT_THAT(server->of(stream).body, Not(HasSubstr(sign)));
  EXPECT_EQ(guard->refusals.size(), 2U);
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)"));
}

TEST_F(BrokerHttp2, APlaceholderInTrailersIsRefused) {
  openWith(secret());
  const int32_t stream = client->session().request(request("/", "POST"), false);
  client->session().send(stream, "body");
  until([this] { return server->of(1).body == "body"; });
  client->session().finish(stream, {{"x-trailer", sign}});
  until([&] { return client->of(stream).closed; });
  EXPECT_EQ(client->of(stream).head.status, 403);
  EXPECT_FALSE(server->of(server->streams().at(0)).ended);
}

}  // namespace
}  // namespace cloister::egress
