// SPDX-License-Identifier: Apache-2.0
// Session: a sandbox that outlives one execution, from its creation to its one end; and the
// requests to a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "model/terminal_size.h"

namespace cloister::model {

enum class SessionStatus : uint8_t {
  kCreating,  // accepted, waiting for its sandbox
  kRunning,
  kEnded,
  kBlocked,  // accepted, waiting for an approval, and then for its sandbox
  kPaused,   // shown for a running session whose programs are stopped where they are; not recorded
};

std::string_view statusName(SessionStatus status);
std::optional<SessionStatus> sessionStatusFromName(std::string_view name);
// blocked→creating|ended, creating→running|ended, running→running (renewed)|ended; an end is for
// good.
bool mayBecome(SessionStatus from, SessionStatus to);

struct Session {
  std::string id;    // ses_…
  std::string name;  // unique among its agent's sessions that have not ended; "" if none
  uint64_t seq = 0;  // order of creation
  SessionStatus status = SessionStatus::kCreating;
  Principal principal;
  std::string language;                    // default language of `code` in this session; "" if none
  std::map<std::string, std::string> env;  // of every program, unless its own request says else
  std::string cwd;                         // the same; "" for /workspace
  bool nested = false;                     // its programs may have nested sandboxes
  std::string from_snapshot;               // the snapshot with its initial files; "" if none
  base::json::object metadata;
  // Permitted capabilities of kCapabilities, sorted. Empty: all permissions of its agent.
  std::vector<std::string> capabilities;
  NetworkRequest network;
  std::vector<std::string> deps;  // dependencies of its programs
  Limits limits;  // of the sandbox; wall, cpu_time and output_bytes: an exec's defaults
  std::chrono::milliseconds ttl{0};       // from creation, or the last renewal
  std::chrono::milliseconds idle_ttl{0};  // without a program running
  // Time without a program until a pause, which the next request ends; 0: no such pause.
  std::chrono::milliseconds pause_after{0};
  Provenance provenance;               // runtime, node, image, weakened, policy, permit
  uint32_t running = 0;                // programs now
  Usage usage;                         // of its sandbox so far, or to its end
  std::optional<RunError> error = {};  // of a blocked session: the awaited approval
  std::optional<RunError> end;         // reason of the end
  int64_t created_at = 0;              // wall-clock microseconds, as the others
  int64_t last_used_at = 0;
  int64_t expires_at = 0;  // the earlier of both; without an end to come, 0
  int64_t ended_at = 0;
};

// Checks a name for a session: kInvalid with the rule. A name never looks like an id.
Result<> checkSessionName(const std::string& name, const std::string& field);

// The needed capabilities that the session lacks.
std::vector<std::string> beyondScope(const Session& session, const std::vector<std::string>& needs);

// The members `limits` of a session are named as in requests.
base::json::object toJsonObject(const Session& session);
// The session as visible to `who`. Values of variables may be secrets, and are null except for
// administrators and the session's creator.
base::json::object shownTo(const Principal& who, const Session& session);

// Defaults and bounds of a session's times.
struct SessionBounds {
  std::chrono::milliseconds ttl{std::chrono::hours(1)};          // default
  std::chrono::milliseconds idle_ttl{std::chrono::minutes(10)};  // default
  std::chrono::milliseconds max_ttl{std::chrono::hours(24)};     // of either
};

// The body of POST /v1/sessions.
struct SessionRequest {
  RunRequest settings;  // language, env, deps, metadata, limits, network, runtime, image, tier
  std::string name;     // as Session's
  std::string cwd;
  std::string from_snapshot;              // its id; "" for an empty workspace
  std::vector<std::string> capabilities;  // as Session's
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds idle_ttl{0};
  std::chrono::milliseconds pause_after{0};  // as Session's
};
// As parseRunRequest().
Result<SessionRequest> parseSessionRequest(const base::json::object& body,
                                           const RequestBounds& bounds, const SessionBounds& times);
// The canonical JSON of the request, for idempotency.
base::json::object toJsonObject(const SessionRequest& request);
// Parses the stored form. Bounds and times are as accepted.
Result<SessionRequest> parseStoredSession(base::json::object stored, const RequestBounds& bounds);

// The body of POST /v1/sessions/{id}/renew. 0 keeps the session's value.
struct Renewal {
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds idle_ttl{0};
};
Result<Renewal> parseRenewal(const base::json::object& body, const SessionBounds& times);

// The body of POST /v1/sessions/{id}:move. "" keeps the requested value of the session.
struct SessionMove {
  std::string runtime;
  std::string tier;
  bool end_programs = false;  // programs running in the session
};
Result<SessionMove> parseSessionMove(const base::json::object& body);

// The body of POST /v1/sessions/{id}/exec: a run request for a program in the session. Absent
// members are the session's; no files are collected, since files stay in the session.
struct ExecRequest {
  RunRequest run = {};
  std::string cwd;          // absolute, "" for /workspace
  bool keep_input = false;  // more input follows
  bool background = false;  // answer at once
  // In the background, with no time of its own: it may last as long as the session; `lasts_cpu`:
  // with no processor time of its own either.
  bool lasts = false;
  bool lasts_cpu = false;
  // For code: name of the interpreter to run the code. Absent: the language's default interpreter,
  // if any, and unless the request has process options; "none": a separate program.
  std::optional<std::string> kernel = {};
  bool process = false;  // the request has arguments, variables, a directory or a tty of its own
  std::optional<TerminalSize> terminal = {};  // `tty`; then more input always follows
  std::string parent_id;     // the calling execution of the same session; "" if none
  bool from_inside = false;  // asked by a program in the session, as determined by the service
};
inline constexpr std::string_view kNoKernel = "none";
bool isKernelName(std::string_view name);
// Like parseRunRequest(). A different share of the sandbox than the session's is kInvalid, since
// its programs share the sandbox; a nested program has its own share, at most the session's.
Result<ExecRequest> parseExecRequest(const base::json::object& body, const RequestBounds& bounds,
                                     const Session& session);
base::json::object toJsonObject(const ExecRequest& request);

// The body of POST /v1/executions/{id}:signal: {"signal": "SIGINT"} or its number.
Result<int> parseSignal(const base::json::object& body);

// The body of POST /v1/executions/{id}:resize: {"cols", "rows"}.
Result<TerminalSize> parseTerminalSize(const base::json::object& body);

// The body of POST /v1/executions/{id}/input: {"data", "encoding", "eof"}.
struct ProgramInput {
  std::string data;
  bool eof = false;
};
Result<ProgramInput> parseProgramInput(const base::json::object& body, const RequestBounds& bounds);

}  // namespace cloister::model
