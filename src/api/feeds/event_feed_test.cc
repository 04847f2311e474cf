// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/event_feed.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;
using model::Status;
using model::Stream;
using orchestrator::OutputLog;
using testing::ElementsAre;

constexpr Millis kHeartbeat{60'000};

class EventFeedTest : public testing::Test {
 protected:
  void publish(Status status) {
    execution_.id = "exec_1";
    execution_.status = status;
    log_->publish(execution_);
  }

  void finish(Status status) {
    execution_.usage.wall_ms = 5;
    execution_.artifacts.push_back(
        {.id = "art_1", .path = "a.txt", .size = 1, .content_type = "text/plain", .sha256 = "00"});
    publish(status);
    log_->close();
  }

  std::optional<Event> next(EventFeed& feed) {
    auto event = asio::co_spawn(context_, feed.next(), asio::use_future);
    context_.restart();
    context_.run();
    return event.get();
  }

  // Everything until the feed's end.
  std::vector<Event> all(Position from = {}) {
    EventFeed feed(log_, from, kHeartbeat);
    std::vector<Event> events;
    while (auto event = next(feed))
      events.push_back(std::move(*event));
    return events;
  }

  static std::vector<std::string> types(const std::vector<Event>& events) {
    std::vector<std::string> names;
    for (const Event& event : events)
      names.push_back(event.type);
    return names;
  }

  static std::string outputOf(const std::vector<Event>& events, std::string_view type) {
    std::string bytes;
    for (const Event& event : events) {
      if (event.type != type) continue;
      EXPECT_EQ(event.data.at("offset").to_number<size_t>(), bytes.size());
      bytes += base::fromBase64(std::string_view(event.data.at("data").as_string())).value();
    }
    return bytes;
  }

  asio::io_context context_;
  std::shared_ptr<OutputLog> log_ = std::make_shared<OutputLog>(context_.get_executor(), 200'000);
  model::Execution execution_;
};

TEST(Position, ParsesOnlyItsOwnText) {
  EXPECT_EQ(Position::parse("2.30.400").value(), (Position{2, 30, 400}));
  EXPECT_EQ((Position{2, 30, 400}).text(), "2.30.400");
  for (const std::string_view bad : {"", "1", "1.2", "1.2.", "1.2.3.", "1.2.3.4", "-1.2.3", "a.b.c",
                                     "1..3", " 1.2.3", "1.2.99999999999999999999999"}) {
    EXPECT_FALSE(Position::parse(bad)) << bad;
  }
}

TEST(Position, KnowsTheEnd) {
  EXPECT_FALSE((Position{0, 9, 9}).ended());
  EXPECT_FALSE((Position{1 + static_cast<uint64_t>(Status::kRunning), 0, 0}).ended());
  EXPECT_TRUE((Position{1 + static_cast<uint64_t>(Status::kDenied), 0, 0}).ended());
  EXPECT_FALSE((Position{UINT64_MAX, 0, 0}).ended());
}

TEST_F(EventFeedTest, TellsAFinishedRunInOrder) {
  publish(Status::kRunning);
  log_->append(Stream::kStderr, "err");
  log_->append(Stream::kStdout, "out");
  finish(Status::kCompleted);
  const auto events = all();
  EXPECT_THAT(types(events), ElementsAre("stdout", "stderr", "artifact", "usage", "status"));
  EXPECT_EQ(outputOf(events, "stdout"), "out");
  EXPECT_EQ(events.back().data.at("status"), "completed");
  EXPECT_FALSE(events.back().data.contains("stdout"));
  EXPECT_EQ(events.back().id, "4.3.3");
}

TEST_F(EventFeedTest, FollowsALiveRun) {
  publish(Status::kQueued);
  EventFeed feed(log_, {}, kHeartbeat);
  EXPECT_EQ(next(feed)->data.at("status"), "queued");
  publish(Status::kRunning);
  EXPECT_EQ(next(feed)->data.at("status"), "running");
  log_->append(Stream::kStdout, "a");
  EXPECT_EQ(next(feed)->id, "2.1.0");
  log_->append(Stream::kStdout, "b");
  const auto second = next(feed);
  EXPECT_EQ(second->id, "2.2.0");
  EXPECT_EQ(second->data.at("offset"), 1);
  execution_.usage.wall_ms = 3;
  publish(Status::kRunning);
  EXPECT_EQ(next(feed)->type, "usage");
  finish(Status::kTimedOut);
  EXPECT_EQ(next(feed)->type, "artifact");
  EXPECT_EQ(next(feed)->type, "usage");
  EXPECT_EQ(next(feed)->data.at("status"), "timed_out");
  EXPECT_FALSE(next(feed));
}

TEST_F(EventFeedTest, BeatsWhileNothingHappens) {
  publish(Status::kRunning);
  EventFeed feed(log_, {2, 0, 0}, Millis(10));
  EXPECT_EQ(next(feed)->type, "heartbeat");
  EXPECT_EQ(next(feed)->type, "heartbeat");
  EXPECT_EQ(next(feed)->id, "");
}

TEST_F(EventFeedTest, TellsTheUseOverTimeFromTheBeginning) {
  for (int64_t wall = 1'000; wall <= 3'000; wall += 1'000)
    execution_.usage_history.add({.wall_ms = wall});
  execution_.usage.wall_ms = 3'500;
  publish(Status::kRunning);
  std::vector<int64_t> told;
  EventFeed feed(log_, {}, kHeartbeat);
  EXPECT_EQ(next(feed)->type, "status");
  for (int i = 0; i < 4; ++i)
    told.push_back(next(feed)->data.at("wall_ms").to_number<int64_t>());
  EXPECT_THAT(told, ElementsAre(1'000, 2'000, 3'000, 3'500));
  EventFeed resumed(log_, {2, 0, 0}, kHeartbeat);
  EXPECT_EQ(next(resumed)->data.at("wall_ms"), 3'500) << "a reader that goes on has the history";
}

TEST_F(EventFeedTest, HoldsUsageBack) {
  publish(Status::kRunning);
  EventFeed feed(log_, {2, 0, 0}, kHeartbeat);
  execution_.usage.wall_ms = 1;
  publish(Status::kRunning);
  EXPECT_EQ(next(feed)->data.at("wall_ms"), 1);
  execution_.usage.wall_ms = 2;
  publish(Status::kRunning);
  const auto begin = base::monotonicNow();
  EXPECT_EQ(next(feed)->data.at("wall_ms"), 2);
  EXPECT_GE(base::monotonicNow() - begin, Millis(500));
}

TEST_F(EventFeedTest, ResumesFromEveryPosition) {
  std::string text;
  for (int i = 0; i < 30'000; ++i)
    text += static_cast<char>(i * 7);
  publish(Status::kRunning);
  for (int i = 0; i < 5; ++i)
    log_->append(Stream::kStdout, text);
  finish(Status::kFailed);
  const auto whole = all();
  const std::string bytes = outputOf(whole, "stdout");
  ASSERT_EQ(bytes.size(), 150'000u);
  for (size_t i = 0; i < whole.size(); ++i) {
    const Position from = Position::parse(whole[i].id).value();
    const auto rest = all(from);
    size_t at = from.out;
    for (const Event& event : rest) {
      if (event.type != "stdout") continue;
      EXPECT_EQ(event.data.at("offset").to_number<size_t>(), at);
      at += base::fromBase64(std::string_view(event.data.at("data").as_string()))->size();
    }
    EXPECT_EQ(at, bytes.size()) << i;
    if (i + 1 < whole.size()) {
      EXPECT_EQ(rest.back().type, "status");
    } else {
      EXPECT_TRUE(rest.empty());
    }
  }
}

TEST_F(EventFeedTest, TakesAPositionFromNowhere) {
  log_->append(Stream::kStdout, "abc");
  finish(Status::kCompleted);
  EXPECT_EQ(types(all({2, UINT64_MAX, UINT64_MAX})).back(), "status");
  EXPECT_EQ(types(all({99, 1, 0})).front(), "stdout");
}

TEST(EventText, IsOneEventAndOneMessage) {
  const Event event{.type = "stdout", .id = "2.1.0", .data = {{"offset", 0}, {"data", "YQ=="}}};
  EXPECT_EQ(toServerSentEvent(event),
            "id: 2.1.0\nevent: stdout\ndata: {\"offset\":0,\"data\":\"YQ==\"}\n\n");
  EXPECT_EQ(toWebSocketMessage(event),
            R"({"type":"stdout","id":"2.1.0","offset":0,"data":"YQ=="})");
  EXPECT_EQ(
      toWebSocketMessage(
          {.type = "status", .id = "4.0.0", .data = {{"id", "e"}, {"status", "completed"}}}),
      R"({"type":"status","id":"4.0.0","status":"completed","execution":{"id":"e","status":"completed"}})");
  EXPECT_EQ(toWebSocketMessage({.type = "artifact", .id = "4.0.0", .data = {{"id", "art"}}}),
            R"({"type":"artifact","id":"4.0.0","artifact":{"id":"art"}})");
  EXPECT_EQ(toServerSentEvent({.type = "heartbeat", .id = "", .data = {}}),
            "event: heartbeat\ndata: {}\n\n");
}

}  // namespace
}  // namespace cloister::api
