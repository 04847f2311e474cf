// SPDX-License-Identifier: Apache-2.0
// The conformance suite of frames over a ByteStream, for GoogleTest. A transport's test says
//   INSTANTIATE_TYPED_TEST_SUITE_P(Unix, FrameSuite, UnixHarness);
// with the Harness of stream_suite.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "net/frame_connection.h"
#include "net/stream_suite.h"

namespace cloister::net {

template <class Harness>
class FrameSuite : public StreamSuite<Harness> {
 protected:
  // Both ends as connections of frames.
  void frame() {
    from_ = std::make_shared<FrameConnection>(std::move(this->one_));
    to_ = std::make_shared<FrameConnection>(std::move(this->other_));
  }
  Result<Frame> next(uint32_t most = 1U << 30) {
    return async::runTask(this->io_, to_->read(most));
  }
  // Sends in the background; the result is set once the frame is queued, or refused.
  std::shared_ptr<std::optional<bool>> send(std::string payload) {
    auto sent = std::make_shared<std::optional<bool>>();
    async::spawn(this->io_.get_executor(),
                 [](auto connection, auto text, auto into) -> boost::asio::awaitable<void> {
                   *into = co_await connection->send(1, 1, std::move(text));
                 }(from_, std::move(payload), sent));
    return sent;
  }

  std::shared_ptr<FrameConnection> from_;
  std::shared_ptr<FrameConnection> to_;
};

TYPED_TEST_SUITE_P(FrameSuite);

TYPED_TEST_P(FrameSuite, CarriesFramesInTheirOrder) {
  this->frame();
  const std::string large = this->bytes(this->kLarge + 1);
  this->from_->post(7, 3, "first");
  this->from_->post(8, 0xffffffff);
  this->from_->post(9, 4, large);
  for (uint16_t i = 0; i < 100; ++i)  // more than one write gathers
    this->from_->post(i, i, "x");
  const auto first = this->next();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(std::tie(first->type, first->channel, first->payload),
            std::make_tuple(7, 3U, std::string("first")));
  const auto empty = this->next();
  ASSERT_TRUE(empty);
  EXPECT_EQ(std::tie(empty->type, empty->channel, empty->payload),
            std::make_tuple(8, 0xffffffffU, std::string()));
  const auto third = this->next();
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->payload == large);
  for (uint16_t i = 0; i < 100; ++i)
    EXPECT_EQ(this->next().value_or(Frame{}).type, i);
}

TYPED_TEST_P(FrameSuite, CountsTheBytesOfAnIncompleteFrame) {
  std::string begin(wire::kHeaderBytes + 5, '\0');
  wire::encodeHeader(begin.data(), 1, 1, 1U << 20);
  const std::string more(300'000, 'x');
  const auto to = std::make_shared<FrameConnection>(std::move(this->other_));
  std::optional<Result<Frame>> frame;
  async::spawn(this->io_.get_executor(),
               [](auto connection, auto& into) -> boost::asio::awaitable<void> {
                 into = co_await connection->read(1U << 20);
               }(to, frame));
  EXPECT_EQ(to->received(), 0U);
  const auto sent = this->write(*this->one_, {boost::asio::buffer(begin)});
  EXPECT_TRUE(this->until([&] { return to->received() == begin.size(); }));
  const auto sent_more = this->write(*this->one_, {boost::asio::buffer(more)});
  EXPECT_TRUE(this->until([&] { return to->received() == begin.size() + more.size(); }));
  EXPECT_FALSE(frame);
  to->close();
  EXPECT_TRUE(this->until([&] { return frame.has_value(); }));
}

TYPED_TEST_P(FrameSuite, RefusesAFrameOverItsBound) {
  this->frame();
  this->from_->post(1, 1, "12345");
  const auto refused = this->next(4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TYPED_TEST_P(FrameSuite, RefusesBytesThatAreNoFrame) {
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  this->to_ = std::make_shared<FrameConnection>(std::move(this->other_));
  const auto refused = this->next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TYPED_TEST_P(FrameSuite, AFrameThatBreaksOffIsTheEnd) {
  std::string header(wire::kHeaderBytes, '\0');
  wire::encodeHeader(header.data(), 1, 1, 1U << 20);
  const auto sent = this->write(*this->one_, {boost::asio::buffer(header)});
  EXPECT_TRUE(this->until([&] { return sent->has_value(); }));
  this->one_->close();
  this->to_ = std::make_shared<FrameConnection>(std::move(this->other_));
  const auto ended = this->next();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
}

TYPED_TEST_P(FrameSuite, ASenderWaitsForASlowReader) {
  this->frame();
  const auto first = this->send(std::string(this->kLarge, 'x'));
  const auto second = this->send("y");
  this->settle();
  EXPECT_TRUE(*first) << "the first one is queued";
  EXPECT_FALSE(*second);
  EXPECT_TRUE(this->from_->congested());
  EXPECT_EQ(this->next()->payload.size(), this->kLarge);
  EXPECT_EQ(this->next()->payload, "y");
  EXPECT_EQ(*second, true);
  EXPECT_FALSE(this->from_->congested());
}

TYPED_TEST_P(FrameSuite, ClosingFreesAWaitingSender) {
  this->frame();
  const auto first = this->send(std::string(this->kLarge, 'x'));
  const auto second = this->send("y");
  this->settle();
  this->from_->close();
  EXPECT_TRUE(this->until([&] { return second->has_value(); }));
  EXPECT_EQ(*second, false);
  EXPECT_TRUE(this->from_->closed());
}

TYPED_TEST_P(FrameSuite, AReaderThatNeverReadsIsGivenUp) {
  this->frame();
  for (int i = 0; i < 300'000 && !this->from_->closed(); ++i)
    this->from_->post(1, 1, "x");
  EXPECT_TRUE(this->from_->closed());
}

REGISTER_TYPED_TEST_SUITE_P(FrameSuite, CarriesFramesInTheirOrder,
                            CountsTheBytesOfAnIncompleteFrame, RefusesAFrameOverItsBound,
                            RefusesBytesThatAreNoFrame, AFrameThatBreaksOffIsTheEnd,
                            ASenderWaitsForASlowReader, ClosingFreesAWaitingSender,
                            AReaderThatNeverReadsIsGivenUp);

}  // namespace cloister::net
