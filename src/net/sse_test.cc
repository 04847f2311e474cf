// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

#include <gtest/gtest.h>

namespace cloister::net {
namespace {

constexpr std::string_view kStream =
    ": a comment\n\nid: 1.0.0\nevent: status\ndata: {\"a\":1}\n\n"
    "event: stdout\r\ndata:one\r\ndata: two\r\n\r\n"
    "id: 2.3.0\rdata\r\r"
    "event: nothing\n\n"
    "data: cut off";

std::vector<SseEvent> parse(std::string_view text, size_t step) {
  SseParser parser;
  std::vector<SseEvent> all;
  for (size_t at = 0; at < text.size(); at += step) {
    auto some = parser.feed(text.substr(at, step));
    EXPECT_TRUE(some);
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

// The same events however the stream is cut into pieces.
TEST(Sse, AnyPieces) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, kStream.size()}) {
    const auto events = parse(kStream, step);
    ASSERT_EQ(events.size(), 3u) << step;
    EXPECT_EQ(events[0].type, "status");
    EXPECT_EQ(events[0].data, "{\"a\":1}");
    EXPECT_EQ(events[0].id, "1.0.0");
    EXPECT_EQ(events[1].type, "stdout");
    EXPECT_EQ(events[1].data, "one\ntwo");
    EXPECT_EQ(events[1].id, "1.0.0");
    EXPECT_EQ(events[2].type, "message");
    EXPECT_EQ(events[2].data, "");
    EXPECT_EQ(events[2].id, "2.3.0");
  }
}

TEST(Sse, AnEndlessEventIsRefused) {
  SseParser parser;
  const std::string piece(size_t{1} << 20, 'x');
  Result<std::vector<SseEvent>> last;
  size_t fed = 0;
  while (last && fed <= 2 * SseParser::kMaxEvent) {
    last = parser.feed(piece);
    fed += piece.size();
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Code::kTooLarge);
  EXPECT_LE(fed, SseParser::kMaxEvent + 2 * piece.size());
}

}  // namespace
}  // namespace cloister::net
