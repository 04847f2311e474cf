// SPDX-License-Identifier: Apache-2.0
#include "cli/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/scripted_testing.h"

namespace cloister::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string answer(const std::string& events) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + events;
}

struct Seen {
  std::vector<std::string> data;
  Result<> result;
};

// All events up to the event with the data "last".
Seen readAll(net::BlockingClient client) {
  EventStream stream(client, "/events");
  Seen seen;
  seen.result = stream.read([&](const net::SseEvent& event) -> Result<bool> {
    seen.data.push_back(event.data);
    if (event.data == "bad") return fail(Code::kUnavailable, "that one will not do");
    return event.data == "last";
  });
  return seen;
}

TEST(EventStream, GoesOnWhereItBroke) {
  const net::Scripted server({answer("id: 1\ndata: one\n\nevent: heartbeat\ndata: {}\n\nid: 2\nda"),
                              answer("id: 2\ndata: two\n\n"), answer("id: 3\ndata: last\n\n")});
  const Seen seen = readAll(server.client());
  ASSERT_TRUE(seen.result) << seen.result.error().message;
  EXPECT_THAT(seen.data, ElementsAre("one", "two", "last"));
  ASSERT_EQ(server.connections(), 3);
  EXPECT_THAT(server.requests()[0], Not(HasSubstr("Last-Event-ID")));
  EXPECT_THAT(server.requests()[1], HasSubstr("Last-Event-ID: 1\r\n"));
  EXPECT_THAT(server.requests()[2], HasSubstr("Last-Event-ID: 2\r\n"));
}

TEST(EventStream, ARefusalIsFinal) {
  const net::Scripted server(
      {"HTTP/1.1 404 Not Found\r\nContent-Length: 24\r\n\r\n{\"detail\":\"no such one\"} "});
  const Seen seen = readAll(server.client());
  ASSERT_FALSE(seen.result);
  EXPECT_EQ(seen.result.error().code, Code::kNotFound);
  EXPECT_THAT(seen.result.error().message, HasSubstr("no such one"));
}

TEST(EventStream, WhoeverLooksMayRefuse) {
  const net::Scripted server({answer("data: bad\n\ndata: last\n\n")});
  const Seen seen = readAll(server.client());
  ASSERT_FALSE(seen.result);
  EXPECT_EQ(seen.result.error().message, "that one will not do");
  EXPECT_THAT(seen.data, ElementsAre("bad"));
}

}  // namespace
}  // namespace cloister::cli
