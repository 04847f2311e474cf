// SPDX-License-Identifier: Apache-2.0
// The answers of a VMM's driver to the order to keep a machine, including a hostile driver's.
#include "sandbox/microvm/driver_order.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "linux/message.h"
#include "wire/driver.h"
#include "wire/frame.h"

namespace cloister::runtime::microvm {
namespace {

using testing::HasSubstr;
using testing::Not;
using wire::driver::FromDriver;

std::string frame(uint16_t type, std::string_view payload = "", uint32_t length = 0) {
  std::string bytes(wire::kHeaderBytes, '\0');
  wire::encodeHeader(bytes.data(), type, 0,
                     length != 0 ? length : static_cast<uint32_t>(payload.size()));
  return bytes.append(payload);
}
std::string frame(FromDriver type, std::string_view payload = "") {
  return frame(static_cast<uint16_t>(type), payload);
}

class DriverOrder : public testing::Test {
 protected:
  // Sends an order to a driver that answers `answer` in pieces of `piece` bytes, and then ends or
  // `stays`.
  Result<> order(const std::string& answer, bool stays = false, size_t piece = SIZE_MAX) {
    auto pair = linux::socketPair(SOCK_STREAM);
    EXPECT_TRUE(pair);
    Fd theirs = std::move(pair->second);
    std::thread driver([&] {
      std::array<char, 64> bytes;
      const auto said = linux::receiveMessage(theirs.get(), bytes);
      if (said) said_ = std::string(bytes.data(), said->size);
      for (size_t at = 0; at < answer.size(); at += std::min(piece, answer.size()))
        std::ignore = linux::sendMessage(theirs.get(), std::string_view(answer).substr(at, piece));
      if (!stays) theirs.reset();
    });
    boost::asio::io_context io(1);
    auto done = async::runTask(
        io, orderToKeep(io.get_executor(), std::move(pair->first), Millis(stays ? 100 : 20'000)));
    driver.join();
    return done;
  }
  std::string why(const std::string& answer, bool stays = false) {
    const auto done = order(answer, stays);
    return done ? "it was kept" : done.error().message;
  }

  std::string said_;
};

TEST_F(DriverOrder, IsOneFrameAndSoIsItsAnswer) {
  EXPECT_TRUE(order(frame(FromDriver::kKept)));
  EXPECT_EQ(said_, frame(static_cast<uint16_t>(wire::driver::ToDriver::kKeep)));
  EXPECT_TRUE(order(frame(FromDriver::kKept), false, 1));
}

TEST_F(DriverOrder, SaysWhyNothingWasKept) {
  EXPECT_THAT(why(frame(FromDriver::kNotKept, "PUT /snapshot/create: no answer")),
              HasSubstr("keeping a machine: PUT /snapshot/create: no answer"));
  const std::string shown = why(frame(FromDriver::kNotKept, "\x1b[31m" + std::string(9'000, 'x')));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
  EXPECT_LT(shown.size(), 2'000U);
}

TEST_F(DriverOrder, EndsAtWhatNoDriverWouldSay) {
  EXPECT_THAT(why(""), HasSubstr("does not answer"));
  EXPECT_THAT(why(frame(FromDriver::kKept).substr(0, 5)), HasSubstr("does not answer"));
  EXPECT_THAT(why(frame(FromDriver::kKept, "x")), HasSubstr("something else"));
  EXPECT_THAT(why(frame(uint16_t{65}, "1234")), HasSubstr("something else"));
  EXPECT_THAT(why(frame(uint16_t{77}, std::string(24, '\0'))), HasSubstr("does not answer"));
  EXPECT_THAT(why(frame(uint16_t{98}, "", 1 << 30)), HasSubstr("malformed"));
  EXPECT_THAT(why(std::string(100, '\xff')), HasSubstr("malformed"));
}

TEST_F(DriverOrder, IsNotWaitedForForLong) {
  EXPECT_THAT(why("", true), HasSubstr("does not answer"));
  EXPECT_THAT(why(frame(FromDriver::kKept).substr(0, 11), true), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace cloister::runtime::microvm
