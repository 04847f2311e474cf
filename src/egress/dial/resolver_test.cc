// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/resolver.h"

#include <filesystem>
#include <fstream>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "egress/dial/dns_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using Answer = Result<std::vector<base::Address>>;

class ResolverTest : public testing::Test {
 protected:
  std::unique_ptr<Resolver> make(ResolverOptions options = {}) {
    options.servers = dns_.place();
    auto made = Resolver::make(io_.get_executor(), std::move(options));
    EXPECT_TRUE(made);
    return *std::move(made);
  }
  Answer resolve(Resolver& resolver, const std::string& name) {
    return async::runTask(io_, resolver.addresses(name));
  }
  std::string texts(const Answer& answer) {
    if (!answer) return answer.error().message;
    std::string all;
    for (const base::Address& address : *answer)
      all += (all.empty() ? "" : " ") + address.text();
    return all;
  }

  asio::io_context io_;
  DnsServer dns_{io_};
};

TEST_F(ResolverTest, GivesTheAddressesOfBothFamilies) {
  dns_.set("a.test", {"2001:db8::1", "198.51.100.1", "198.51.100.2"});
  const auto resolver = make();
  EXPECT_EQ(texts(resolve(*resolver, "a.test")), "198.51.100.1 198.51.100.2 2001:db8::1");
}

TEST_F(ResolverTest, AnUnknownNameIsNotFound) {
  const auto resolver = make();
  const Answer answer = resolve(*resolver, "none.test");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kNotFound);
  EXPECT_TRUE(answer.error().message.contains("none.test"));
  dns_.set("empty.test", {});
  EXPECT_EQ(resolve(*resolver, "empty.test").error().code, Code::kNotFound);
}

TEST_F(ResolverTest, EqualLookUpsShareAQuery) {
  using namespace asio::experimental::awaitable_operators;
  dns_.set("a.test", {"198.51.100.1"}, 0);
  const auto resolver = make();
  const auto [first, second] =
      async::runTask(io_, [](Resolver& at) -> asio::awaitable<std::tuple<Answer, Answer>> {
        co_return co_await (at.addresses("a.test") && at.addresses("a.test"));
      }(*resolver));
  EXPECT_EQ(texts(first), "198.51.100.1");
  EXPECT_EQ(texts(second), "198.51.100.1");
  EXPECT_EQ(dns_.asked("a.test"), 1);
}

TEST_F(ResolverTest, CachesNoLongerThanTheTtl) {
  dns_.set("a.test", {"198.51.100.1"}, 300);
  dns_.set("b.test", {"198.51.100.2"}, 0);
  const auto resolver = make();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(texts(resolve(*resolver, "a.test")), "198.51.100.1");
    EXPECT_EQ(texts(resolve(*resolver, "b.test")), "198.51.100.2");
  }
  EXPECT_EQ(dns_.asked("a.test"), 1);
  EXPECT_EQ(dns_.asked("b.test"), 3);
}

TEST_F(ResolverTest, TheTtlHasABound) {
  dns_.set("a.test", {"198.51.100.1"}, 300);
  const auto resolver = make({.most_ttl = 0});
  std::ignore = resolve(*resolver, "a.test");
  std::ignore = resolve(*resolver, "a.test");
  EXPECT_EQ(dns_.asked("a.test"), 2);
}

TEST_F(ResolverTest, TheCacheIsBounded) {
  dns_.set("a.test", {"198.51.100.1"});
  dns_.set("b.test", {"198.51.100.2"});
  const auto resolver = make({.most_cached = 1});
  for (const char* name : {"a.test", "b.test", "a.test"})
    EXPECT_TRUE(resolve(*resolver, name));
  EXPECT_EQ(dns_.asked("a.test"), 2);
}

TEST_F(ResolverTest, AFailureIsNotCached) {
  const auto resolver = make();
  EXPECT_FALSE(resolve(*resolver, "a.test"));
  dns_.set("a.test", {"198.51.100.1"});
  EXPECT_TRUE(resolve(*resolver, "a.test"));
}

