// SPDX-License-Identifier: Apache-2.0
#include "net/frame_connection.h"

#include <algorithm>
#include <utility>

#include <boost/asio/buffer.hpp>

namespace cloister::net {
namespace {

namespace asio = boost::asio;

constexpr size_t kReadBuffer = size_t{64} << 10;
constexpr size_t kReadStep = size_t{1} << 20;
constexpr size_t kHighWater = size_t{4} << 20;   // send() waits above this
constexpr size_t kFrameCost = 64;                // of holding a frame, beside its payload
constexpr size_t kMostFrames = size_t{1} << 17;  // more than send() ever queues
constexpr size_t kGather = 32;                   // frames in one write

}  // namespace

FrameConnection::FrameConnection(Stream stream)
    : stream_(std::move(stream)), buffer_(kReadBuffer), drained_(stream_->executor()) {}

asio::awaitable<Result<Frame>> FrameConnection::read(uint32_t max_payload) {
  CO_TRY(co_await fill(wire::kHeaderBytes));
  wire::FrameHeader header;
  if (!wire::decodeHeader({buffer_.data() + begin_, wire::kHeaderBytes}, header)) {
    co_return fail(Code::kInvalid, "reading a frame: not a frame of this generation");
  }
  if (header.length > max_payload) {
    co_return fail(Code::kInvalid, "reading a frame: " + std::to_string(header.length) +
                                       " bytes, over the bound of " + std::to_string(max_payload));
  }
  begin_ += wire::kHeaderBytes;
  Frame frame{header.type, header.channel, {}};
  CO_TRY(co_await readPayload(frame.payload, header.length));
  co_return frame;
}

asio::awaitable<Result<>> FrameConnection::readPayload(std::string& payload, size_t length) {
  const size_t buffered = std::min(length, end_ - begin_);
  payload.assign(buffer_.data() + begin_, buffered);
  begin_ += buffered;
  while (payload.size() < length) {
    const size_t have = payload.size();
    const size_t step = std::min(length - have, kReadStep);
    payload.resize(have + step);
    for (size_t got = 0; got < step;) {
      const auto [error, count] =
          co_await stream_->read(asio::buffer(payload.data() + have + got, step - got));
      if (error) co_return fail(Code::kUnavailable, "reading a frame: " + error.message());
      got += count;
      received_ += count;
    }
  }
  co_return Result<>{};
}

// Has at least `wanted` unread bytes in the buffer.
asio::awaitable<Result<>> FrameConnection::fill(size_t wanted) {
  while (end_ - begin_ < wanted) {
    if (begin_ != 0) {
      std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<ptrdiff_t>(end_), buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    const auto [error, count] =
        co_await stream_->read(asio::buffer(buffer_.data() + end_, buffer_.size() - end_));
    if (error) co_return fail(Code::kUnavailable, "reading a frame: " + error.message());
    end_ += count;
    received_ += count;
  }
  co_return Result<>{};
}

asio::awaitable<bool> FrameConnection::send(uint16_t type, uint32_t channel, std::string payload) {
  while (congested() && !closed_)
    co_await drained_.wait();
  enqueue(type, channel, std::move(payload));
  co_return !closed_;
}

void FrameConnection::post(uint16_t type, uint32_t channel, std::string payload) {
  enqueue(type, channel, std::move(payload));
  if (queue_.size() > kMostFrames) close();
}

bool FrameConnection::congested() const {
  return queued_bytes_ > kHighWater;
}

void FrameConnection::enqueue(uint16_t type, uint32_t channel, std::string payload) {
  if (closed_) return;
  Outgoing& frame = queue_.emplace_back();
  frame.payload = std::move(payload);
  wire::encodeHeader(frame.header.data(), type, channel,
                     static_cast<uint32_t>(frame.payload.size()));
  queued_bytes_ += kFrameCost + frame.payload.size();
  if (!writing_) pump();
}

void FrameConnection::pump() {
  if (closed_ || queue_.empty()) return;
  std::vector<asio::const_buffer> buffers;
  const size_t count = std::min(queue_.size(), kGather);
  for (size_t i = 0; i < count; i++) {
    buffers.emplace_back(queue_[i].header.data(), queue_[i].header.size());
    if (!queue_[i].payload.empty()) buffers.push_back(asio::buffer(queue_[i].payload));
  }
  writing_ = true;
  stream_->write(std::move(buffers), [self = shared_from_this(), count](ByteStream::Error error) {
    self->writing_ = false;
    if (error) self->close();
    self->written(count);
  });
}

void FrameConnection::written(size_t frames) {
  for (size_t i = 0; i < frames; i++) {
    queued_bytes_ -= kFrameCost + queue_.front().payload.size();
    queue_.pop_front();
  }
  drained_.notify();
  pump();
}

void FrameConnection::close() {
  if (std::exchange(closed_, true)) return;
  stream_->close();
  drained_.notify();
}

}  // namespace cloister::net
