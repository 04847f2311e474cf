// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "cli/api.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

constexpr Millis kSilence{60'000};
constexpr Millis kQuiet{500};  // before a meter is worth showing
constexpr Millis kBetween{100};

// The rest of a small answer.
Result<std::string> readAll(net::BlockingClient& client) {
  std::string body;
  for (;;) {
    switch (TRY(client.read(body, kSilence))) {
      case net::BlockingClient::Piece::kEnd:
        return body;
      case net::BlockingClient::Piece::kTimeout:
        return fail(Code::kUnavailable, "reading the answer: the server is silent");
      case net::BlockingClient::Piece::kData:
        if (body.size() > net::BlockingClient::kMaxBody) {
          return fail(Code::kUnavailable, "reading the answer: it is too large");
        }
    }
  }
}

}  // namespace

Result<Source> openSource(const std::string& path) {
  Source source;
  source.file.reset(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!source.file || ::fstat(source.file.get(), &status) != 0) return failErrno("opening " + path);
  if (S_ISDIR(status.st_mode)) return fail(Code::kInvalid, "uploading " + path + ": a directory");
  // Standard input may be in the middle of a file.
  if (S_ISREG(status.st_mode) && path != "-") {
    source.size = static_cast<uint64_t>(status.st_size);
    source.mode = status.st_mode & 0777;
  }
  return source;
}

Result<std::string> nextPiece(Source& source) {
  constexpr size_t kPiece = 65'536;
  std::string piece(source.size ? std::min<uint64_t>(kPiece, *source.size) : kPiece, '\0');
  ssize_t n = -1;
  do {
    n = ::read(source.file.get(), piece.data(), piece.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return failErrno("reading the file");
  piece.resize(static_cast<size_t>(n));
  if (source.size && *source.size > 0 && n == 0) {
    return fail(Code::kInvalid, "reading the file: it became shorter");
  }
  if (source.size) *source.size -= piece.size();
  return piece;
}

Result<json::object> upload(net::BlockingClient& client, std::string_view method,
                            const std::string& target, std::function<Result<std::string>()> source,
                            std::optional<uint64_t> length) {
  const net::HttpHead head = TRY(client.open({.method = method,
                                              .target = target,
                                              .source = net::sourceOf(std::move(source)),
                                              .length = length}));
  const std::string body = TRY(readAll(client));
  if (head.status >= 300) return std::unexpected(refusal(head, body));
  if (body.empty()) return json::object{};
  return parseObject(body);
}

Result<> download(net::BlockingClient& client, const std::string& target, const std::string& what,
                  const Take& take) {
  const net::HttpHead head =
      TRY(client.open({.method = "GET", .target = target, .accept = "*/*"}, kSilence));
  if (head.status != 200) return std::unexpected(refusal(head, TRY(readAll(client))));
  std::string piece;
  for (;;) {
    piece.clear();
    const auto got = TRY(client.read(piece, kSilence));
    if (got == net::BlockingClient::Piece::kTimeout) {
      return fail(Code::kUnavailable, "downloading " + printable(what) + ": the server is silent");
    }
    if (got == net::BlockingClient::Piece::kEnd) return {};
    TRY(take(piece));
  }
}

Meter::Meter(bool wanted, std::optional<uint64_t> total)
    : active_(wanted && isTerminal(STDERR_FILENO)), total_(total), next_(start_ + kQuiet) {}

Meter::~Meter() {
  clear();
}

void Meter::add(size_t bytes) {
  bytes_ += bytes;
  const auto now = base::monotonicNow();
  if (!active_ || now < next_) return;
  next_ = now + kBetween;
  const auto elapsed = std::chrono::duration_cast<Millis>(now - start_);
  writeTo(STDERR_FILENO, "\r\x1b[K" + meterLine(bytes_, total_, elapsed));
  shown_ = true;
}

void Meter::clear() {
  if (std::exchange(shown_, false)) writeTo(STDERR_FILENO, "\r\x1b[K");
}

std::string meterLine(uint64_t bytes, std::optional<uint64_t> total, Millis elapsed) {
  constexpr size_t kWidth = 30;
  const double seconds = std::max<double>(static_cast<double>(elapsed.count()), 1) / 1000;
  const auto rate = static_cast<uint64_t>(static_cast<double>(bytes) / seconds);
  const std::string tail = ", " + humanBytes(rate) + "/s";
  if (!total) return humanBytes(bytes) + tail;
  const double part =
      *total == 0 ? 1 : std::min(static_cast<double>(bytes) / static_cast<double>(*total), 1.0);
  const auto filled = static_cast<size_t>(part * kWidth);
  char percent[16];
  std::snprintf(percent, sizeof percent, "] %3.0f%%  ", std::min(part * 100, 100.0));
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + percent +
         humanBytes(bytes) + " of " + humanBytes(*total) + tail;
}

}  // namespace cloister::cli
