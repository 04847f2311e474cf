// SPDX-License-Identifier: Apache-2.0
// The conformance suite of ByteStreams, for GoogleTest. A transport's test gives a Harness and says
//   INSTANTIATE_TYPED_TEST_SUITE_P(Unix, StreamSuite, UnixHarness);
// A Harness is default-constructible and has
//   static constexpr bool kKnowsPeer;                     whether the transport has peer()
//   StreamPair pair(boost::asio::io_context&);            two connected ends
// A transport passes frame_suite.h, too.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/clock.h"
#include "net/stream_testing.h"

namespace cloister::net {

template <class Harness>
class StreamSuite : public testing::Test {
 protected:
  using Failure = ByteStream::Error;
  static constexpr size_t kLarge = size_t{8} << 20;  // more than any transport holds

  StreamSuite() { std::tie(one_, other_) = Harness().pair(io_); }

  // Bytes whose order shows.
  static std::string bytes(size_t count) {
    std::string made(count, '\0');
    for (size_t i = 0; i < count; ++i)
      made[i] = static_cast<char>(i * 31 + i / 251);
    return made;
  }

  // Begins to write; the result is set at its end.
  std::shared_ptr<std::optional<Failure>> write(ByteStream& stream,
                                                std::vector<boost::asio::const_buffer> pieces) {
    auto done = std::make_shared<std::optional<Failure>>();
    stream.write(std::move(pieces), [done](Failure error) {
      EXPECT_FALSE(*done) << "told twice";
      *done = error;
    });
    EXPECT_FALSE(*done) << "told within write()";
    return done;
  }
  std::pair<Failure, std::string> readSome(ByteStream& stream, size_t most) {
    std::string into(most, '\0');
    const auto [error, count] = async::runTask(io_, stream.read(boost::asio::buffer(into)));
    into.resize(count);
    return {error, into};
  }
  // Up to `count` bytes, or to an error.
  std::string read(ByteStream& stream, size_t count) {
    std::string all;
    while (all.size() < count) {
      const auto [error, some] = readSome(stream, std::min(count - all.size(), size_t{100'000}));
      if (error) break;
      EXPECT_FALSE(some.empty());
      all += some;
    }
    return all;
  }
  template <class Condition>
  bool until(Condition done) {
    const auto end = base::monotonicNow() + Millis(10'000);
    io_.restart();
    while (!done() && base::monotonicNow() < end)
      io_.run_one_for(Millis(50));
    return done();
  }
  void settle() {
    io_.restart();
    io_.run_for(Millis(50));
  }

  boost::asio::io_context io_;
  std::unique_ptr<ByteStream> one_;
  std::unique_ptr<ByteStream> other_;
};

TYPED_TEST_SUITE_P(StreamSuite);

TYPED_TEST_P(StreamSuite, CarriesBytesBothWaysInTheirOrder) {
  const std::string there = this->bytes(this->kLarge);
  const std::string back = this->bytes(1000);
  const auto sent = this->write(
      *this->one_, {boost::asio::buffer(there.data(), 3), boost::asio::buffer(there.data() + 3, 0),
                    boost::asio::buffer(there) + 3});
  const auto answered = this->write(*this->other_, {boost::asio::buffer(back)});
  EXPECT_TRUE(this->read(*this->other_, there.size()) == there);
  EXPECT_TRUE(this->read(*this->one_, back.size()) == back);
  EXPECT_TRUE(this->until([&] { return *sent && *answered; }));
  EXPECT_FALSE(**sent);
  EXPECT_FALSE(**answered);
}

TYPED_TEST_P(StreamSuite, AReadReturnsTheBytesThatAreThere) {
  const std::string text = "some";
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  const auto [error, some] = this->readSome(*this->other_, 1000);
  EXPECT_FALSE(error);
  EXPECT_EQ(some, text);
}

TYPED_TEST_P(StreamSuite, AWriteWaitsForItsReader) {
  const std::string text = this->bytes(this->kLarge);
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  this->settle();
  EXPECT_FALSE(*sent) << "nobody reads, and nothing may hold so many bytes";
  EXPECT_TRUE(this->read(*this->other_, text.size()) == text);
  EXPECT_TRUE(this->until([&] { return sent->has_value(); }));
}

TYPED_TEST_P(StreamSuite, BytesArriveBeforeTheEnd) {
  const std::string text = "last words";
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  EXPECT_TRUE(this->until([&] { return sent->has_value(); }));
  this->one_->close();
  EXPECT_EQ(this->read(*this->other_, text.size()), text);
  const auto [error, none] = this->readSome(*this->other_, 10);
  EXPECT_TRUE(error);
  EXPECT_EQ(none, "");
}

TYPED_TEST_P(StreamSuite, ADroppedEndIsAnEnd) {
  this->one_.reset();
  EXPECT_TRUE(this->readSome(*this->other_, 10).first);
}

TYPED_TEST_P(StreamSuite, WritesToAClosedEndFail) {
  this->other_->close();
  const std::string text = this->bytes(this->kLarge);
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  EXPECT_TRUE(this->until([&] { return sent->has_value(); }));
  EXPECT_TRUE(**sent);
}

TYPED_TEST_P(StreamSuite, ClosingEndsPendingOperations) {
  std::optional<typename TestFixture::Failure> ended;
  async::spawn(this->io_.get_executor(),
               [](ByteStream& stream, auto& into) -> boost::asio::awaitable<void> {
                 char byte = 0;
                 into = (co_await stream.read(boost::asio::buffer(&byte, 1))).first;
               }(*this->one_, ended));
  const std::string text = this->bytes(this->kLarge);
  const auto sent = this->write(*this->one_, {boost::asio::buffer(text)});
  this->settle();
  EXPECT_FALSE(ended || *sent);
  this->one_->close();
  this->one_->close();
  EXPECT_TRUE(this->until([&] { return ended && *sent; }));
  EXPECT_TRUE(*ended);
  EXPECT_TRUE(**sent);
  EXPECT_TRUE(this->readSome(*this->one_, 1).first) << "and later ones";
}

TYPED_TEST_P(StreamSuite, KnowsItsPeerOrSaysThatItDoesNot) {
  const auto peer = this->one_->peer();
  ASSERT_EQ(peer.has_value(), TypeParam::kKnowsPeer);
  if (!peer) return;
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  this->other_->close();
  this->one_->close();
  EXPECT_EQ(this->one_->peer()->pid, ::getpid()) << "the record is kept";
}

REGISTER_TYPED_TEST_SUITE_P(StreamSuite, CarriesBytesBothWaysInTheirOrder,
                            AReadReturnsTheBytesThatAreThere, AWriteWaitsForItsReader,
                            BytesArriveBeforeTheEnd, ADroppedEndIsAnEnd, WritesToAClosedEndFail,
                            ClosingEndsPendingOperations, KnowsItsPeerOrSaysThatItDoesNot);

}  // namespace cloister::net