TEST_F(ResolverTest, QueriesInFlightAreBounded) {
  using namespace asio::experimental::awaitable_operators;
  dns_.setSilent(true);
  const auto resolver = make({.most_time = Millis(200), .most_in_flight = 1});
  const auto [first, second] =
      async::runTask(io_, [](Resolver& at) -> asio::awaitable<std::tuple<Answer, Answer>> {
        co_return co_await (at.addresses("a.test") && at.addresses("b.test"));
      }(*resolver));
  EXPECT_EQ(first.error().code, Code::kUnavailable);
  EXPECT_EQ(second.error().code, Code::kQuota);
}

TEST_F(ResolverTest, ALookUpEndsInTime) {
  dns_.setSilent(true);
  const auto resolver = make({.most_time = Millis(50)});
  const auto before = base::monotonicNow();
  const Answer answer = resolve(*resolver, "a.test");
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_LT(base::monotonicNow() - before, Millis(2'000));
}

TEST_F(ResolverTest, AServerThatRefusesIsUnavailable) {
  const auto resolver = Resolver::make(
      io_.get_executor(),
      {.servers = "127.0.0.1:1", .most_time = Millis(3'000), .try_time = Millis(100)});
  ASSERT_TRUE(resolver);
  EXPECT_EQ(resolve(**resolver, "a.test").error().code, Code::kUnavailable);
}

TEST_F(ResolverTest, MalformedServersAreInvalid) {
  const auto resolver = Resolver::make(io_.get_executor(), {.servers = "not an address"});
  ASSERT_FALSE(resolver);
  EXPECT_EQ(resolver.error().code, Code::kInvalid);
}

TEST_F(ResolverTest, ReadsResolvConfAgainWhenItChanges) {
  DnsServer other(io_, "127.0.0.2", dns_.port());
  dns_.set("a.test", {"198.51.100.1"});
  other.set("a.test", {"198.51.100.2"});
  const std::string path =
      std::filesystem::temp_directory_path() / ("resolv_conf_" + std::to_string(::getpid()));
  std::ofstream(path) << "nameserver 127.0.0.1\nsearch corp.test\n";
  auto resolver = Resolver::make(io_.get_executor(), {.resolv_conf = path, .port = dns_.port()});
  ASSERT_TRUE(resolver);
  EXPECT_EQ(texts(resolve(**resolver, "a.test")), "198.51.100.1");
  std::ofstream(path) << "# another server\nnameserver 127.0.0.2\n";
  EXPECT_EQ(texts(resolve(**resolver, "a.test")), "198.51.100.2");
  EXPECT_FALSE(resolve(**resolver, "single"));
  EXPECT_EQ(other.asked("single"), 1);
  EXPECT_EQ(other.asked("single.corp.test"), 0);
  std::filesystem::remove(path);
}

TEST_F(ResolverTest, NeverUsesTheSearchList) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("resolv_search_" + std::to_string(::getpid()));
  std::ofstream(path) << "nameserver 127.0.0.1\nsearch corp.test\noptions ndots:5\n";
  dns_.set("a.corp.test", {"198.51.100.1"});
  auto resolver = Resolver::make(io_.get_executor(), {.resolv_conf = path, .port = dns_.port()});
  EXPECT_FALSE(resolve(**resolver, "a"));
  EXPECT_EQ(dns_.asked(), (std::vector<std::string>{"a"}));
  std::filesystem::remove(path);
}

TEST_F(ResolverTest, PassesOnTheMessageOfAnotherType) {
  constexpr uint16_t kTxt = 16;
  dns_.set("a.test", {});
  const auto resolver = make();
  const auto message = async::runTask(io_, resolver->message("a.test", kTxt));
  ASSERT_TRUE(message) << message.error().message;
  constexpr size_t kHeader = 12;
  EXPECT_EQ(message->substr(kHeader, 8), std::string("\1a\4test\0", 8));
}

TEST_F(ResolverTest, EndsWithAQueryUnderWay) {
  dns_.setSilent(true);
  auto resolver = make({.most_time = Millis(20)});
  EXPECT_FALSE(resolve(*resolver, "a.test"));
  resolver.reset();
  io_.poll();
}

}  // namespace
}  // namespace cloister::egress
