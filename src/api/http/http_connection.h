// SPDX-License-Identifier: Apache-2.0
// A connection of HttpServer; internal to http_server*.cc.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "api/http/http.h"
#include "api/http/http_server.h"
#include "api/http/request_parser.h"
#include "api/http/stream.h"
#include "api/http/tls.h"
#include "api/http/web_names.h"

namespace cloister::api {

class Connection;

// The state shared by the connections of a server. Each connection holds the state, which so
// outlives them.
struct Shared {
  HttpLimits limits;
  WebNames names;
  HttpHandler* handler = nullptr;
  std::list<Connection*> waiting;         // no complete head yet; the longest first
  std::list<Connection*> answering;       // to a credential
  size_t open = 0;                        // sockets
  orchestrator::FairShare bodies{{}, 0};  // bytes of bodies held
  // Bytes of large answers on their way, by tenant.
  std::map<std::string, size_t> answers;
  bool stopping = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The listener of the connection.
  struct Origin {
    std::string mount;  // see HttpServer::listen()
    bool local = false;
  };
  // Speaks TLS where `tls` is there.
  Connection(std::shared_ptr<Shared> shared, Socket socket, Origin origin,
             std::shared_ptr<boost::asio::ssl::context> tls);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Serves requests until client or server ends the connection.
  Task<void> run();
  // Closes at once, in any state; run() ends soon after.
  void close();
  // The credential of the present answer, while the connection is in Shared::answering.
  [[nodiscard]] const auth::Credential& credential() const { return credential_; }
  // The credential no longer stands. Streams and unfinished requests end at once, other answers
  // after HttpServer::kAnswerGrace. No other request is answered.
  void credentialLost();

 private:
  class Body;
  class IncomingBody;
  class OpenTunnel;

  Task<bool> shakeHands();  // false: the connection is over
  Task<bool> readHead();    // false: the connection is over
  Task<Response> answer(Request& request);
  Task<std::optional<Response>> readBody(const std::string& tenant);
  Task<std::optional<ParseFailure>> receive();
  Task<bool> fill(size_t size);
  Task<bool> more();
  Task<bool> respond(const Request& request, Response response);
  Task<Response> callHandler(Request& request);
  Task<bool> sendStream(const Request& request, Response& response, std::string head);
  Task<void> upgrade(const Request& request, Response& response);
  Task<void> tunnel(const Request& request, Response& response);
  Task<bool> write(std::string_view bytes);
  Task<void> refuseHead(ParseFailure failure);
  Task<void> linger();

  bool holdBody(const std::string& tenant);  // false: too much is held already
  [[nodiscard]] bool mayHoldAnswer(size_t bytes) const;
  std::shared_ptr<void> holdAnswer(size_t bytes);
  void releaseBody();
  void wait();  // joins Shared::waiting
  void unwait();
  void answerFor(const Request& request);  // joins Shared::answering
  void leaveAnswering();
  void answered();
  void endGrace(base::Monotonic since);
  [[nodiscard]] static Response refuseLost(const Request& request);
  // An answer that would go on, such as a stream, does not begin after its credential is lost.
  void refuseIfLost(const Request& request, Response& response);
  void expireIn(Millis time);
  void watchPeer();
  void watchAgain();
  void stopReading();

  std::shared_ptr<Shared> shared_;
  Stream stream_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer watch_timer_;
  Origin origin_;
  std::optional<base::Address> peer_;
  std::shared_ptr<const auth::ClientCertificate> certificate_;
  bool open_ = true;
  bool keep_alive_ = true;
  bool watching_ = false;
  bool stopped_ = false;  // nothing more is read
  bool ended_ = false;    // the peer has sent its last
  std::function<void()> when_closed_;
  std::optional<std::list<Connection*>::iterator> waiting_;
  std::optional<std::list<Connection*>::iterator> answering_;
  auth::Credential credential_;
  std::optional<base::Monotonic> lost_since_;  // `credential_` no longer stands
  std::optional<boost::asio::steady_timer> lost_timer_;
  bool goes_on_ = false;                    // the answer is a stream, a WebSocket or a tunnel
  std::function<void()> end_conversation_;  // set after an upgrade to a WebSocket
  size_t held_ = 0;
  std::string held_for_;  // the tenant
  std::string tenant_;    // whose request is answered
  // The rest concerns the body of the present request.
  size_t received_ = 0;
  base::Monotonic::duration waited_{};  // for the client's bytes
  bool continued_ = false;              // 100 Continue is sent
  std::optional<ParseFailure> broken_;  // the error that ended reading
  std::string buffer_;                  // received and not yet used
  std::unique_ptr<RequestParser> parser_;
};

// Speaks WebSocket (RFC 6455) on `stream` until `response` ends. `request` asked for the upgrade.
// The function sets `end`, which ends the conversation early: with the status code 1008, and
// without a farewell if the client does not answer.
Task<void> serveWebSocket(Stream stream, const Request& request, const HttpLimits& limits,
                          const Response& response, std::function<void()>& end);

}  // namespace cloister::api
