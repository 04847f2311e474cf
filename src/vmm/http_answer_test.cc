// SPDX-License-Identifier: Apache-2.0
#include "vmm/http_answer.h"

#include <string>

#include <gtest/gtest.h>

namespace cloister::vmm {
namespace {

Parsed parse(std::string_view bytes) {
  Answer answer;
  return parseAnswer(bytes, answer);
}

TEST(HttpAnswer, IsReadWithItsBody) {
  Answer answer;
  ASSERT_EQ(parseAnswer("HTTP/1.1 204 \r\nServer: Firecracker API\r\n"
                        "Connection: keep-alive\r\n\r\n",
                        answer),
            Parsed::kWhole);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.body, "");
  ASSERT_EQ(parseAnswer("HTTP/1.1 400 \r\ncontent-LENGTH:\t 5 \r\n\r\nfault", answer),
            Parsed::kWhole);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, "fault");
  EXPECT_EQ(parse("HTTP/1.0 204\r\n\r\n"), Parsed::kWhole);
}

TEST(HttpAnswer, MayComeInPieces) {
  const std::string whole = "HTTP/1.1 400 Bad\r\nA: b\r\nContent-Length: 2\r\n\r\nno";
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parse(whole.substr(0, size)), Parsed::kMore) << size;
  EXPECT_EQ(parse(whole), Parsed::kWhole);
  EXPECT_EQ(parse(whole + "x"), Parsed::kMalformed);
}

TEST(HttpAnswer, IsNothingElse) {
  for (const char* bytes :
       {"\r\n\r\n", "HTTP/2 204\r\n\r\n", "HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 2x4 \r\n\r\n",
        "HTTP/1.1 2044 \r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 600 \r\n\r\n",
        "HTTP/1.1 204 \r\nno header\r\n\r\n", "HTTP/1.1 204 \r\n: x\r\n\r\n",
        "HTTP/1.1 204 \r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 400 \r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 400 \r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400 \r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 400 \r\nContent-Length: 1 2\r\n\r\n",
        "HTTP/1.1 400 \r\nContent-Length: 9999999\r\n\r\n",
        "HTTP/1.1 400 \r\nContent-Length: 8192\r\n\r\n",
        "HTTP/1.1 400 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    EXPECT_EQ(parse(bytes), Parsed::kMalformed) << bytes;
  }
  EXPECT_EQ(parse(std::string(kMostAnswer - 1, 'x')), Parsed::kMore);
  EXPECT_EQ(parse(std::string(kMostAnswer, 'x')), Parsed::kMalformed);
}

}  // namespace
}  // namespace cloister::vmm
