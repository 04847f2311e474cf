// SPDX-License-Identifier: Apache-2.0
// Session: a sandbox that outlives one execution, from its creation to its one end; and the
// requests that are made of it.
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
  kCreating,  // accepted: it waits for its sandbox
  kRunning,
  kEnded,
  kBlocked,  // accepted: it waits for an approval, and then for its sandbox
};

std::string_view statusName(SessionStatus status);
std::optional<SessionStatus> sessionStatusFromName(std::string_view name);
// blocked→creating|ended, creating→running|ended, running→running (renewed)|ended; an end is for
// good.
bool mayBecome(SessionStatus from, SessionStatus to);

struct Session {
  std::string id;    // ses_…
  uint64_t seq = 0;  // order of creation
  SessionStatus status = SessionStatus::kCreating;
  Principal principal;
  std::string language;  // name, "" if none: what `code` without a language is written in
  std::map<std::string, std::string> env;  // of every program, unless its own request says else
  std::string cwd;                         // the same; "" for /workspace
  bool nested = false;                     // its programs may have sandboxes of their own in it
  std::string from_snapshot;               // whose files it began with; "" if none
  base::json::object metadata;
  // What may be done in it, of kCapabilities, sorted. Empty: all that its agent may do.
  std::vector<std::string> capabilities;
  std::string network_tier = "none";
  Limits limits;  // of the sandbox; wall, cpu_time and output_bytes: what one exec gets unasked
  std::chrono::milliseconds ttl{0};       // from creation, or the last renewal
  std::chrono::milliseconds idle_ttl{0};  // without a program running
  Provenance provenance;                  // runtime, node, image, weakened, policy, permit
  uint32_t running = 0;                   // programs now
  Usage usage;                            // of its sandbox so far, or to its end
  std::optional<RunError> error = {};     // of one that is blocked: what it waits for
  std::optional<RunError> end;            // why it ended
  int64_t created_at = 0;                 // wall-clock microseconds, as the others
  int64_t last_used_at = 0;
  int64_t expires_at = 0;  // the earlier of both; without an end to come, 0
  int64_t ended_at = 0;
};

// Of those that are needed, the ones that the session does not have.
std::vector<std::string> beyondScope(const Session& session, const std::vector<std::string>& needs);

// The members `limits` of a session are named as in requests.
base::json::object toJsonObject(const Session& session);
// As `who` may see it. Values of variables may be secrets: they are null but for administrators and
// the principal that made the session.
base::json::object shownTo(const Principal& who, const Session& session);

// What bounds and fills in a session's times.
struct SessionBounds {
  std::chrono::milliseconds ttl{std::chrono::hours(1)};          // unless asked
  std::chrono::milliseconds idle_ttl{std::chrono::minutes(10)};  // unless asked
  std::chrono::milliseconds max_ttl{std::chrono::hours(24)};     // of either
};

// The body of POST /v1/sessions.
struct SessionRequest {
  RunRequest settings;  // language, env, deps, metadata, limits, network, runtime, image, tier
  std::string cwd;
  std::string from_snapshot;              // its id; "" for an empty workspace
  std::vector<std::string> capabilities;  // as Session's
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds idle_ttl{0};
};
// As parseRunRequest().
Result<SessionRequest> parseSessionRequest(const base::json::object& body,
                                           const RequestBounds& bounds, const SessionBounds& times);
// The canonical JSON of the request, for idempotency.
base::json::object toJsonObject(const SessionRequest& request);
// A request from that. Bounds and times as they were accepted.
Result<SessionRequest> parseStoredSession(base::json::object stored, const RequestBounds& bounds);

// The body of POST /v1/sessions/{id}/renew.
// What is 0 stays as the session has it.
struct Renewal {
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds idle_ttl{0};
};
Result<Renewal> parseRenewal(const base::json::object& body, const SessionBounds& times);

// The body of POST /v1/sessions/{id}:move. What is "" stays as the session was asked for.
struct SessionMove {
  std::string runtime;
  std::string tier;
  bool end_programs = false;  // those that run in it
};
Result<SessionMove> parseSessionMove(const base::json::object& body);

// The body of POST /v1/sessions/{id}/exec: a run request, for a program in that session. What it
// leaves out is the session's; no files are collected: they stay there.
struct ExecRequest {
  RunRequest run = {};
  std::string cwd;          // absolute, "" for /workspace
  bool keep_input = false;  // more input comes later
  bool background = false;  // answer at once
  // In the background, with no time of its own: it may last as long as the session; `lasts_cpu`:
  // with no processor time of its own either.
  bool lasts = false;
  bool lasts_cpu = false;
  // For code: the kernel that is to run it. Not given: the language's own, where it has one and the
  // request says nothing of how a process is started; "none": a program of its own.
  std::optional<std::string> kernel = {};
  bool process = false;  // the request has arguments, variables, a directory or a tty of its own
  std::optional<TerminalSize> terminal = {};  // `tty`; then more input always comes later
  std::string parent_id;     // the execution of the same session that calls for it; "" if none
  bool from_inside = false;  // a program in the session asked, which the service finds itself
};
inline constexpr std::string_view kNoKernel = "none";
bool isKernelName(std::string_view name);
// As parseRunRequest(). Another share of the sandbox than the session has is kInvalid: its programs
// have it together; a nested one has its own, at most the session's.
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
