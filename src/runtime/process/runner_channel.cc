// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/runner_channel.h"

#include <cstring>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
constexpr size_t kBuffer = 2 * (wire::kRunnerMaxPayload + wire::kHeaderBytes);

}  // namespace

RunnerChannel::RunnerChannel(const asio::any_io_executor& executor, Fd socket)
    : fd_(socket.get()),
      socket_(executor, asio::local::stream_protocol(), socket.release()),
      buffer_(kBuffer) {}

Task<Result<RunnerFrame>> RunnerChannel::read() {
  for (;;) {
    const std::string_view held(buffer_.data() + begin_, end_ - begin_);
    if (held.size() >= wire::kHeaderBytes) {
      wire::FrameHeader header;
      if (!wire::decodeHeader(held, header) || header.length > wire::kRunnerMaxPayload) {
        co_return fail(Code::kInvalid, "reading from the runner: malformed frame");
      }
      const size_t whole = wire::kHeaderBytes + header.length;
      if (held.size() >= whole) {
        begin_ += whole;
        co_return RunnerFrame{static_cast<wire::FromRunner>(header.type), header.channel,
                              held.substr(wire::kHeaderBytes, header.length)};
      }
    }
    std::memmove(buffer_.data(), held.data(), held.size());
    begin_ = 0;
    end_ = held.size();
    const auto [error, n] = co_await socket_.async_read_some(
        asio::buffer(buffer_.data() + end_, buffer_.size() - end_), kUse);
    if (error) co_return fail(Code::kUnavailable, "reading from the runner: " + error.message());
    end_ += n;
  }
}

Task<Result<>> RunnerChannel::write(std::string_view frames) {
  const auto [error, n] = co_await asio::async_write(socket_, asio::buffer(frames), kUse);
  if (error) co_return fail(Code::kUnavailable, "writing to the runner: " + error.message());
  co_return Result<>();
}

void addFrame(std::string& out, wire::ToRunner type, uint32_t channel, std::string_view payload) {
  char header[wire::kHeaderBytes];
  wire::encodeHeader(header, static_cast<uint16_t>(type), channel,
                     static_cast<uint32_t>(payload.size()));
  out.append(header, sizeof header).append(payload);
}

}  // namespace cloister::runtime
