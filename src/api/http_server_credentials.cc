// SPDX-License-Identifier: Apache-2.0
// Answers end with the credential that they are for.
#include <utility>

#include "api/http_connection.h"
#include "base/log.h"

namespace cloister::api {

void Connection::answerFor(const Request& request) {
  credential_ = request.credential;
  if (credential_.id.empty() || answering_) return;
  answering_ = shared_->answering.insert(shared_->answering.end(), this);
}

void Connection::answered() {
  if (answering_) shared_->answering.erase(*answering_);
  answering_.reset();
  lost_since_.reset();
  goes_on_ = false;
  end_conversation_ = nullptr;
}

bool Connection::mayGoOn(const Response& response) {
  goes_on_ = response.websocket || response.tunnel || response.stream;
  if (!goes_on_ || !lost_since_) return true;
  close();
  return false;
}

void Connection::credentialLost() {
  const base::Monotonic now = base::monotonicNow();
  if (!lost_since_) {
    base::log(base::Level::kInfo, "what is answered ends with its credential",
              {{"credential", credential_.id}});
    lost_since_ = now;
  }
  // Whoever revokes its own credential is answered, too.
  if (!goes_on_ && now - *lost_since_ < HttpServer::kAnswerGrace) return;
  if (const auto end = std::exchange(end_conversation_, nullptr)) return end();
  close();
}

}  // namespace cloister::api
