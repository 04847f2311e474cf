// SPDX-License-Identifier: Apache-2.0
// The engine against a test server that fails in every known way; tests/integration/test_opa.py
// tests with the real OPA.
#include "opa/engine.h"

#include <unistd.h>

#include <deque>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>

#include "async/run_task.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/id.h"

namespace cloister::opa {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using asio::ip::tcp;
using testing::HasSubstr;
using testing::Not;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

constexpr std::string_view kAllow =
    R"({"decision_id":"d-1","result":{"version":1,"outcome":"allow","rule":"r","reason":"fine",)"
    R"("tier":"Auto","runtime":"process","risk":{"score":7},"revision":"rev"}})";

std::string http(std::string_view body, std::string_view status = "200 OK",
                 std::string_view more = "") {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: application/json\r\n" +
         std::string(more) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

struct Reply {
  std::string bytes;    // "": no reply ever
  bool close = false;   // after the bytes
  bool slowly = false;  // a byte, and then the next when the client is long gone
};

// Reads each request whole, keeps the request, and gives the next reply.
class Double {
 public:
  explicit Double(asio::io_context& io)
      : io_(io), acceptor_(io, {asio::ip::address_v4::loopback(), 0}) {
    async::spawn(io.get_executor(), accept(acceptor_));
  }
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  void next(Reply reply) { replies_.push_back(std::move(reply)); }
  void next(std::string_view body) { next({.bytes = http(body)}); }
  void listenAt(const std::string& path) {
    unix_.emplace(io_, asio::local::stream_protocol::endpoint(path));
    async::spawn(io_.get_executor(), accept(*unix_));
  }

  std::vector<std::string> requests;  // heads and bodies
  int connections = 0;

 private:
  template <class Acceptor>
  asio::awaitable<void> accept(Acceptor& acceptor) {
    while (true) {
      auto [error, socket] = co_await acceptor.async_accept(kTuple);
      if (error) co_return;
      ++connections;
      async::spawn(io_.get_executor(), serve(std::move(socket)));
    }
  }
  template <class Socket>
  asio::awaitable<void> serve(Socket socket) {
    std::string buffer;
    while (true) {
      const auto [error, head] =
          co_await asio::async_read_until(socket, asio::dynamic_buffer(buffer), "\r\n\r\n", kTuple);
      if (error) co_return;
      const std::string length = "Content-Length: ";
      const size_t at = buffer.find(length);
      const size_t body = at < head ? std::stoul(buffer.substr(at + length.size())) : 0;
      if (buffer.size() < head + body) {
        const size_t missing = head + body - buffer.size();
        const auto [short_body, n] = co_await asio::async_read(
            socket, asio::dynamic_buffer(buffer), asio::transfer_exactly(missing), kTuple);
        if (short_body) co_return;
      }
      requests.push_back(buffer.substr(0, head + body));
      buffer.erase(0, head + body);
      if (replies_.empty()) co_return;
      const Reply reply = replies_.front();
      replies_.pop_front();
      if (reply.bytes.empty()) {
        co_await forever(socket);
        co_return;
      }
      const size_t now = reply.slowly ? 1 : reply.bytes.size();
      const auto [failed, sent] =
          co_await asio::async_write(socket, asio::buffer(reply.bytes.data(), now), kTuple);
      if (reply.slowly) co_await forever(socket);
      if (failed || reply.close || reply.slowly) co_return;
    }
  }
  // Until the client has gone.
  template <class Socket>
  static asio::awaitable<void> forever(Socket& socket) {
    char byte = 0;
    co_await socket.async_read_some(asio::buffer(&byte, 1), kTuple);
  }

  asio::io_context& io_;
  tcp::acceptor acceptor_;
  std::optional<asio::local::stream_protocol::acceptor> unix_;
  std::deque<Reply> replies_;
};

class OpaTest : public testing::Test {
 protected:
  OpaTest() {
    who_.tenant = "acme";
    settings_.url = opa_.url();
    settings_.most = model::defaultBounds().max;
    settings_.timeout = Millis(10'000);
  }
  // The reason of a denial; "" if allowed.
  std::string ask() {
    if (!engine_) {
      auto opened = openEngine(io_.get_executor(), settings_);
      EXPECT_TRUE(opened) << opened.error().message;
      if (!opened) return "not opened";
      engine_ = *std::move(opened);
    }
    const policy::Question question{.request = request_,
                                    .principal = who_,
                                    .execution_id = {},
                                    .permit_id = "permit_1",
                                    .spec_sha256 = {},
                                    .prestart = {},
                                    .language = "python",
                                    .session_id = {}};
    ruling_ = async::runTask(io_, engine_->rule(question));
    const auto denied = policy::refusalOf(policy::decide(*ruling_.policy, question));
    if (!denied) return "";
    unavailable_ = denied->unavailable;
    return denied->reason;
  }
  std::string ask(std::string_view body) {
    opa_.next(body);
    return ask();
  }
  std::string traced(std::string_view member) const {
    const json::value* value = ruling_.trace.if_contains(member);
    return value == nullptr ? "" : std::string(value->get_string());
  }

  asio::io_context io_;
  Double opa_{io_};
  Settings settings_;
  model::RunRequest request_;
  model::Principal who_;
  orchestrator::Ruling ruling_;
  bool unavailable_ = false;
  std::unique_ptr<orchestrator::PolicyEngine> engine_;
};

TEST_F(OpaTest, AsksWithTheInputAndRemembersTheDecision) {
  EXPECT_EQ(ask(kAllow), "");
  ASSERT_EQ(opa_.requests.size(), 1U);
  const std::string& sent = opa_.requests[0];
  EXPECT_TRUE(sent.starts_with("POST /v1/data/cloister/decision HTTP/1.1\r\n")) << sent;
  EXPECT_THAT(sent, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(sent, Not(HasSubstr("Authorization")));
  const std::string body = sent.substr(sent.find("\r\n\r\n") + 4);
  const json::value value = base::parseJson(body).value();
  EXPECT_EQ(value.at("input").at("version"), json::value(1));
  EXPECT_EQ(traced("decision_id"), "d-1");
  EXPECT_EQ(traced("engine"), "opa");
  EXPECT_EQ(traced("input_sha256"), base::sha256Hex(base::toJson(value.at("input"))));
  EXPECT_EQ(ruling_.policy->id, "opa@rev");
  EXPECT_EQ(engine_->policyId(), "opa@rev");
}

TEST_F(OpaTest, KeepsItsConnection) {
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(ask(kAllow), "");
  EXPECT_EQ(opa_.connections, 1);
}

TEST_F(OpaTest, AConnectionThatWasClosedMeanwhileIsReplaced) {
  opa_.next({.bytes = http(kAllow), .close = true});
  EXPECT_EQ(ask(), "");
  EXPECT_EQ(ask(kAllow), "");
  EXPECT_EQ(opa_.connections, 2);
  opa_.next({.bytes = http(kAllow, "200 OK", "Connection: close\r\n"), .close = true});
  EXPECT_EQ(ask(), "");
  EXPECT_EQ(ask(kAllow), "");
  EXPECT_EQ(opa_.connections, 3);
}

TEST_F(OpaTest, AnswersThatAreNoneDeny) {
  for (const std::string_view body :
       {"", "{}", "[]", "nonsense", R"({"result":null})", R"({"result":true})",
        R"({"result":{"outcome":"allow"}})", R"({"result":{"version":1,"outcome":"allow"}})",
        R"({"result":{},"result":{}})", R"({"decision_id":5,"result":{}})"}) {
    unavailable_ = false;
    EXPECT_THAT(ask(body), HasSubstr("the policy cannot be used")) << body;
    EXPECT_TRUE(unavailable_) << body;
    EXPECT_NE(traced("failure"), "") << body;
  }
  EXPECT_THAT(ask("{}"), HasSubstr("the decision is undefined"));
}

TEST_F(OpaTest, OtherStatusesDeny) {
  for (const std::string_view status : {"500 X", "503 X", "404 X", "401 X", "301 X", "204 X"}) {
    opa_.next({.bytes = http(kAllow, status, "Location: http://127.0.0.1:1/\r\n")});
    EXPECT_THAT(ask(), HasSubstr("it answers with " + std::string(status.substr(0, 3)))) << status;
  }
}

TEST_F(OpaTest, WhatIsLateDenies) {
  settings_.timeout = Millis(30);
  opa_.next(Reply{});
  EXPECT_THAT(ask(), HasSubstr("did not answer within 30 ms"));
  EXPECT_TRUE(unavailable_);
  opa_.next({.bytes = http(kAllow), .slowly = true});
  EXPECT_THAT(ask(), HasSubstr("did not answer within 30 ms"));
}

TEST_F(OpaTest, WhatIsTooLargeOrCutOffDenies) {
  settings_.answer_bytes = 1024;
  EXPECT_THAT(ask(R"({"result":")" + std::string(2000, 'x') + "\"}"),
              HasSubstr("its answer is too large"));
  const std::string whole = http(kAllow);
  opa_.next({.bytes = whole.substr(0, whole.size() - 5), .close = true});
  EXPECT_THAT(ask(), HasSubstr("the policy cannot be used"));
  opa_.next({.bytes = "SSH-2.0-OpenSSH\r\n\r\n", .close = true});
  EXPECT_THAT(ask(), HasSubstr("the policy cannot be used"));
}

TEST_F(OpaTest, NobodyThereDenies) {
  tcp::acceptor gone(io_, {asio::ip::address_v4::loopback(), 0});
  settings_.url = "http://127.0.0.1:" + std::to_string(gone.local_endpoint().port());
  gone.close();
  EXPECT_THAT(ask(), HasSubstr("reaching 127.0.0.1"));
  EXPECT_TRUE(unavailable_);
}

TEST_F(OpaTest, SendsItsToken) {
  const std::string path = "/tmp/cloister-opa-" + base::randomHex(8);
  ASSERT_TRUE(base::writeFileAtomic(path, "a-token\n", 0600));
  settings_.token_file = path;
  EXPECT_EQ(ask(kAllow), "");
  EXPECT_THAT(opa_.requests.at(0), HasSubstr("\r\nAuthorization: Bearer a-token\r\n"));
  ::unlink(path.c_str());
}

TEST_F(OpaTest, OverAUnixSocketAndBelowAPath) {
  const std::string path = "/tmp/cloister-opa-" + base::randomHex(8);
  opa_.listenAt(path);
  settings_.url = "unix:" + path;
  EXPECT_EQ(ask(kAllow), "");
  ::unlink(path.c_str());
  engine_.reset();
  settings_.url = opa_.url() + "/below/";
  EXPECT_EQ(ask(kAllow), "");
  EXPECT_TRUE(opa_.requests.back().starts_with("POST /below/v1/data/cloister/decision HTTP/1.1"));
}

TEST_F(OpaTest, SettingsThatAreWrongNameTheKey) {
  const auto errorOf = [&](const Settings& settings) {
    const auto opened = openEngine(io_.get_executor(), settings);
    return opened ? std::string("opened") : opened.error().message;
  };
  for (const std::string_view url : {"", "opa", "http://example.org", "unix:relative",
                                     "https://u@example.org", "http://127.0.0.1/?x=1"}) {
    Settings wrong = settings_;
    wrong.url = url;
    EXPECT_THAT(errorOf(wrong), HasSubstr("policies.opa.url")) << url;
  }
  Settings wrong = settings_;
  wrong.token_file = "/nonexistent";
  EXPECT_THAT(errorOf(wrong), HasSubstr("policies.opa.token_file"));
  wrong = settings_;
  wrong.ca_file = "/nonexistent";
  EXPECT_THAT(errorOf(wrong), HasSubstr("policies.opa.ca_file"));
}

}  // namespace
}  // namespace cloister::opa
