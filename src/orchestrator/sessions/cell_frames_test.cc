// SPDX-License-Identifier: Apache-2.0
// Output of a cell's program, valid and invalid.
#include "orchestrator/sessions/cell_frames.h"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/codec.h"
#include "wire/kernel.h"

namespace cloister::orchestrator {
namespace {

using wire::kernel::Frame;

struct Heard final : runtime::ExecObserver {
  void onStarted() override {}
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    (stream == model::Stream::kStdout ? out : err) += bytes;
    co_return;
  }
  Task<void> onFileBegin(std::string /*path*/, uint64_t /*size*/) override { co_return; }
  Task<void> onFileData(std::string_view /*bytes*/) override { co_return; }
  Task<void> onFileEnd() override { co_return; }

  std::string out;
  std::string err;
};

std::string frame(Frame type, std::string_view payload) {
  std::string bytes(wire::kernel::kFrameHead + payload.size(), '\0');
  wire::Writer w(bytes.data(), bytes.size());
  w.u8(static_cast<uint8_t>(type));
  w.u32(static_cast<uint32_t>(payload.size()));
  w.raw(payload.data(), payload.size());
  return bytes;
}

std::string frame(Frame type, uint32_t value) {
  char bytes[sizeof value];
  wire::Writer(bytes, sizeof bytes).u32(value);
  return frame(type, std::string_view(bytes, sizeof bytes));
}

std::string result(std::string_view json) {
  return frame(Frame::kResult, static_cast<uint32_t>(json.size())) + frame(Frame::kPiece, json);
}

class CellFramesTest : public testing::Test {
 protected:
  // In pieces of `step` bytes.
  void say(std::string_view bytes, size_t step = 1U << 20) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
      boost::asio::co_spawn(io_, frames_.onOutput(model::Stream::kStdout, bytes.substr(0, step)),
                            boost::asio::detached);
      io_.restart();
      io_.run();
    }
  }
  std::string results() { return base::toJson(frames_.results()); }

  boost::asio::io_context io_;
  Heard heard_;
  KernelBounds bounds_{.max_results = 2, .result_bytes = 20, .results_bytes = 30};
  CellFrames frames_{heard_, bounds_, [] {}};
};

TEST_F(CellFramesTest, StreamsResultsAndTheEndInAnyPieces) {
  const std::string all = frame(Frame::kBegun, "") + frame(Frame::kStdout, "out") +
                          frame(Frame::kStderr, "err") + result(R"({"a/b":1})") +
                          frame(Frame::kDone, 3) + "what comes after";
  say(all, 1);
  EXPECT_EQ((std::pair{heard_.out, heard_.err}),
            (std::pair<std::string, std::string>{"out", "err"}));
  EXPECT_EQ(results(), R"([{"a/b":1}])");
  EXPECT_TRUE(frames_.begun());
  EXPECT_EQ(frames_.exitCode(), 3);
  EXPECT_FALSE(frames_.broken());
  EXPECT_FALSE(frames_.resultsTruncated());
}

TEST_F(CellFramesTest, WhatIsOverABoundIsLeftOut) {
  say(result(R"({"a/b":"12345678901234567890"})"));  // a single result
  say(result(R"({"a/b":"1"})") + result(R"({"a/b":"2"})"));
  say(result(R"({"a/b":"3"})"));  // their number: the last replaces the previous result
  EXPECT_EQ(results(), R"([{"a/b":"1"},{"a/b":"3"}])");
  EXPECT_TRUE(frames_.resultsTruncated());
  EXPECT_EQ(frames_.resultsBytes(), 22U);
  EXPECT_EQ(base::toJson(frames_.leftOut()),
            R"([{"result":null,"type":"","bytes":30,"kept_bytes":0},)"
            R"({"result":null,"type":"","bytes":11,"kept_bytes":0}])");
  EXPECT_FALSE(frames_.broken());
}

TEST_F(CellFramesTest, TheLastResultIsThereWhateverCameBefore) {
  say(result(R"({"a/b":"123456789"})") + result(R"({"a/b":"12"})"));  // 19 and 12: over 30
  EXPECT_EQ(results(), R"([{"a/b":"12"}])");
  EXPECT_TRUE(frames_.resultsTruncated());
  EXPECT_EQ(frames_.resultsBytes(), 12U);
}

TEST_F(CellFramesTest, WhatIsNoResultIsLeftOut) {
  for (const std::string_view json :
       {"1", "[1]", R"({"a":1})", R"({"a/b<":1})", "{\xff}", "{", " "}) {
    say(result(json));
    EXPECT_EQ(results(), "[]") << json;
    EXPECT_EQ(frames_.resultsBytes(), 0U);
    EXPECT_TRUE(frames_.resultsTruncated());
    EXPECT_FALSE(frames_.broken());
  }
}

TEST_F(CellFramesTest, WhatBreaksTheRulesIsNotReadFurther) {
  using Bytes = std::string;
  const Bytes broken[] = {
      frame(static_cast<Frame>(0), ""),
      frame(static_cast<Frame>(7), "x"),
      Bytes("\x01\xff\xff\xff\xff", 5),
      Bytes("\x01\x01\x00\x01\x00", 5),  // 65537
      frame(Frame::kBegun, "x"),
      frame(Frame::kDone, ""),
      frame(Frame::kDone, 256),
      frame(Frame::kResult, 0),
      frame(Frame::kResult, "abc"),
      frame(Frame::kResult, UINT32_MAX),
      frame(Frame::kPiece, "x"),
      frame(Frame::kResult, 2) + frame(Frame::kPiece, "abc"),
      frame(Frame::kResult, 2) + frame(Frame::kPiece, ""),
      frame(Frame::kResult, 2) + frame(Frame::kResult, 2),
      frame(Frame::kResult, 2) + frame(Frame::kDone, 0),
  };
  for (const Bytes& bytes : broken) {
    CellFrames frames(heard_, bounds_, [] {});
    const Bytes all = bytes + frame(Frame::kStdout, "no") + frame(Frame::kDone, 0);
    boost::asio::co_spawn(io_, frames.onOutput(model::Stream::kStdout, all), boost::asio::detached);
    io_.restart();
    io_.run();
    EXPECT_TRUE(frames.broken()) << testing::PrintToString(bytes);
    EXPECT_FALSE(frames.exitCode()) << testing::PrintToString(bytes);
  }
  EXPECT_EQ(heard_.out, "");
}

}  // namespace
}  // namespace cloister::orchestrator
