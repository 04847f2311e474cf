// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/guest_words.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/spawn.h"

namespace cloister::runtime {
namespace {

class GuestWordsTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    guest_.reset(ends[1]);
    words_ = std::make_shared<GuestWords>(io_.get_executor(), Fd(ends[0]),
                                          [](std::string_view said) { return said.find("stop"); });
    async::spawn(io_.get_executor(), GuestWords::listen(words_, [this] { stalls_++; }));
  }
  void TearDown() override {
    words_->close();
    io_.run();
  }
  void say(std::string_view text) {
    ASSERT_EQ(::write(guest_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    io_.restart();
    io_.poll();
  }

  boost::asio::io_context io_{1};
  Fd guest_;
  std::shared_ptr<GuestWords> words_;
  int stalls_ = 0;
};

TEST_F(GuestWordsTest, AreToldAsPrintableText) {
  EXPECT_EQ(words_->told(), "");
  say("no\tdisk \x1b[1m\n\n");
  EXPECT_EQ(words_->told(), "; it said: no disk  [1m");
  EXPECT_EQ(stalls_, 0);
}

TEST_F(GuestWordsTest, BeginWhereItStopped) {
  say(std::string(3000, 'x') + "st");
  say("op: why");
  EXPECT_EQ(stalls_, 1);
  say(" and where, and stop");
  EXPECT_EQ(words_->told(), "; it said: stop: why and where, and stop");
  EXPECT_EQ(stalls_, 1);
}

TEST_F(GuestWordsTest, AreTheLastAndBounded) {
  say(std::string(2000, 'a') + std::string(600, 'b'));
  EXPECT_EQ(words_->told(), "; it said: " + std::string(512, 'b'));
}

TEST_F(GuestWordsTest, WhatWasNotReadYetIsToldToo) {
  ASSERT_EQ(::write(guest_.get(), "late", 4), 4);
  EXPECT_EQ(words_->told(), "; it said: late");
}

// A guest that never stops writing loses its reader.
TEST_F(GuestWordsTest, EndAtABound) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string piece(16 << 10, 'z');
  for (int i = 0; i < 16; ++i)
    say(piece);
  EXPECT_EQ(::write(guest_.get(), "z", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace cloister::runtime
