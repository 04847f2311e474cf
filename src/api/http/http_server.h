// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 and WebSocket over TCP and Unix sockets, for clients that may be hostile.
//
// One coroutine a connection, all on one executor. Every wait has a deadline and every buffer a
// bound (HttpLimits). When all connections are taken, the one that has waited longest without a
// complete request makes room, so that clients that only hold connections open cannot keep others
// out. The listeners back off when the process is out of descriptors.
//
//   bytes → RequestParser → checkOrigin → handler.admit (route, credential) → body → handler.handle
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "api/http/http.h"
#include "api/http/tls.h"
#include "api/http/web_names.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::api {

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Sees the head alone. An answer refuses the request before its body is read.
  virtual Task<std::optional<Response>> admit(Request& request) = 0;
  virtual Task<Response> handle(Request& request) = 0;
  // The last change to an answer before it is sent, refusals included.
  virtual void finish(const Request& /*request*/, Response& /*response*/) {}
  // After each answer, refusals included.
  virtual void answered(const Request& request, int status, double seconds) = 0;
  virtual void connections(size_t open) = 0;
  // Whether answers to `credential` may go on; see HttpServer::lookAtCredentials().
  virtual bool stands(const auth::Credential& credential) = 0;
  // Called after each look at the connections' credentials, for work without a connection.
  virtual void looked() {}
};

// Whether the target is /v1/sessions/{id}/ports/{port}~{token}/…, with the token as its only
// credential, or a port named by Host.
bool isPortLink(const Request& request);

// Refuses requests that a browser was tricked into sending: a foreign Origin anywhere, and on a
// local listener a Host that is neither a name of this machine's loopback (DNS rebinding) nor in
// `names`. Pages of listed origins may use the service.
std::optional<Response> checkOrigin(const Request& request, const WebNames& names);

// Finds out by which name the request came (Request::at_port). Answers a request that checkOrigin()
// refuses, and preflights of listed origins. Drops cookies of pages of listed origins.
std::optional<Response> lookAtNames(Request& request, const WebNames& names);

// The answer, which pages of listed origins may read (allowToRead()).
Response readableTo(const Request& request, const WebNames& names, Response response);

class HttpServer {
 public:
  // `tls`: for TCP listeners; null: plain HTTP. Unix sockets always speak plain HTTP.
  HttpServer(boost::asio::any_io_executor executor, HttpLimits limits, WebNames names,
             std::unique_ptr<ServerTls> tls = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "host:port" (an IP address or localhost; port 0: any free port) or "unix:/path". Gives the
  // bound address, in the same form. With a `mount`, the listener serves the paths below /<mount>
  // alone, at its root (Request::mount).
  Result<std::string> listen(const std::string& address, const std::string& mount = "");
  // Takes a listening stream socket from the parent process (sd_listen_fds(3)).
  Result<std::string> adopt(Fd listener);

  // Whether only this machine can connect: loopback addresses and Unix sockets.
  [[nodiscard]] bool allLocal() const;

  // The expiry of the certificate, in seconds since the epoch; nothing without a certificate.
  [[nodiscard]] std::optional<int64_t> certificateExpires() const;

  // Credentials changed. Streams, WebSockets and tunnels of a credential that no longer stands end
  // at once, and so do requests that have not arrived as a whole. Other answers have kAnswerGrace
  // to be sent. The server itself looks every kCredentialLook, to find expired credentials; also
  // after stop(), while a connection is open.
  void lookAtCredentials();
  static constexpr Millis kCredentialLook{400};
  static constexpr Millis kAnswerGrace{250};

  // Begins to accept on all listeners. `handler` outlives the server.
  void start(HttpHandler& handler);
  // Stops accepting, closes idle connections, and waits at most `grace` for the answers under way.
  // A caller may call again, to wait longer.
  Task<void> stop(Millis grace);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::api
