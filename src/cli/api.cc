// SPDX-License-Identifier: Apache-2.0
#include "cli/api.h"

#include <algorithm>

#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

// A member of a request, and the flag for it.
struct Member {
  std::string_view member;
  std::string_view flag;
};
constexpr Member kMembers[] = {
    {"timeout_seconds", "--timeout"},
    {"memory_mb", "--memory"},
    {"cpu_millis", "--cpu"},
    {"disk_mb", "--disk"},
    {"pids", "--pids"},
    {"ttl_seconds", "--ttl"},
    {"idle_ttl_seconds", "--idle-ttl"},
    {"expires_seconds", "--expires"},
    {"expires_in_seconds", "--expires"},
    {"expires_at", "--expires"},
    {"overlap_seconds", "--overlap"},
    {"unused_days", "--unused"},
    {"network_policy.tier", "--network"},
    {"network_policy.on_denied", "--on-denied"},
    {"network_policy.allow", "--allow"},
    {"network_policy", "--network"},
    {"deps_from", "--deps-from"},
    {"deps", "--dep"},
    {"secrets", "--secret"},
    {"from_snapshot", "--from-snapshot"},
    {"parent_id", "--parent"},
    {"capabilities", "--capability"},
    {"keep_input", "--interactive"},
    {"tty", "--tty"},
    {"dry_run", "--dry-run"},
    {"tail_lines", "--tail"},
    {"end_programs", "--end-programs"},
    {"whitelist_mode", "--whitelist"},
    {"networks", "--from"},
    {"roles", "--role"},
    {"expected_version", "--expected"},
    {"period_seconds", "--period"},
    {"cpu_percent", "--cpu"},
    {"time_seconds", "--time"},
    {"file_mb", "--file-size"},
};
// A member with the name of its flag.
constexpr std::string_view kSameNames[] = {"language",  "image",    "runtime",   "tier",   "env",
                                           "artifacts", "approval", "cwd",       "kernel", "nested",
                                           "agent",     "tenant",   "operation", "reason"};

// A route, and the command for it.
constexpr Member kRoutes[] = {
    {"GET /v1/node", "`cloister doctor`"},
    {"GET /v1/doctor", "`cloister doctor`"},
    {"GET /v1/audit", "`cloister audit list`"},
    {"GET /v1/images", "`cloister image list`"},
    {"GET /v1/whoami", "`cloister whoami`"},
    {"GET /v1/snapshots", "`cloister snapshot list`"},
    {"GET /v1/executions", "`cloister execution list`"},
    {"GET /v1/sessions", "`cloister session list`"},
    {"GET /v1/capabilities", "`cloister tool list`"},
    {"GET /v1/escalations", "`cloister escalation list`"},
    {"GET /v1/policies", "`cloister policy history`"},
    {"GET /v1/secrets", "`cloister secret list`"},
    {"GET /v1/keys", "`cloister key list`"},
    {"GET /v1/quotas", "`cloister quota show`"},
    {"GET /v1/artifacts", "`cloister artifact list`"},
    {"POST /v1/escalations", "`cloister escalation request`"},
    {"POST /v1/sessions", "`cloister session create`"},
    {"POST /v1/executions", "`cloister run`"},
};

bool isWordPart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// `text` with each whole word `word` replaced.
std::string replaced(const std::string& text, std::string_view word, std::string_view by) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(word, at);
    out.append(text, at, found - at);
    if (found == std::string::npos) return out;
    const size_t end = found + word.size();
    const bool begins = found == 0 || (!isWordPart(text[found - 1]) && text[found - 1] != '.');
    const bool whole = begins && (end == text.size() || !isWordPart(text[end]));
    out.append(whole ? by : word);
    at = end;
  }
}

// True for a message about the member: "runtime: …", "env.A: …", "deps[0]: …".
bool isAbout(std::string_view message, std::string_view member) {
  if (!message.starts_with(member) || message.size() == member.size()) return false;
  const char next = message[member.size()];
  return next == ':' || next == '[' || next == '.';
}

}  // namespace

// A member whose name is an English word is only replaced where the message is about it.
std::string inOurWords(std::string message) {
  for (const auto& [route, command] : kRoutes)
    message = replaced(message, route, command);
  for (const std::string_view name : kSameNames) {
    if (isAbout(message, name)) return "--" + message;
  }
  for (const auto& [member, flag] : kMembers) {
    if (isAbout(message, member)) {
      message.replace(0, member.size(), flag);
    } else if (member.contains('_')) {
      message = replaced(message, member, flag);
    }
  }
  return message;
}

