// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/chunks.h"

#include <gtest/gtest.h>

namespace cloister::egress {
namespace {

TEST(Chunks, ReadsABodyInPiecesOfAnySize) {
  const std::string coded = "3\r\nabc\r\n0A\r\n0123456789\r\n0\r\nA: b\r\n\r\nnext";
  for (size_t step = 1; step <= coded.size(); ++step) {
    ChunkReader reader;
    std::string body;
    size_t used = 0;
    while (!reader.done()) {
      const auto fed = reader.feed(std::string_view(coded).substr(used, step), body);
      ASSERT_TRUE(fed) << step;
      used += *fed;
    }
    EXPECT_EQ(body, "abc0123456789") << step;
    EXPECT_EQ(coded.substr(used), "next") << step;
  }
}

TEST(Chunks, EachPrefixIsIncomplete) {
  const std::string coded = "3\r\nabc\r\n0\r\n\r\n";
  for (size_t length = 0; length < coded.size(); ++length) {
    ChunkReader reader;
    std::string body;
    EXPECT_TRUE(reader.feed(std::string_view(coded).substr(0, length), body));
    EXPECT_FALSE(reader.done()) << length;
  }
}

TEST(Chunks, RefusesOtherReadings) {
  for (const std::string& bad :
       {std::string("\r\n"), std::string("x\r\n"), std::string("0x1\r\na"), std::string(" 1\r\na"),
        std::string("1 \r\na"), std::string("+1\r\na"), std::string("-1\r\na"),
        std::string("1;a=b\r\na\r\n"), std::string("1\na"), std::string("1\r\r\na"),
        std::string("1\r\nab"), std::string("1\r\na\n"), std::string("1\r\na\rx"),
        std::string("00000000001\r\na"), std::string("0\r\nA: b\n\r\n"), std::string("0\r\n\rx"),
        std::string("0\r\nA: b\rx"), "0\r\nA: " + std::string(10'000, 'x')}) {
    ChunkReader reader;
    std::string body;
    EXPECT_FALSE(reader.feed(bad, body)) << bad.substr(0, 20);
  }
}

TEST(Chunks, CodesWhatItReads) {
  ChunkReader reader;
  std::string body;
  const std::string coded = asChunk(std::string(300, 'x')) + asChunk("");
  ASSERT_TRUE(reader.feed(coded, body));
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(body, std::string(300, 'x'));
}

}  // namespace
}  // namespace cloister::egress
