// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/session_feed.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

namespace cloister::api {
namespace {

// The type and the id of each event for a reader who has seen the events up to `seen`.
std::vector<std::string> eventsAfter(const std::string& seen, model::SessionStatus status) {
  boost::asio::io_context io;
  model::Session session;
  session.id = "ses_1";
  session.status = status;
  auto log = orchestrator::SessionLog::ofRecord(io.get_executor(), session);
  log->close();
  SessionFeed feed(log, SessionPosition::parse(seen).value(), Millis(1000), model::Principal{});
  std::vector<std::string> events;
  for (;;) {
    auto next = boost::asio::co_spawn(io, feed.next(), boost::asio::use_future);
    io.restart();
    io.run();
    const std::optional<Event> event = next.get();
    if (!event) return events;
    events.push_back(event->type + " " + event->id);
  }
}

// After a restart the log is made from the record, and its numbers begin anew.
TEST(SessionFeed, EveryReaderLearnsOfTheEndOnce) {
  using Events = std::vector<std::string>;
  const auto ended = [](const std::string& seen) {
    return eventsAfter(seen, model::SessionStatus::kEnded);
  };
  EXPECT_EQ(ended("0"), Events{"status 1.end"});
  EXPECT_EQ(ended("1"), Events{"status 1.end"});
  EXPECT_EQ(ended("7"), Events{"status 1.end"});
  EXPECT_EQ(ended("1.end"), Events{});
  EXPECT_EQ(eventsAfter("1", model::SessionStatus::kRunning), Events{});
}

TEST(SessionFeed, ShowsValuesOfVariablesToWhoeverMadeIt) {
  boost::asio::io_context io;
  model::Session session;
  session.id = "ses_1";
  session.status = model::SessionStatus::kEnded;
  session.env["TOKEN"] = "secret";
  session.principal.tenant = "default";
  session.principal.agent = "coder";
  auto log = orchestrator::SessionLog::ofRecord(io.get_executor(), session);
  log->close();
  model::Principal other = session.principal;
  other.agent = "another";
  for (const auto& [reader, shown] : {std::pair(session.principal, base::json::value("secret")),
                                      std::pair(other, base::json::value(nullptr))}) {
    SessionFeed feed(log, {}, Millis(1000), reader);
    auto next = boost::asio::co_spawn(io, feed.next(), boost::asio::use_future);
    io.restart();
    io.run();
    const std::optional<Event> event = next.get();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->data.at("env").at("TOKEN"), shown);
  }
}

// The agent of a session does not see a visitor's programs there.
TEST(SessionFeed, HasTheExecutionsThatTheReaderSees) {
  boost::asio::io_context io;
  model::Session session;
  session.id = "ses_1";
  session.status = model::SessionStatus::kRunning;
  session.principal.tenant = "acme";
  session.principal.agent = "alice";
  auto log = orchestrator::SessionLog::ofRecord(io.get_executor(), session);
  for (const char* agent : {"bob", "alice", "bob"}) {
    model::Execution execution;
    execution.id = std::string("exec_of_") + agent;
    execution.principal.tenant = "acme";
    execution.principal.agent = agent;
    log->publish(execution);
  }
  session.status = model::SessionStatus::kEnded;
  log->publish(session);
  const auto idsFor = [&](const model::Principal& reader) {
    SessionFeed feed(log, SessionPosition{.seq = 1}, Millis(1000), reader);
    std::vector<std::string> ids;
    for (;;) {
      auto next = boost::asio::co_spawn(io, feed.next(), boost::asio::use_future);
      io.restart();
      io.run();
      const std::optional<Event> event = next.get();
      if (!event) return ids;
      ids.emplace_back(event->data.at("id").as_string());
    }
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(idsFor(session.principal), (Ids{"exec_of_alice", "ses_1"}));
  model::Principal viewer = session.principal;
  viewer.agent = "carol";
  viewer.roles = model::Role::kViewer;
  EXPECT_EQ(idsFor(viewer), (Ids{"exec_of_bob", "exec_of_alice", "exec_of_bob", "ses_1"}));
}

}  // namespace
}  // namespace cloister::api
