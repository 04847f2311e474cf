// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/file_feed.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::api {
namespace {

namespace asio = boost::asio;
using orchestrator::FileWatch;
using testing::ElementsAre;
using wire::files::ChangeKind;

constexpr Millis kHeartbeat{60'000};
constexpr size_t kKept = 2'000;

class FileFeedTest : public testing::Test {
 protected:
  void SetUp() override {
    say(ChangeKind::kLimit, "early");
    say(ChangeKind::kReady);
  }

  void say(ChangeKind kind, const std::string& path = "", const std::string& from = "") {
    watch_->take({.kind = kind, .directory = false, .path = path, .from = from});
  }

  FileFeed feed(const std::string& from = "") {
    const auto position = from.empty() ? FilePosition{} : FilePosition::parse(from).value();
    return {std::make_shared<FileWatch::Reader>(watch_), "dir", position, kHeartbeat};
  }

  std::optional<Event> next(FileFeed& feed) {
    auto event = asio::co_spawn(context_, feed.next(), asio::use_future);
    context_.restart();
    context_.run();
    return event.get();
  }

  // So many events, as "type path"; the id of the last is in last_.
  std::vector<std::string> read(FileFeed& feed, size_t count) {
    std::vector<std::string> said;
    for (; count > 0; --count) {
      const auto event = next(feed);
      if (!event) break;
      last_ = event->id;
      const auto* path = event->data.if_contains("path");
      said.push_back(event->type + (path == nullptr ? "" : " " + std::string(path->as_string())));
    }
    return said;
  }

  asio::io_context context_;
  std::shared_ptr<FileWatch> watch_ = std::make_shared<FileWatch>(
      context_.get_executor(),
      orchestrator::WatchBounds{.kept_bytes = kKept, .linger = Millis(50)});
  std::string last_;
};

TEST_F(FileFeedTest, BeginsNowAndSaysWhatIsNotWatched) {
  say(ChangeKind::kCreated, "before");
  FileFeed reader = feed();
  say(ChangeKind::kCreated, "a");
  say(ChangeKind::kMoved, "b", "a");
  EXPECT_THAT(read(reader, 4),
              ElementsAre("ready dir", "limit dir/early", "created dir/a", "moved dir/b"));
}

TEST_F(FileFeedTest, GoesOnWhereItWas) {
  FileFeed reader = feed();
  say(ChangeKind::kCreated, "a");
  say(ChangeKind::kCreated, "b");
  read(reader, 3);
  FileFeed again = feed(last_);
  EXPECT_THAT(read(again, 2), ElementsAre("limit dir/early", "created dir/b"));
}

TEST_F(FileFeedTest, SaysWhatItCannotGoOnFrom) {
  FileFeed other = feed("0123456789abcdef.7");
  EXPECT_THAT(read(other, 2), ElementsAre("overflow dir", "limit dir/early"));
  FileFeed ahead = feed(watch_->id() + ".99");
  EXPECT_THAT(read(ahead, 1), ElementsAre("overflow dir"));
}

TEST_F(FileFeedTest, ASlowReaderIsToldAndGoesOnFromNow) {
  FileFeed reader = feed();
  read(reader, 2);
  for (int i = 0; i < 100; ++i)
    say(ChangeKind::kCreated, "file" + std::to_string(i));
  EXPECT_THAT(read(reader, 2), ElementsAre("overflow dir", "limit dir/early"));
  say(ChangeKind::kRemoved, "last");
  EXPECT_THAT(read(reader, 1), ElementsAre("removed dir/last"));
}

TEST_F(FileFeedTest, AnOverflowBeginsTheLimitsAnew) {
  say(ChangeKind::kOverflow);
  say(ChangeKind::kLimit, "late");
  FileFeed reader = feed();
  say(ChangeKind::kCreated, "a");
  EXPECT_THAT(read(reader, 3), ElementsAre("ready dir", "limit dir/late", "created dir/a"));
}

TEST_F(FileFeedTest, LimitsAreBounded) {
  for (int i = 0; i < 100; ++i)
    say(ChangeKind::kLimit, std::to_string(i));
  EXPECT_LE(watch_->unwatched().size(), wire::files::kMostLimits + 1);
}

TEST_F(FileFeedTest, EndsWithTheWatch) {
  FileFeed reader = feed();
  say(ChangeKind::kCreated, "a");
  watch_->close({});
  EXPECT_THAT(read(reader, 9), ElementsAre("ready dir", "limit dir/early", "created dir/a", "end"));
  EXPECT_TRUE(FilePosition::parse(last_)->ended);
}

TEST_F(FileFeedTest, AWatchWithoutReadersEnds) {
  {
    const FileFeed reader = feed();
    EXPECT_TRUE(watch_->read());
  }
  asio::co_spawn(context_, FileWatch::endUnread(watch_), asio::detached);
  context_.restart();
  context_.run();
  EXPECT_TRUE(watch_->closed());
}

TEST_F(FileFeedTest, RefusesIdsOfOthers) {
  for (const char* id : {"", "x", ".1", "a.", "a.x", "a.1x", "a.-1", "a.99999999999999999999999"})
    EXPECT_FALSE(FilePosition::parse(id)) << id;
  EXPECT_EQ(FilePosition::parse("ab.12.end")->text(), "ab.12.end");
}

}  // namespace
}  // namespace cloister::api
