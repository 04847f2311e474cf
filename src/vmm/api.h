// SPDX-License-Identifier: Apache-2.0
// Firecracker's API (its firecracker.yaml): requests over a Unix socket, one at a time, each
// answered with 204 or with a fault.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "vmm/text.h"

namespace cloister::vmm {

// The failed operation in words: "doing what: cause".
using Fault = Text<1'024>;

class Api {
 public:
  // Connects to the server at `path`, which `server` (a pidfd) is about to open. Waits while the
  // server lives, for some seconds at most. False with the reason.
  bool connect(const char* path, int server, Fault& fault);
  // Sends a request ("PUT" or "PATCH"), and waits some seconds for the answer, which must be 204.
  // False with the reason, including the server's message.
  bool request(std::string_view method, std::string_view path, std::string_view body, Fault& fault);

 private:
  bool send(std::string_view bytes, Fault& fault);
  bool receive(Fault& fault);

  Fd socket_;
};

}  // namespace cloister::vmm
