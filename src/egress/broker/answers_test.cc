// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/broker/websocket.h"

namespace cloister::egress {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kKey = "the-value-of-the-secret";

std::shared_ptr<const redact::Patterns> patterns() {
  return redact::Patterns::make({{"key", std::string(kKey)}});
}

std::string message(std::string_view text, char flags = 0) {
  const size_t size = text.size();
  std::string bytes = {flags, 0, 0, static_cast<char>(size >> 8), static_cast<char>(size)};
  return bytes += text;
}

// The body, fed in pieces of `piece` bytes; the message of the error.
std::string clean(const Fields& fields, const std::string& body, size_t piece = 1) {
  CleanBody cleaner(patterns(), fields);
  std::string out;
  for (size_t at = 0; at < body.size(); at += piece) {
    const auto fed = cleaner.feed(std::string_view(body).substr(at, piece));
    if (!fed) return out + "!" + fed.error().message;
    out += *fed;
  }
  const auto rest = cleaner.finish();
  return rest ? out + *rest : out + "!" + rest.error().message;
}

TEST(Answers, CodingsThatCannotBeReadAreKnown) {
  EXPECT_EQ(unreadable(200, {{"Content-Encoding", "identity"}}), "");
  EXPECT_EQ(unreadable(200, {{"content-type", "text/plain"}}), "");
  EXPECT_THAT(unreadable(200, {{"Content-Encoding", "gzip"}}), HasSubstr("compresses"));
  EXPECT_THAT(unreadable(200, {{"content-encoding", "identity, BR"}}), HasSubstr("compresses"));
  EXPECT_THAT(unreadable(200, {{"grpc-encoding", "gzip"}}), HasSubstr("compresses"));
  EXPECT_THAT(unreadable(101, {{"Sec-WebSocket-Extensions", "permessage-deflate"}}),
              HasSubstr("extension"));
  EXPECT_THAT(unreadable(206, {}), HasSubstr("part"));
}

TEST(Answers, FieldsLoseTheSecret) {
  const std::string key(kKey);
  Fields fields = {{"Location", "/x?k=" + key}, {"x-" + key, "1"}, {"Other", "1"}};
  redactFields(fields, *patterns());
  EXPECT_EQ(fields, (Fields{{"Location", "/x?k=[secret key]"}, {"Other", "1"}}));
}

TEST(Answers, ABodyLosesTheSecretHoweverItIsCut) {
  const std::string body = "a " + std::string(kKey) + " b " + std::string(kKey.substr(0, 5));
  for (const size_t piece : {1, 3, 7, 100})
    EXPECT_EQ(clean({}, body, piece), "a [secret key] b the-v") << piece;
}

TEST(Answers, AnEventIsNotHeldBack) {
  const Fields events = {{"content-type", "text/event-stream; charset=utf-8"}};
  CleanBody cleaner(patterns(), events);
  // The end of the event may begin the secret.
  const std::string event = "data: the-v\r\n\r\n";
  EXPECT_EQ(cleaner.feed(event).value(), event);
  EXPECT_THAT(clean(events, "data: " + std::string(kKey) + "\n\n"), HasSubstr("[secret key]"));
  // Another body waits.
  EXPECT_NE(CleanBody(patterns(), {}).feed("data: the-v").value(), "data: the-v");
}

TEST(Answers, AMessageOfGrpcIsNotHeldBack) {
  const Fields grpc = {{"content-type", "application/grpc+proto"}};
  CleanBody cleaner(patterns(), grpc);
  const std::string first = message("x the-v");
  EXPECT_EQ(cleaner.feed(first).value(), first);
  EXPECT_EQ(cleaner.feed(message("")).value(), message(""));
  EXPECT_EQ(clean(grpc, first + message("second") + message(""), 2),
            first + message("second") + message(""));
}

TEST(Answers, AMessageOfGrpcWithTheSecretEndsTheAnswer) {
  const Fields grpc = {{"content-type", "application/grpc"}};
  for (const size_t piece : {1, 4, 1000}) {
    const std::string got = clean(grpc, message("ok") + message("x" + std::string(kKey)), piece);
    EXPECT_THAT(got, HasSubstr("!A message of the answer repeats the secret key."));
    EXPECT_THAT(got, Not(HasSubstr(kKey)));
  }
  EXPECT_THAT(clean(grpc, message("zip", 1)), HasSubstr("compressed"));
}

TEST(WebSocketFrames, LongFramesPass) {
  CleanFrames frames(patterns());
  std::string payload(70'000, 'x');
  std::string head = {'\x82', 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70};
  std::string out;
  const std::string bytes = head + payload;
  for (size_t at = 0; at < bytes.size(); at += 9'000)
    out += frames.feed(std::string_view(bytes).substr(at, 9'000)).value();
  // Read again as frames.
  FrameReader reader;
  std::string all;
  bool final = false;
  uint8_t first = 0xff;
  for (std::string_view left = out; !left.empty();) {
    const auto piece = reader.next(left).value();
    ASSERT_TRUE(piece);
    if (first == 0xff) first = piece->opcode;
    all += piece->payload;
    final = piece->final;
  }
  EXPECT_EQ(all, payload);
  EXPECT_TRUE(final);
  EXPECT_EQ(first, 2);
}

TEST(WebSocketFrames, MalformedFramesAreKnown) {
  using namespace std::literals;
  for (const std::string_view bytes :
       {"\xc1\x00"sv, "\x83\x00"sv, "\x80\x00"sv, "\x01\x00\x01\x00"sv, "\x09\x00"sv,
        "\x89\x7e\x00\x7e"sv, "\x8b\x00"sv}) {
    CleanFrames frames(patterns());
    EXPECT_FALSE(frames.feed(bytes)) << testing::PrintToString(bytes);
  }
}

TEST(WebSocketFrames, AnEmptyMessageIsOne) {
  using namespace std::literals;
  CleanFrames frames(patterns());
  EXPECT_EQ(frames.feed("\x81\x00"sv).value(), "\x81\x00"sv);
  EXPECT_EQ(frames.feed("\x89\x01x"sv).value(), "\x89\x01x"sv);
}

}  // namespace
}  // namespace cloister::egress
