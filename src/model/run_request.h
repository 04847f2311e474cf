// SPDX-License-Identifier: Apache-2.0
// RunRequest: a client's request, exactly the body of POST /v1/executions after validation.
//
// Either `language` and `code`, or `command`. `language` beside `command` is allowed: the command
// then gets that language's environment. `code` beside `command` is refused.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/network.h"

namespace cloister::model {

struct FileSpec {
  std::string path;      // relative to /workspace, no "..", no empty component
  std::string content;   // decoded bytes
  uint32_t mode = 0644;  // 0644 or 0755
};

// Permitted values of a request's `tier`, lowest first.
inline constexpr std::array<std::string_view, 4> kTierNames = {"Auto", "Assisted", "HumanApprove",
                                                               "ManualOnly"};

struct RunRequest {
  std::string language;  // as asked, name or alias; may be "" with `command`
  std::string code;      // "" with `command`
  std::variant<std::monostate, std::string, std::vector<std::string>> command;  // shell or argv
  std::string input;                                                            // stdin, decoded
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::vector<FileSpec> files;
  std::vector<std::string> deps;
  Limits limits;  // defaults unless requested
  // The limits named by the request. Policy may lower only the other limits.
  LimitSet named_limits;
  NetworkRequest network;
  std::vector<SecretUse> secrets;
  std::string runtime;  // "" = policy's choice
  std::string image;    // a name (model/image_name.h); "" = policy's choice
  std::string tier;     // Auto, Assisted, HumanApprove, ManualOnly; "" = policy's choice
  std::vector<std::string> artifacts = {"**"};  // globs under /workspace
  std::map<std::string, std::string> metadata;
  // For a session: programs may have nested sandboxes. For a program within: the program gets a
  // nested sandbox. False otherwise.
  bool nested = false;
  // The session's program gets a separate sandbox with the session's workspace. Only for programs
  // of sessions.
  bool fresh = false;
  // For a session's program: the language of the session's dependencies; "" if there are none.
  std::string layers_of;
  std::string approval;  // id of an escalation that approved exactly this request; "" if none
};

// Values for a session's program: the session's sandbox, or a separate one.
inline constexpr std::string_view kSandboxMember = "sandbox";
inline constexpr std::string_view kFreshSandbox = "fresh";
inline constexpr std::string_view kSessionSandbox = "session";

// Bounds on a request, from configuration; each refusal names the field and the bound.
struct RequestBounds {
  size_t body_bytes = size_t{32} << 20;
  size_t code_bytes = size_t{4} << 20;
  size_t input_bytes = size_t{16} << 20;
  size_t files = 256;
  size_t files_bytes = size_t{16} << 20;
  size_t args = 256;
  size_t env = 256;
  size_t text_bytes = 32'768;              // of an argument, environment value or metadata value
  size_t command_bytes = size_t{1} << 20;  // command, arguments and environment together
  size_t items = 64;                       // dependencies, artifact globs, metadata members
  // Whether the service's own members are permitted: those of model/tool.h, and `named_limits`.
  bool own_metadata = false;
  Limits max;  // the most a request may ask for; see defaultBounds()
};
RequestBounds defaultBounds();

// Strict: unknown members, wrong types, values out of bounds, NUL in text, unsafe paths are
// kInvalid (kTooLarge for sizes) with `field` set. `input` and `content` may be base64. The limits
// of the result are settled (see settle()) and its files sorted by path.
Result<RunRequest> parseRunRequest(const base::json::object& body, const RequestBounds& bounds);

// The same for an object with further members, read by the caller. Absent members stay as in
// `request`, except its code, command, input, files, metadata and variables.
Result<> readRunRequest(base::ObjectReader& reader, const RequestBounds& bounds,
                        RunRequest& request);
// Reads only settings independent of a single program: language, environment, dependencies,
// metadata, limits, network, runtime, image, tier.
Result<> readSettings(base::ObjectReader& reader, const RequestBounds& bounds, RunRequest& request);

// Reads only runtime and tier.
Result<> readPlacement(base::ObjectReader& reader, RunRequest& request);

// A member with bytes, and the member with their encoding.
struct TextField {
  std::string name;
  std::string encoding;
};
// A member's bytes: unchanged for "utf8" or none, decoded for "base64".
Result<std::string> decodeText(const TextField& field, std::string text,
                               const std::optional<std::string>& encoding);

// Reads limit members (timeout_seconds, memory_mb …) of an object into `limits`, keeps absent
// limits, then calls settle(). Above `max` is kInvalid with a remedy. Adds the present limits to
// `named`.
Result<> readLimits(base::ObjectReader& reader, const Limits& max, Limits& limits,
                    LimitSet* named = nullptr);

// True for a name valid in a shell: letters, digits and `_`, no digit first.
bool isEnvironmentName(std::string_view name);

// The canonical JSON of the request: stored, hashed for idempotency, and shown. Members are sorted
// and defaults filled in, so that equal requests give equal text; parsing the text with
// `own_metadata` restores the request.
base::json::object toJsonObject(const RunRequest& request);

// Limits, named and measured as in requests.
base::json::object limitsObject(const Limits& limits);

}  // namespace cloister::model
