// SPDX-License-Identifier: Apache-2.0
// Programs that a person types to: their input passes on as it comes, and with a terminal every
// key. `run`, `exec` and `shell` share the code. Only programs of a session take input later, so an
// interactive `run` makes a session for itself.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/job.h"
#include "supervisor/signals.h"

namespace cloister::cli {

// Puts "tty", with the size of this terminal, and $TERM into a request.
void putTerminal(base::json::object& body);
// kInvalid unless stdin and stdout are a terminal; `flag` is what needs one, "" for the command.
Result<> needTerminal(std::string_view flag);

// Stays with an accepted program: passes on signals and, with `more_input`, stdin; shows the
// output.
Result<Outcome> attend(Job& job, const std::string& id, bool more_input);

// Starts the program of `job`, and attends to its end.
Result<Outcome> runHere(Job& job, bool more_input);
// Starts the program of `job`, whose body has a "tty", and runs it on this terminal to its end.
Result<Outcome> onTerminal(Job& job);

// A session made by this command, and ended with this object.
class OwnSession {
 public:
  OwnSession(net::Endpoint endpoint, std::string id)
      : endpoint_(std::move(endpoint)), id_(std::move(id)) {}
  OwnSession(const OwnSession&) = delete;
  OwnSession& operator=(const OwnSession&) = delete;
  OwnSession(OwnSession&& other) noexcept
      : endpoint_(std::move(other.endpoint_)), id_(std::exchange(other.id_, {})) {}
  OwnSession& operator=(OwnSession&&) = delete;
  ~OwnSession();
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] std::string execTarget() const;

 private:
  net::Endpoint endpoint_;
  std::string id_;
};

// A session of this command; nullopt for one that waits for an approval, which is given up.
Result<std::optional<OwnSession>> makeSession(const net::Endpoint& endpoint,
                                              const base::json::object& body, int interrupt);

}  // namespace cloister::cli