namespace {

// "the server refused: " for what is not the command line's fault.
std::string_view openingFor(int status) {
  switch (status) {
    case 400:
    case 404:
    case 413:
    case 422:
      return "";
    default:
      return status >= 500 ? "the server failed: " : "the server refused: ";
  }
}

// Advice for a status, beyond the server's message.
std::string_view remedyFor(int status, std::string_view message, bool retryable) {
  // The log has no ids, and says itself how an entry is named.
  if (status == 404 && message.contains("audit entry")) return "";
  // Has a remedy of its own.
  if (status == 404 && message.contains("`cloister agent create`")) return "";
  if (status == 404 && message.ends_with(" of the policy"))
    return "; see `cloister policy history`";
  switch (status) {
    case 401:
      return "; set CLOISTER_API_KEY or --key-file to a key that `cloister key create` gave";
    case 403:
      return "; ask an administrator of the service";
    case 404:
      return "; check the id, and that it belongs to this key's tenant and agent";
    case 429:
    case 503:
      return retryable ? "; try again in a moment" : "";
    case 507:
      return "; free space on the server's state directory";
    default:
      return "";
  }
}

Code codeOf(int status) {
  switch (status) {
    case 401:
      return Code::kUnauthorized;
    case 403:
      return Code::kDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 413:
      return Code::kTooLarge;
    case 429:
      return Code::kQuota;
    case 408:
    case 503:
      return Code::kUnavailable;
    default:
      return status >= 500 ? Code::kInternal : Code::kInvalid;
  }
}

const json::value* member(const json::object& object, std::string_view name) {
  return object.if_contains(name);
}

}  // namespace

Result<json::object> parseObject(std::string_view body) {
  auto value = base::parseJson(body, {.max_bytes = net::BlockingClient::kMaxBody});
  if (!value)
    return fail(Code::kUnavailable, "reading the server's answer: " + value.error().message);
  if (json::object* object = value->if_object()) return std::move(*object);
  return fail(Code::kUnavailable, "reading the server's answer: not a JSON object");
}

Result<json::object> readObject(std::string_view text, std::string_view what, size_t max_bytes) {
  auto value = base::parseJson(text, {.max_bytes = max_bytes});
  const std::string name(what);
  if (!value) return fail(Code::kInvalid, name + ": " + value.error().message, name);
  if (json::object* object = value->if_object()) return std::move(*object);
  return fail(Code::kInvalid, name + ": must be a JSON object, as {\"a\":1}", name);
}

Error refusal(const net::HttpHead& head, std::string_view body) {
  std::string message;
  bool retryable = true;
  if (const auto problem = parseObject(body)) {
    const json::value* said = objectOf(*problem, "error").if_contains("retryable");
    retryable = said == nullptr || *said != json::value(false);
    message = textOf(objectOf(*problem, "error"), "message");
    if (message.empty()) message = textOf(*problem, "detail");
    if (message.empty()) message = textOf(*problem, "title");
  }
  if (message.empty()) message = "HTTP status " + std::to_string(head.status);
  constexpr size_t kLongest = 2000;
  if (message.size() > kLongest) message.resize(kLongest);
  return {codeOf(head.status),
          std::string(openingFor(head.status)) + printable(inOurWords(message)) +
              std::string(remedyFor(head.status, message, retryable)),
          {}};
}

Result<json::object> call(net::BlockingClient& client, std::string_view method,
                          const std::string& target, const json::object& body) {
  const std::string text = method == "GET" || method == "DELETE" ? "" : base::toJson(body);
  const net::HttpResponse response =
      TRY(client.exchange({.method = method, .target = target, .body = text}));
  if (response.head.status >= 300) return std::unexpected(refusal(response.head, response.body));
  if (response.body.empty()) return json::object{};
  return parseObject(response.body);
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || value->is_null() || value->is_structured()) return {};
  if (value->is_string()) return std::string(value->get_string());
  return json::serialize(*value);
}

int64_t integerOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code error;
  const auto number = value->to_number<int64_t>(error);
  return error ? 0 : number;
}

bool boolOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

const json::object& objectOf(const json::object& object, std::string_view name) {
  static const json::object kEmpty;
  const json::value* value = member(object, name);
  return value != nullptr && value->is_object() ? value->get_object() : kEmpty;
}

const json::array& arrayOf(const json::object& object, std::string_view name) {
  static const json::array kEmpty;
  const json::value* value = member(object, name);
  return value != nullptr && value->is_array() ? value->get_array() : kEmpty;
}

Result<json::array> newest(net::BlockingClient& client, std::string target, std::string_view member,
                           const base::Flags& flags) {
  constexpr int64_t kMost = 100'000;
  constexpr size_t kPage = 200;
  const auto most = static_cast<size_t>(TRY(flags.integer("limit", 1, kMost)).value_or(20));
  target += (target.contains('?') ? "&limit=" : "?limit=") + std::to_string(std::min(most, kPage));
  json::array all;
  std::string cursor;
  for (;;) {
    const std::string page =
        cursor.empty() ? target : target + "&cursor=" + net::percentEncode(cursor);
    const json::object answer = TRY(call(client, "GET", page));
    for (const json::value& item : arrayOf(answer, member)) {
      if (all.size() == most) return all;
      if (item.is_object()) all.push_back(item);
    }
    std::string next = textOf(answer, "next_cursor");
    if (next.empty() || next == cursor || all.size() == most) return all;
    cursor = std::move(next);
  }
}

}  // namespace cloister::cli
