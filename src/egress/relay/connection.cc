// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/connection.h"

#include <sys/socket.h>

#include <exception>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Monotonic;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kAtOnce = 16;  // operations, before other connections have a turn

Ruling rulingOf(const Verdict& verdict) {
  Ruling ruling;
  ruling.allowed = verdict.allowed && verdict.rule != nullptr;
  ruling.reason = verdict.reason;
  ruling.remedy = verdict.remedy;
  if (verdict.rule != nullptr) {
    ruling.protocol = verdict.rule->entry.protocol;
    ruling.anyone = verdict.rule->anyone;
    ruling.internal = verdict.rule->internal;
    ruling.rule = verdict.rule->rule;
  }
  return ruling;
}

void abort(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

Attempt Standing::attempt() const {
  Attempt attempt{.host = host,
                  .port = port,
                  .protocol = protocol,
                  .field_methods = field_methods,
                  .field_paths = field_paths};
  if (method) attempt.method = *method;
  if (path) attempt.path = *path;
  return attempt;
}

Connection::Connection(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
                       const RelayLimits& limits)
    : inside_(std::move(inside)),
      outside_(inside_.socket.get_executor()),
      guard_(std::move(guard)),
      dialler_(dialler),
      limits_(limits),
      timer_(inside_.socket.get_executor()) {
  boost::system::error_code ignored;
  inside_.socket.non_blocking(true, ignored);
  inside_.socket.set_option(tcp::no_delay(true), ignored);
}

void Connection::redirect(std::string name, uint16_t port) {
  inside_.name = std::move(name);
  inside_.port = port;
}

// Whether TLS has to be read. A connection whose protocol is not yet known counts as what the rule
// wants.
bool Connection::mustRead(const Standing& standing, const Verdict& verdict) const {
  if (verdict.rule == nullptr) return false;
  if (verdict.rule->entry.inspect) return true;
  if (standing.protocol.value_or(verdict.rule->entry.protocol) != model::Protocol::kTls) {
    return false;
  }
  const auto secrets = guard_->broker();
  return secrets && secrets->binds(standing.host, standing.port);
}

// Judges, and waits for an approver if the plan says so. Records a refusal.
Task<Ruling> Connection::ask(Standing& standing) {
  const Attempt attempt = standing.attempt();
  Verdict verdict = guard_->judge(attempt);
  if (!verdict.allowed && verdict.on_denied != model::OnDenied::kDeny) {
    co_await guard_->findProgram(attempt, verdict);
  }
  if (!verdict.allowed && verdict.on_denied == model::OnDenied::kAsk) {
    deadline_ = Monotonic::max();  // the guard bounds the wait
    verdict = co_await guard_->hold(attempt, std::move(verdict));
    expireIn(limits_.idle);
  }
  Ruling ruling = rulingOf(verdict);
  if (ruling.allowed && (guard_->cut() || over_)) {
    ruling.allowed = false;
    co_return ruling;
  }
  if (!ruling.allowed) {
    guard_->refused(attempt, verdict);
    co_return ruling;
  }
  ruling.inspect = mustRead(standing, verdict);
  if (ruling.inspect && ruling.protocol != model::Protocol::kTls) {
    co_return refuse(standing,
                     "The rule " + ruling.rule + " asks to inspect TLS, and is for " +
                         std::string(model::protocolName(ruling.protocol)) + ".",
                     "Ask the operator for an entry with the protocol tls.");
  }
  co_return ruling;
}

Task<Ruling> Connection::admit(Standing standing) {
  standing_.reset();
  Ruling ruling = co_await ask(standing);
  if (ruling.allowed) standing_ = std::move(standing);
  co_return ruling;
}

Task<Ruling> Connection::admitBeside(Standing standing) {
  co_return co_await ask(standing);
}

bool Connection::stillAllowed(const Standing& standing) {
  const Attempt attempt = standing.attempt();
  const Verdict verdict = guard_->judge(attempt);
  if (!verdict.allowed) guard_->refused(attempt, verdict);
  return verdict.allowed;
}

bool Connection::takeRequest(const Standing& standing, Ruling& refusal) {
  if (guard_->takeRequest()) return true;
  refusal = refuse(standing, "The agent's network requests per minute are used up.",
                   "Send fewer requests, or ask for a higher max_network_requests_per_minute.");
  return false;
}

Ruling Connection::refuse(const Standing& standing, std::string reason, std::string remedy) {
  return refuse(standing, {.reason = std::move(reason), .remedy = std::move(remedy)});
}

Ruling Connection::refuse(const Standing& standing, Refusal refusal) {
  const Attempt attempt = standing.attempt();
  const Verdict by_plan = guard_->judge(attempt);
  model::PlanRule own;
  own.rule = refusal.rule;
  Verdict verdict{.allowed = false,
                  .rule = refusal.rule.empty() ? by_plan.rule : &own,
                  .reason = std::move(refusal.reason),
                  .remedy = std::move(refusal.remedy)};
  guard_->refused(attempt, verdict);
  return rulingOf(verdict);
}

void Connection::note(const Standing& standing, RequestRules& rules) {
  for (const auto& [rule, count] : rules.news()) {
    if (rule->action != redact::RuleAction::kRefuse)
      guard_->found(standing.attempt(), dlpRuleName(*rule), count);
  }
}

Ruling Connection::refuse(const Standing& standing, const redact::Rule& rule) {
  const std::string name = dlpRuleName(rule);
  return refuse(standing,
                {.reason = dlpReason(rule), .remedy = std::string(kDlpRemedy), .rule = name});
}

Task<Result<>> Connection::dial(const Standing& standing, const Ruling& ruling) {
  if (std::string over = guard_->overBounds(); !over.empty()) {
    refuse(standing, over, "Open fewer connections, or try again later.");
    co_return fail(Code::kQuota, std::move(over));
  }
  expireIn(limits_.idle);
  Target target{.name = standing.host,
                .port = standing.port,
                .internal = ruling.internal,
                .networks = {},
                .wanted = [this] { return !over_ && !guard_->cut(); },
                .look_ups = guard_->lookUps()};
  if (ruling.internal) target.networks = guard_->internalNetworks();
  auto dialled = co_await dialler_.dial(std::move(target));
  if (over_) co_return fail(Code::kConflict, "the connection is over");
  if (!dialled) {
    if (dialled.error().code == Code::kDenied) {
      refuse(standing, dialled.error().message + ".",
             "Only names with public addresses can be reached; an operator lists the networks of "
             "the tier internal in egress.internal.");
    }
    co_return std::unexpected(std::move(dialled).error());
  }
  boost::system::error_code ignored;
  outside_.close(ignored);
  outside_ = std::move(dialled->socket);
  broken_ = std::move(dialled->broken);
  outside_.non_blocking(true, ignored);
  guard_->dialled(dialled->address);
  if (!dialled->early.empty()) {
    if (ruling.inspect) co_return fail(Code::kUnavailable, "the peer speaks before the client");
    if (!moved(dialled->early.size(), 0) || co_await write(inside(), dialled->early)) {
      co_return fail(Code::kConflict, "the connection is over");
    }
  }
  co_return Result<>{};
}

Task<std::pair<Connection::Error, size_t>> Connection::read(Socket& from, std::string& into,
                                                            size_t most) {
  if (Tls* tls = tlsOf(from)) co_return co_await readTls(from, *tls, into, most);
  const size_t have = into.size();
  for (;;) {
    if (over_) co_return std::pair(Error(asio::error::operation_aborted), size_t{0});
    auto [error] = co_await from.async_wait(Socket::wait_read, kAwait);
    if (error) co_return std::pair(error, size_t{0});
    into.resize(have + most);
    const size_t count = from.read_some(asio::buffer(into.data() + have, most), error);
    into.resize(have + count);
    if (error == asio::error::would_block || error == asio::error::interrupted) continue;
    if (error == asio::error::eof) {
      error = brokeOff(from) ? Error(asio::error::connection_reset) : Error();
    }
    co_return std::pair(error, count);
  }
}

Task<Connection::Error> Connection::write(Socket& to, std::string_view bytes) {
  if (Tls* tls = tlsOf(to)) co_return co_await writeTls(to, *tls, bytes);
  while (!bytes.empty()) {
    if (over_) co_return asio::error::operation_aborted;
    Error error;
    const size_t count = to.write_some(asio::buffer(bytes), error);
    bytes.remove_prefix(count);
    if (error == asio::error::would_block) {
      std::tie(error) = co_await to.async_wait(Socket::wait_write, kAwait);
    } else if (++at_once_ % kAtOnce == 0) {
      co_await asio::post(to.get_executor(), asio::use_awaitable);
    }
    if (error && error != asio::error::interrupted) co_return error;
  }
  co_return Error();
}

bool Connection::brokeOff(const Socket& from) const {
  return &from == &outside_ && broken_ && *broken_;
}

bool Connection::moved(uint64_t in, uint64_t out) {
  deadline_ = base::monotonicNow() + limits_.idle;
  if (!over_ && guard_->count(in, out)) return true;
  reset();
  return false;
}

bool Connection::moved(const Standing& standing, uint64_t in, uint64_t out) {
  if (!over_) std::ignore = guard_->judge(standing.attempt());  // whose rule counts
  return moved(in, out);
}

void Connection::expireIn(Millis time) {
  deadline_ = base::monotonicNow() + time;
  if (deadline_ < armed_) arm(deadline_);
}

// The timer fires no later than the deadline; a deadline that was postponed costs no system call.
void Connection::arm(Monotonic at) {
  armed_ = at;
  timer_.expires_at(at);
  timer_.async_wait([weak = weak_from_this()](Error error) {
    const auto self = weak.lock();
    if (error || !self || self->over_) return;
    self->armed_ = Monotonic::max();
    if (base::monotonicNow() >= self->deadline_) {
      self->reset();
    } else if (self->deadline_ != Monotonic::max()) {
      self->arm(self->deadline_);
    }
  });
}

void Connection::reset() {
  if (std::exchange(over_, true)) return;
  timer_.cancel();
  abort(inside_.socket);
  abort(outside_);
}

void Connection::close() {
  if (std::exchange(over_, true)) return;
  timer_.cancel();
  Error ignored;
  if (inside_tls_) inside_tls_->sayEnd();
  if (outside_tls_) outside_tls_->sayEnd();
  inside_.socket.close(ignored);
  outside_.close(ignored);
}

Task<void> Connection::watch() {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  while (cancellation.cancelled() == asio::cancellation_type::none) {
    if (!over_ && guard_->cut()) reset();
    if (!over_ && standing_) {
      const Attempt attempt = standing_->attempt();
      const Verdict verdict = guard_->judge(attempt);
      if (!verdict.allowed) {
        guard_->refused(attempt, verdict);
        reset();
      } else if (unread_ && mustRead(*standing_, verdict)) {
        refuse(*standing_, "The rule wants to inspect TLS by now, and this connection is older.",
               "Connect again.");
        reset();
      }
    }
    co_await guard_->changed().wait();
  }
}

Task<void> watched(std::shared_ptr<Connection> connection, Task<void> protocol) {
  const auto executor = co_await asio::this_coro::executor;
  // The protocol ends first: a cut makes it end by the closed sockets.
  const auto [order, failed, watch_failed] =
      co_await asio::experimental::make_parallel_group(
          asio::co_spawn(executor, std::move(protocol), asio::deferred),
          asio::co_spawn(executor, connection->watch(), asio::deferred))
          .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  connection->close();
  if (failed) std::rethrow_exception(failed);
  if (watch_failed) std::rethrow_exception(watch_failed);
}

}  // namespace cloister::egress
