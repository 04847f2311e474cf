// SPDX-License-Identifier: Apache-2.0
// Answers end with their credential.
#include <utility>

#include "api/http/http_connection.h"
#include "api/http/problem.h"
#include "auth/auth.h"
#include "base/log.h"

namespace cloister::api {

void Connection::answerFor(const Request& request) {
  credential_ = request.credential;
  if (credential_.id.empty() || answering_) return;
  answering_ = shared_->answering.insert(shared_->answering.end(), this);
}

void Connection::leaveAnswering() {
  if (answering_) shared_->answering.erase(*answering_);
  answering_.reset();
  lost_timer_.reset();
}

void Connection::answered() {
  leaveAnswering();
  when_closed_ = nullptr;
  lost_since_.reset();
  goes_on_ = false;
  end_conversation_ = nullptr;
}

Response Connection::refuseLost(const Request& request) {
  return problem(auth::refused().error(), request);
}

void Connection::refuseIfLost(const Request& request, Response& response) {
  goes_on_ = response.websocket || response.tunnel || response.stream;
  if (!goes_on_ || !lost_since_) return;
  response = refuseLost(request);
  goes_on_ = false;
}

void Connection::credentialLost() {
  const base::Monotonic now = base::monotonicNow();
  if (!lost_since_) {
    base::log(base::Level::kInfo, "what is answered ends with its credential",
              {{"credential", credential_.id}});
    lost_since_ = now;
    keep_alive_ = false;
  }
  // A client that revokes its own credential still receives the answer. A request still arriving
  // has begun nothing, and would begin now.
  const bool owed = !goes_on_ && parser_ && parser_->done();
  if (owed && now - *lost_since_ < HttpServer::kAnswerGrace) return endGrace(*lost_since_);
  leaveAnswering();
  if (const auto end = std::exchange(end_conversation_, nullptr)) return end();
  close();
}

// The next regular look may be much later.
void Connection::endGrace(base::Monotonic since) {
  lost_timer_.emplace(stream_.get_executor(), since + HttpServer::kAnswerGrace);
  lost_timer_->async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (!error && self && self->open_ && self->lost_since_) self->credentialLost();
  });
}

}  // namespace cloister::api
