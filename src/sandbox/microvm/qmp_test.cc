// SPDX-License-Identifier: Apache-2.0
// The driver against a strict double of QEMU's monitor. The double accepts exactly the orders that
// QEMU 7.2 was observed to accept, in the same order, and gives QEMU's answers. Other doubles are
// hostile.
#include "sandbox/microvm/qmp.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "linux/message.h"

namespace cloister::runtime::microvm {
namespace {

using testing::HasSubstr;

constexpr char kGreeting[] =
    R"({"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian"}, )"
    R"("capabilities": ["oob"]}})"
    "\r\n";
constexpr char kReturn[] = "{\"return\": {}}\r\n";
constexpr char kStopped[] = R"({"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"})"
                            "\r\n";

struct Turn {
  std::string order;   // the expected order
  std::string answer;  // before the next
  bool with_file = false;
};

std::vector<Turn> usual() {
  return {
      {R"({"execute":"qmp_capabilities"})", kReturn},
      {R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":)"
       R"([{"capability":"x-ignore-shared","state":true}]}})",
       kReturn},
      {R"({"execute":"getfd","arguments":{"fdname":"state"}})", kReturn, true},
      {R"({"execute":"migrate","arguments":{"uri":"fd:state"}})", kReturn},
      {R"({"execute":"query-migrate"})",
       std::string(kStopped) + R"({"return": {"status": "active", "total-time": 1}})" + "\r\n"},
      {R"({"execute":"query-migrate"})", R"({"return": {"status": "completed"}})"
                                         "\r\n"},
  };
}

// Returns the double's complaint, or "". The double writes a word into the received file.
std::string conduct(const Fd& socket, const std::string& greeting, const std::vector<Turn>& turns) {
  const auto say = [&](const std::string& text) {
    return text.empty() || linux::sendMessage(socket.get(), text).has_value();
  };
  if (!say(greeting)) return "nobody listens";
  for (const Turn& turn : turns) {
    std::array<char, 1024> bytes;
    const auto message = linux::receiveMessage(socket.get(), bytes);
    if (!message) return message.error().message;
    if (message->size == 0) return "it hung up";
    const std::string said(bytes.data(), message->size);
    if (said != turn.order + "\n") return "not an order: " + said;
    if (message->fds.size() != (turn.with_file ? 1U : 0U)) return "not the descriptors of " + said;
    if (turn.with_file && ::write(message->fds[0].get(), "state", 5) != 5) return "no file";
    if (!say(turn.answer)) return "nobody listens";
  }
  return "";
}

class Qmp : public testing::Test {
 protected:
  Result<> save(std::vector<Turn> turns, const std::string& greeting = kGreeting,
                Millis patience = std::chrono::seconds(20), bool stays = false) {
    auto pair = linux::socketPair(SOCK_STREAM);
    EXPECT_TRUE(pair);
    Fd theirs = std::move(pair->second);
    std::thread vmm([&] {
      wrong_ = conduct(theirs, greeting, turns);
      if (!stays) theirs.reset();
    });
    boost::asio::io_context io(1);
    auto done = async::runTask(
        io, saveState(io.get_executor(), std::move(pair->first), state_.get(), patience));
    vmm.join();
    return done;
  }
  // The error of a failed save.
  std::string why(std::vector<Turn> turns, const std::string& greeting = kGreeting) {
    const auto done = save(std::move(turns), greeting);
    return done ? "it was kept" : done.error().message;
  }
  static std::vector<Turn> withAnswer(size_t turn, std::string answer) {
    auto turns = usual();
    turns.resize(turn + 1);
    turns[turn].answer = std::move(answer);
    return turns;
  }

  Fd state_ = linux::memoryFile(0).value_or(Fd());
  std::string wrong_;
};

TEST_F(Qmp, AMachineLeavesItsStateWhereItIsTold) {
  const auto done = save(usual());
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(wrong_, "");
  std::array<char, 8> bytes{};
  EXPECT_EQ(::pread(state_.get(), bytes.data(), bytes.size(), 0), 5);
}

TEST_F(Qmp, WhatComesInPiecesOrTogetherIsTheSame) {
  auto turns = usual();
  turns[0].answer = std::string(kStopped) + kStopped + kReturn;
  EXPECT_TRUE(save(turns, std::string(kGreeting) + kStopped));
}

TEST_F(Qmp, WhatQemuCannotIsSaid) {
  EXPECT_THAT(why(withAnswer(1, R"({"error": {"class": "GenericError", "desc": "no such"}})"
                                "\r\n")),
              HasSubstr("no such"));
  EXPECT_THAT(why(withAnswer(4, R"({"return": {"status": "failed", "error-desc": "blocked"}})"
                                "\r\n")),
              HasSubstr("blocked"));
}

TEST_F(Qmp, WhatQemuWouldNotSayEndsIt) {
  EXPECT_THAT(why({}, "{\"return\": {}}\r\n"), HasSubstr("no greeting"));
  EXPECT_THAT(why({}, "not json\r\n"), HasSubstr("no message"));
  EXPECT_THAT(why({}, "[]\r\n"), HasSubstr("no message"));
  EXPECT_THAT(why({}, ""), HasSubstr("nothing more"));
  EXPECT_THAT(why({}, std::string(40'000, 'x')), HasSubstr("too much"));
  EXPECT_THAT(why(withAnswer(0, "{}\r\n")), HasSubstr("something else"));
  EXPECT_THAT(why(withAnswer(0, "{\"return\": 1}\r\n")), HasSubstr("something else"));
  EXPECT_THAT(why(withAnswer(4, "{\"return\": {}}\r\n")), HasSubstr("no status"));
  EXPECT_THAT(why(withAnswer(4, "{\"return\": {\"status\": 1}}\r\n")), HasSubstr("no status"));
  std::string events;
  for (int i = 0; i < 5'000; ++i)
    events += "{\"event\":1}\n";
  EXPECT_THAT(why(withAnswer(0, events)), HasSubstr("too much"));
  EXPECT_THAT(why({}, "{\"error\": \"\\u001b[31m\"}\r\n"), Not(HasSubstr("\x1b")));
}

TEST_F(Qmp, WhoSaysNothingIsNotWaitedForForLong) {
  auto turns = usual();
  turns.resize(2);
  turns[1].answer = "";
  const auto done = save(turns, kGreeting, Millis(100), true);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("nothing more"));
}

TEST(QmpOrders, ToResumeAreWrittenAtOnce) {
  EXPECT_EQ(ordersToResume(10),
            "{\"execute\":\"qmp_capabilities\"}\n"
            R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":)"
            "[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}\n"
            "{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:10\"}}\n");
}

}  // namespace
}  // namespace cloister::runtime::microvm
