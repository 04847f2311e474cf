// SPDX-License-Identifier: Apache-2.0
// Shared by the routes of OpenSandbox's interface: the services, the interpreters of clients, and
// the way to a sandbox. On the io thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/compat/compat.h"
#include "api/compat/opensandbox/exec_events.h"
#include "api/compat/opensandbox/isolated.h"
#include "api/http/router.h"
#include "api/rest/rest.h"
#include "model/session.h"

namespace cloister::api::compat::opensandbox {

// Ports of a sandbox behind which its own services answer, and not its programs.
inline constexpr uint16_t kExecdPort = 44'772;
inline constexpr uint16_t kEgressPort = 18'080;

// An interpreter that a client made in its sandbox: a context of code, or a shell that keeps its
// state ("session").
struct Interpreter {
  std::string id;        // also the name of its kernel (sessions/kernel.h)
  std::string language;  // a language's own name
  bool shell = false;
  std::string cwd = {};      // where a shell begins; "" for the sandbox's
  bool begun = false;        // its first code was sent
  std::string current = {};  // the last execution in it
};

// By sandbox. In memory: no sandbox outlives the service.
class Interpreters {
 public:
  static constexpr size_t kMostPerSandbox = 64;

  // Forgets the sandboxes that `lives` denies.
  void sweep(const std::function<bool(const std::string&)>& lives);
  // kQuota beyond kMostPerSandbox. An `id` that is there already is found again.
  Result<Interpreter*> make(const std::string& sandbox, Interpreter fresh);
  // Valid until the next change; nullptr for none.
  Interpreter* find(const std::string& sandbox, std::string_view id, bool shell);
  [[nodiscard]] std::vector<Interpreter> list(const std::string& sandbox) const;
  void drop(const std::string& sandbox, const std::string& id);

 private:
  std::map<std::string, std::map<std::string, Interpreter, std::less<>>> by_sandbox_;
};

struct Desk {
  explicit Desk(RestParts& with) : parts(with) {}

  RestParts& parts;
  Interpreters interpreters;
  IsolatedSessions isolated;
  std::deque<std::string> patterns;  // of routes, for as long as these
};

// The live sandbox of the request's path. kNotFound for an unknown one, another tenant's or
// agent's, and one that has ended.
Result<model::Session> liveSandbox(Desk& desk, const Request& request);
// The same for a request to its services: a sandbox with access.renew.extend.seconds lives longer
// by it; a paused one is kConflict.
Task<Result<model::Session>> reach(Desk& desk, Request& request);

// Starts a program, with the members of POST /v1/sessions/{id}/exec, and returns at once.
Task<Result<model::Execution>> start(Desk& desk, Request& request, model::Session sandbox,
                                     base::json::object body);
// The events of an execution as the answer. When the client goes away, the program ends, unless it
// is to stay.
enum class Gone : uint8_t { kEnds, kStays };
Response eventStream(Desk& desk, Request& request, const model::Execution& execution,
                     Opening opening, Program program, Gone gone);

// The execution, if it is one of this sandbox; kNotFound otherwise.
Result<model::Execution> executionIn(Desk& desk, const Request& request,
                                     const model::Session& sandbox, const std::string& id);

Response empty(int status);  // with Content-Length: 0

// The request's body, which must be an object; kInvalid otherwise.
Result<base::json::object> bodyObject(Desk& desk, Request& request);

// All values of a parameter that may be repeated.
std::vector<std::string> queryTexts(const Request& request, std::string_view name);

using Handler = Task<Result<Response>> (*)(Desk&, Request&);
// `text` as one word of a shell.
std::string shellWord(std::string_view text);

// A route's `handle`.
std::function<Task<Result<Response>>(Request&)> with(const std::shared_ptr<Desk>& desk,
                                                     Handler handler);

// By part of the interface.
using DeskPtr = std::shared_ptr<Desk>;
std::vector<Route> createRoutes(const DeskPtr& desk);
std::vector<Route> lifecycleRoutes(const DeskPtr& desk);
std::vector<Route> snapshotRoutes(const DeskPtr& desk);
std::vector<Route> endpointRoutes(const DeskPtr& desk);
std::vector<Route> commandRoutes(const DeskPtr& desk);
std::vector<Route> codeRoutes(const DeskPtr& desk);
std::vector<Route> fileRoutes(const DeskPtr& desk);
std::vector<Route> transferRoutes(const DeskPtr& desk);
std::vector<Route> directoryRoutes(const DeskPtr& desk);
std::vector<Route> metricRoutes(const DeskPtr& desk);
std::vector<Route> egressRoutes(const DeskPtr& desk);
std::vector<Route> isolatedRoutes(const DeskPtr& desk);
std::vector<Route> operationRoutes(const DeskPtr& desk);
// The paths of a sandbox's services that nothing else serves: a clear refusal.
std::vector<Route> otherRoutes(const DeskPtr& desk);

}  // namespace cloister::api::compat::opensandbox
