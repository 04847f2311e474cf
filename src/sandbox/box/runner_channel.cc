// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/runner_channel.h"

#include <cstring>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "linux/message.h"
#include "model/escalation.h"
#include "wire/string_writer.h"

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

// The next complete frame in the buffer, if any.
Result<std::optional<RunnerFrame>> RunnerChannel::next() {
  for (;;) {
    const std::string_view held(buffer_.data() + begin_, end_ - begin_);
    if (held.size() < wire::kHeaderBytes) return std::nullopt;
    wire::FrameHeader header;
    if (!wire::decodeHeader(held, header) || header.length > wire::kRunnerMaxPayload) {
      return fail(Code::kInvalid, "reading from the runner: malformed frame");
    }
    const size_t whole = wire::kHeaderBytes + header.length;
    if (held.size() < whole) return std::nullopt;
    begin_ += whole;
    const std::string_view payload = held.substr(wire::kHeaderBytes, header.length);
    const auto type = static_cast<wire::FromRunner>(header.type);
    if (type != wire::FromRunner::kCounts) return RunnerFrame{type, header.channel, payload};
    if (!keepCounts(payload)) {
      return fail(Code::kInvalid, "reading from the runner: counts that cannot be");
    }
  }
}

bool RunnerChannel::keepCounts(std::string_view payload) {
  const auto told = decodeCounts(payload);
  if (!told || counts_ == nullptr || told->killed < counts_->killed ||
      told->refused < counts_->refused || told->memory_peak < counts_->memory_peak) {
    return false;
  }
  *counts_ = *told;
  return true;
}

Task<Result<RunnerFrame>> RunnerChannel::read() {
  for (;;) {
    const auto frame = CO_TRY(next());
    if (frame) co_return *frame;
    const std::string_view held(buffer_.data() + begin_, end_ - begin_);
    std::memmove(buffer_.data(), held.data(), held.size());
    begin_ = 0;
    end_ = held.size();
    const auto [error, n] = co_await socket_.async_read_some(
        asio::buffer(buffer_.data() + end_, buffer_.size() - end_), kUse);
    if (error || fd_ < 0) {
      co_return fail(Code::kUnavailable, "reading from the runner: " + error.message());
    }
    end_ += n;
  }
}

Task<Result<>> RunnerChannel::write(std::string_view frames) {
  const auto [error, n] = co_await asio::async_write(socket_, asio::buffer(frames), kUse);
  if (error) co_return fail(Code::kUnavailable, "writing to the runner: " + error.message());
  co_return Result<>();
}

void RunnerChannel::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  fd_ = -1;  // the number may be another file's by now
  begin_ = end_ = 0;
}

// The socket is non-blocking: sendmsg(2) fails with EAGAIN until the buffer has room for the whole
// message.
Task<Result<>> RunnerChannel::writeWithFds(std::string_view frames, const std::vector<int>& fds) {
  while (fd_ >= 0) {
    auto sent = linux::sendMessage(fd_, frames, fds);
    if (sent || sent.error().code != Code::kUnavailable) co_return sent;
    const auto [error] =
        co_await socket_.async_wait(asio::local::stream_protocol::socket::wait_write, kUse);
    if (error) co_return fail(Code::kUnavailable, "writing to the runner: " + error.message());
  }
  co_return fail(Code::kUnavailable, "writing to the runner: it is closed");
}

Result<> checkHello(const RunnerFrame& frame) {
  wire::Reader r(frame.payload);
  const uint32_t number = r.u32();
  if (frame.type == wire::FromRunner::kHello && r.done() && number == 1) return {};
  const std::string what = model::safeText(r.bytes(), kMostSaid);
  if (frame.type == wire::FromRunner::kStartFailed && r.done()) {
    return fail(Code::kInternal, what);
  }
  return fail(Code::kInternal, "the runner broke its protocol");
}

std::optional<NotExecuted> notExecuted(std::string_view what, int error, std::string_view program) {
  constexpr int kNotFound = 127;
  constexpr int kNotExecutable = 126;
  constexpr int kErrors[] = {ENOENT, ENOTDIR, EACCES, EPERM,  ENOEXEC,      EISDIR,
                             ELOOP,  ETXTBSY, E2BIG,  EINVAL, ENAMETOOLONG, ELIBBAD};
  if (what != "execve" || std::ranges::find(kErrors, error) == std::end(kErrors))
    return std::nullopt;
  const bool missing = error == ENOENT || error == ENOTDIR;
  const bool by_name = missing && !program.contains('/');
  const std::string name = model::safeText(program, kMostSaid);
  return NotExecuted{
      missing ? kNotFound : kNotExecutable,
      base::errnoError("cloister: " + name, error).message + (by_name ? " in PATH\n" : "\n")};
}

std::optional<ExitReport> decodeExited(std::string_view payload) {
  wire::Reader r(payload);
  ExitReport report;
  report.signaled = r.u8() != 0;
  report.value = static_cast<int>(r.u32());
  report.cpu_micros = r.u64();
  report.cpu_micros += r.u64();
  report.max_rss = r.u64();
  report.reaped = r.u32();
  // A runner in a memory image may be older than this field.
  if (!r.done()) report.io = {.read = r.u64(), .written = r.u64()};
  const bool sane = report.value >= 0 && report.value <= (report.signaled ? 64 : 255);
  return r.done() && sane ? std::optional(report) : std::nullopt;
}

std::optional<Scratch> decodeScratch(std::string_view payload) {
  wire::Reader r(payload);
  Scratch scratch{r.u64(), r.u64(), r.u64(), r.u64()};
  if (!r.done()) scratch.largest_file = r.u64();
  if (!r.done()) {
    scratch.open_files = r.u32();
    scratch.file_table = r.u32();
  }
  return r.done() ? std::optional(scratch) : std::nullopt;
}

std::optional<Counts> decodeCounts(std::string_view payload) {
  wire::Reader r(payload);
  const Counts counts{r.u64(), r.u64(), r.u64()};
  return r.done() ? std::optional(counts) : std::nullopt;
}

void addFrame(std::string& out, wire::ToRunner type, uint32_t channel, std::string_view payload) {
  char header[wire::kHeaderBytes];
  wire::encodeHeader(header, static_cast<uint16_t>(type), channel,
                     static_cast<uint32_t>(payload.size()));
  out.append(header, sizeof header).append(payload);
}

std::string u32Payload(uint32_t value) {
  std::string payload(sizeof value, '\0');
  wire::Writer(payload.data(), payload.size()).u32(value);
  return payload;
}

std::string writablePayload(const model::Walls& walls) {
  wire::StringWriter w;
  w.u32(static_cast<uint32_t>(walls.writable.size()));
  for (const model::Walls::Writable& place : walls.writable) {
    w.u8(place.operations);
    w.u8(place.beneath ? 1 : 0);
    w.bytes(place.path);
  }
  return w.take();
}

std::string frameOf(wire::ToRunner type, uint32_t channel, std::string_view payload) {
  std::string frame;
  addFrame(frame, type, channel, payload);
  return frame;
}

}  // namespace cloister::runtime
