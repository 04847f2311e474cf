// SPDX-License-Identifier: Apache-2.0
// The transports of frames.
#include <gtest/gtest.h>

#include "net/frame_suite.h"
#include "net/stream_suite.h"

namespace cloister::net {
namespace {

struct UnixHarness {
  static constexpr bool kKnowsPeer = true;
  static StreamPair pair(boost::asio::io_context& io) { return unixPair(io.get_executor()); }
};

struct MemoryHarness {
  static constexpr bool kKnowsPeer = false;
  static StreamPair pair(boost::asio::io_context& io) {
    return MemoryStream::pair(io.get_executor());
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Unix, StreamSuite, UnixHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Unix, FrameSuite, UnixHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StreamSuite, MemoryHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, FrameSuite, MemoryHarness);

class ConnectUnix : public testing::Test {
 protected:
  Result<std::unique_ptr<ByteStream>> connect(std::string path) {
    return async::runTask(io_, connectUnix(std::move(path)));
  }
  boost::asio::io_context io_;
};

TEST_F(ConnectUnix, RefusesAPathThatFitsNoAddress) {
  const auto refused = connect("/tmp/" + std::string(103, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TEST_F(ConnectUnix, NamesThePathWhereNobodyListens) {
  const auto refused = connect("/no/such/socket");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("/no/such/socket"), std::string::npos);
}

}  // namespace
}  // namespace cloister::net
