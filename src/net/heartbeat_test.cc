// SPDX-License-Identifier: Apache-2.0
#include "net/heartbeat.h"

#include <gtest/gtest.h>

namespace cloister::net {
namespace {

class HeartbeatTest : public testing::Test {
 protected:
  HeartbeatTest() { tick(Millis(0)); }
  Heartbeat::Beat tick(Millis later) {
    now_ += later;
    const Heartbeat::Beat beat = heart_.tick(now_);
    asked_ += beat.ask ? 1 : 0;
    return beat;
  }
  // Number of silent ticks until the node is given up; 0: still alive.
  int ticksToTheEnd(int most) {
    for (int i = 1; i <= most; ++i) {
      if (tick(Millis(1000)).gone) return i;
    }
    return 0;
  }

  base::Monotonic now_{};
  Heartbeat heart_{Millis(30'000)};
  int asked_ = 0;
};

TEST_F(HeartbeatTest, AsksSeveralTimesAndGivesUp) {
  EXPECT_EQ(ticksToTheEnd(100), 30);
  EXPECT_GE(asked_, 5);
}

TEST_F(HeartbeatTest, AnythingHeardIsASignOfLife) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ticksToTheEnd(29), 0);
    heart_.heard();
  }
}

TEST_F(HeartbeatTest, AsksNobodyWhoSpeaks) {
  for (int i = 0; i < 100; ++i) {
    tick(Millis(1000));
    heart_.heard();
  }
  EXPECT_EQ(asked_, 0);
  EXPECT_FALSE(heart_.answered()) << "nothing was asked";
}

TEST_F(HeartbeatTest, OnlyWhatWasAskedIsAnswered) {
  EXPECT_EQ(ticksToTheEnd(12), 0);
  for (int i = 0; i < asked_; ++i)
    EXPECT_TRUE(heart_.answered());
  EXPECT_FALSE(heart_.answered());
}

// This process was stopped, or the machine slept: the other end could not send.
TEST_F(HeartbeatTest, WhatItSleptItDoesNotCount) {
  for (int i = 0; i < 20; ++i) {
    const auto beat = tick(Millis(3'600'000));
    EXPECT_FALSE(beat.gone);
    EXPECT_EQ(beat.slept, Millis(3'599'000));
  }
  EXPECT_EQ(ticksToTheEnd(100), 10);
}

TEST_F(HeartbeatTest, ABusyMachineIsALittleLate) {
  EXPECT_EQ(tick(Millis(2500)).slept, Millis(0));
  EXPECT_EQ(tick(Millis(1)).slept, Millis(0));
}

}  // namespace
}  // namespace cloister::net
