// SPDX-License-Identifier: Apache-2.0
// Choosing the server of a command: the server at --url or CLOISTER_URL, the server of this
// account's state directory, or a private server for the duration of the command.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/flags.h"
#include "base/result.h"
#include "net/blocking_client.h"

namespace cloister::cli {

// Flags of every command.
struct Globals {
  bool json = false;   // structured answers: JSON, or YAML (render/screen.h)
  bool quiet = false;  // only ids or names
  std::optional<std::string> url = {};
  std::optional<std::string> key_file = {};
  std::optional<std::string> state = {};
};

// True if --json or --output asks for a structured answer.
bool isStructured(const base::Flags& flags);

// nullopt when nobody named a server and none runs here. The key is $CLOISTER_API_KEY or the one in
// --key-file; the state directory's own key is sent to no address but its own server's.
Result<std::optional<net::Endpoint>> findServer(const Globals& globals);

// As findServer(), but without a server an error with advice.
Result<net::Endpoint> needServer(const Globals& globals);
// A client of the server; `interrupt` as for net::BlockingClient.
Result<net::BlockingClient> connect(const Globals& globals, int interrupt = -1);

// `cloister serve --private` as our child. The child watches a pipe from this process. Without this
// object or this process the child ends and removes its directory.
class PrivateServer {
 public:
  static Result<PrivateServer> launch(int interrupt);
  PrivateServer(const PrivateServer&) = delete;
  PrivateServer& operator=(const PrivateServer&) = delete;
  PrivateServer(PrivateServer&&) noexcept = default;
  PrivateServer& operator=(PrivateServer&&) = delete;
  ~PrivateServer();
  [[nodiscard]] const net::Endpoint& endpoint() const { return endpoint_; }

 private:
  PrivateServer() = default;
  Result<> launchIn(int interrupt);
  [[nodiscard]] std::string lastWords() const;

  struct Process {  // moves like a pointer
    pid_t pid = 0;
    Process() = default;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    Process(Process&& other) noexcept : pid(std::exchange(other.pid, 0)) {}
    Process& operator=(Process&&) = delete;
    ~Process() = default;
  };
  Process process_;
  std::string dir_;
  Fd lifeline_;
  Fd log_;
  net::Endpoint endpoint_;
};

// A server of either kind.
struct Service {
  net::Endpoint endpoint;
  std::optional<PrivateServer> own;
};
Result<Service> anyServer(const Globals& globals, int interrupt);

}  // namespace cloister::cli
