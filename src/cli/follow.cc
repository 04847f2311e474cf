// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/crypto.h"
#include "cli/api.h"
#include "model/execution.h"

namespace cloister::cli {

using base::monotonicNow;

Follower::Follower(HttpClient& client, std::string id, FollowOptions options)
    : client_(client),
      id_(std::move(id)),
      options_(options),
      out_{STDOUT_FILENO, !options.raw && isTerminal(STDOUT_FILENO)},
      err_{STDERR_FILENO, !options.raw && isTerminal(STDERR_FILENO)},
      progress_(options.progress) {}

Result<> Follower::output(Output& to, const json::object& data) {
  std::string bytes = TRY(base::fromBase64(textOf(data, "data")));
  const auto offset = static_cast<uint64_t>(std::max<int64_t>(0, integerOf(data, "offset")));
  const uint64_t end = offset + bytes.size();
  if (end <= to.offset) return {};  // seen before the connection broke
  if (offset < to.offset) bytes.erase(0, to.offset - offset);
  to.offset = end;
  if (!options_.print) return {};
  progress_.stop();
  if (!writeTo(to.fd, to.filtered ? to.filter(bytes) : bytes)) {
    reader_gone_ = true;
    return fail(Code::kUnavailable, "writing the output: nobody reads it");
  }
  return {};
}

Result<bool> Follower::handle(const SseEvent& event) {
  moved_ = true;
  if (!event.id.empty()) last_event_ = event.id;
  if (event.type == "heartbeat" || event.data.empty()) return false;
  json::object data = TRY(parseObject(event.data));
  if (event.type == "stdout") TRY(output(out_, data));
  if (event.type == "stderr") TRY(output(err_, data));
  if (event.type != "status") return false;
  execution_ = std::move(data);
  const auto status = model::statusFromName(textOf(execution_, "status"));
  return status && model::isTerminal(*status);
}

Result<bool> Follower::oneConnection() {
  constexpr Millis kTick{100};
  constexpr Millis kSilence{60'000};  // heartbeats come far more often
  HttpRequest request{.method = "GET",
                      .target = "/v1/executions/" + percentEncode(id_) + "/events",
                      .accept = "text/event-stream"};
  if (!last_event_.empty()) request.headers["Last-Event-ID"] = last_event_;
  const HttpHead head = TRY(client_.open(request));
  std::string bytes;
  if (head.status != 200) {
    while (TRY(client_.read(bytes, kSilence)) == HttpClient::Piece::kData &&
           bytes.size() < HttpClient::kMaxHead) {
    }
    client_.close();
    return std::unexpected(refusal(head, bytes));
  }
  SseParser parser;
  auto last = monotonicNow();
  for (;;) {
    bytes.clear();
    const auto piece = TRY(client_.read(bytes, progress_.active() ? kTick : kSilence));
    if (piece == HttpClient::Piece::kEnd) return false;
    if (piece == HttpClient::Piece::kData) last = monotonicNow();
    if (monotonicNow() - last > kSilence) return false;
    for (const SseEvent& event : TRY(parser.feed(bytes))) {
      if (TRY(handle(event))) return true;
    }
    const std::string status = textOf(execution_, "status");
    progress_.tick(status.empty() || status == "running" ? "running" : printable(status));
  }
}

Result<json::object> Follower::toEnd() {
  constexpr Millis kPatience{60'000};
  constexpr Millis kPause{100};
  auto last = monotonicNow();
  for (;;) {
    moved_ = false;
    const auto ended = oneConnection();
    if (ended && *ended) break;
    if (moved_) last = monotonicNow();
    const bool lasting = !ended && ended.error().code != Code::kUnavailable;
    if (lasting || client_.interrupted() || reader_gone_) {
      return std::unexpected(ended ? Error{} : ended.error());
    }
    if (monotonicNow() - last > kPatience) {
      if (!ended) return std::unexpected(ended.error());
      return fail(Code::kUnavailable, "following " + id_ + ": the server sends nothing");
    }
    client_.close();
    std::this_thread::sleep_for(kPause);
  }
  progress_.stop();
  // The server may hold the stream open; what follows uses a connection of its own then.
  std::string rest;
  const auto piece = client_.read(rest, Millis(0));
  if (!piece || *piece != HttpClient::Piece::kEnd) client_.close();
  return std::move(execution_);
}

}  // namespace cloister::cli
