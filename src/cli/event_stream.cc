// SPDX-License-Identifier: Apache-2.0
#include "cli/event_stream.h"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "cli/api.h"
#include "cli/render/verdict.h"
#include "supervisor/signals.h"

namespace cloister::cli {

using base::monotonicNow;

EventStream::EventStream(net::BlockingClient& client, std::string target)
    : client_(client), target_(std::move(target)) {}

Result<> EventStream::open() {
  net::HttpRequest request{.method = "GET", .target = target_, .accept = "text/event-stream"};
  if (!last_event_.empty()) request.headers["Last-Event-ID"] = last_event_;
  const net::HttpHead head = TRY(client_.open(request));
  if (head.status == 200) return {};
  std::string bytes;
  while (TRY(client_.read(bytes, kSilence)) == net::BlockingClient::Piece::kData &&
         bytes.size() < net::BlockingClient::kMaxHead) {
  }
  client_.close();
  return std::unexpected(refusal(head, bytes));
}

Result<bool> EventStream::show(const net::SseEvent& event, const Visit& visit) {
  moved_ = true;
  if (!event.id.empty()) last_event_ = event.id;
  if (event.type == "heartbeat" || event.data.empty()) return false;
  Result<bool> last = visit(event);
  refused_ = !last;
  return last;
}

Result<bool> EventStream::oneConnection(const Visit& visit, const Idle& idle) {
  TRY(open());
  net::SseParser parser;
  std::string bytes;
  auto last = monotonicNow();
  for (;;) {
    bytes.clear();
    const auto piece = TRY(client_.read(bytes, std::min(idle(), kSilence)));
    if (piece == net::BlockingClient::Piece::kEnd) return false;
    if (piece == net::BlockingClient::Piece::kData) last = monotonicNow();
    if (monotonicNow() - last > kSilence) return false;
    for (const net::SseEvent& event : TRY(parser.feed(bytes))) {
      if (TRY(show(event, visit))) return true;
    }
  }
}

Result<> EventStream::read(const Visit& visit, const Idle& idle) {
  constexpr Millis kPatience{60'000};
  constexpr Millis kPause{100};
  auto last = monotonicNow();
  for (;;) {
    moved_ = false;
    const auto ended = oneConnection(visit, idle);
    if (ended && *ended) break;
    if (moved_) last = monotonicNow();
    const bool lasting = !ended && (refused_ || ended.error().code != Code::kUnavailable);
    if (lasting || client_.interrupted()) {
      return std::unexpected(ended ? Error{} : ended.error());
    }
    if (monotonicNow() - last > kPatience) {
      if (!ended) return std::unexpected(ended.error());
      return fail(Code::kUnavailable, "following " + target_ + ": the server sends nothing");
    }
    client_.close();
    std::this_thread::sleep_for(kPause);
  }
  // The server may hold the stream open; later requests then need a new connection.
  std::string rest;
  const auto piece = client_.read(rest, Millis(0));
  if (!piece || *piece != net::BlockingClient::Piece::kEnd) client_.close();
  return {};
}

Result<int> readStream(const Globals& globals, const std::string& target,
                       const EventStream::Visit& visit) {
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  net::BlockingClient client = TRY(connect(globals, signals.fd()));
  const auto read = EventStream(client, target).read(visit);
  if (read) return 0;
  if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
  return std::unexpected(read.error());
}

}  // namespace cloister::cli
