// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/scripted_testing.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;

TEST(MeterLine, WithAndWithoutTotal) {
  EXPECT_EQ(meterLine(5 << 20, 10 << 20, Millis(2000)),
            "[###############...............]  50%  5.0 MiB of 10.0 MiB, 2.5 MiB/s");
  EXPECT_EQ(meterLine(5 << 20, std::nullopt, Millis(1000)), "5.0 MiB, 5.0 MiB/s");
  EXPECT_THAT(meterLine(0, 0, Millis(0)), HasSubstr("100%"));
  EXPECT_THAT(meterLine(20, 10, Millis(1)), HasSubstr("100%"));  // more came than was said
}

TEST(Download, RefusalsAreToldAndNothingIsTaken) {
  const net::Scripted server({"HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n"
                              R"({"detail": "no such file"})"},
                             7);
  net::BlockingClient client = server.client();
  bool taken = false;
  const auto done = download(client, "/v1/x", "x", [&](std::string_view) -> Result<> {
    taken = true;
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("no such file"));
  EXPECT_FALSE(taken);
}

TEST(Download, WhatBreaksOffIsAnError) {
  for (const char* answer :
       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}) {
    const net::Scripted server({answer});
    net::BlockingClient client = server.client();
    std::string got;
    const auto done = download(client, "/v1/x", "x", [&](std::string_view piece) -> Result<> {
      got += piece;
      return {};
    });
    EXPECT_FALSE(done);
    EXPECT_EQ(got, "half");
  }
}

}  // namespace
}  // namespace cloister::cli
