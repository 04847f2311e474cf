// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/guard/approval.h"

#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "base/crypto.h"
#include "model/tool.h"
#include "orchestrator/core/stored_request.h"
#include "policy/approval.h"
#include "store/agent_store.h"
#include "store/secret_store.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
using model::Escalation;

constexpr int kMostRotations = 10'000;
constexpr std::string_view kDomain = "cloister-approval v2\n";

// The requested program: without the limits lowered by policy, and with names of a session's files
// that are the same for each execution.
Result<std::string> neutralSpec(const json::object& request, bool in_session,
                                const model::LanguageSet& languages) {
  base::ObjectReader reader(request, "");
  model::RunRequest run;
  TRY(model::readRunRequest(reader, storedBounds(), run));
  const model::ExecSpec spec = TRY(policy::resolve(run, languages, in_session ? "approval" : ""));
  return wire::encodeExecSpec(spec);
}

// --- the display ---------------------------------------------------------------------------------

constexpr size_t kShownCode = 6000;
constexpr size_t kShownFile = 3000;
constexpr size_t kShownValue = 400;
constexpr size_t kShownItems = 40;
constexpr size_t kShownInAll = 16'000;
constexpr size_t kDigits = 16;

std::string textIn(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

std::string safe(const json::value& value, size_t most = kShownValue) {
  return model::markedText(
      value.is_string() ? std::string(value.get_string()) : base::toJson(value), most);
}

std::string sized(const std::string& bytes) {
  return std::to_string(bytes.size()) + " bytes, sha256 " +
         base::sha256Hex(bytes).substr(0, kDigits) + "…";
}

void addList(std::string& out, std::string_view name, const json::object& request) {
  const json::value* value = request.if_contains(name);
  if (value == nullptr || !value->is_array() || value->get_array().empty()) return;
  out += "\n" + std::string(name) + ": ";
  size_t shown = 0;
  for (const json::value& item : value->get_array()) {
    if (shown++ == kShownItems) {
      out += " [" + std::to_string(value->get_array().size() - kShownItems) + " more]";
      return;
    }
    out += (shown > 1 ? " " : "") + ("\"" + safe(item) + "\"");
  }
}

void addEnvironment(std::string& out, const json::object& request) {
  const json::value* value = request.if_contains("env");
  if (value == nullptr || !value->is_object()) return;
  size_t shown = 0;
  for (const auto& [name, text] : value->get_object()) {
    if (shown++ == kShownItems) {
      out += "\nenv: [" + std::to_string(value->get_object().size() - kShownItems) + " more]";
      return;
    }
    out += "\n" + model::environmentLine(model::markedText(std::string_view(name), kShownValue),
                                         safe(text));
  }
}

void addFiles(std::string& out, const json::object& request) {
  const json::value* value = request.if_contains("files");
  if (value == nullptr || !value->is_array()) return;
  size_t shown = 0;
  for (const json::value& item : value->get_array()) {
    if (!item.is_object()) continue;
    if (shown++ == kShownItems) {
      out += "\nfile: [" + std::to_string(value->get_array().size() - kShownItems) + " more]";
      return;
    }
    const json::object& file = item.get_object();
    const std::string content = textIn(file, "content");
    const json::value* runs = file.if_contains("executable");
    out += "\nfile " + model::markedText(textIn(file, "path"), kShownValue) + " (" +
           sized(content) + ", " + textIn(file, "encoding") +
           (runs != nullptr && *runs == json::value(true) ? ", executable" : "") +
           "): " + model::markedText(content, kShownFile);
  }
}

// Adds the registry's words about a tool call, which no request can forge.
void addTool(std::string& out, const json::object& request) {
  const json::value* metadata = request.if_contains("metadata");
  if (metadata == nullptr || !metadata->is_object()) return;
  const std::string tool = textIn(metadata->get_object(), model::kToolMember);
  if (tool.empty()) return;
  out += "\ntool: " + model::markedText(tool, kShownValue) + ", risk " +
         model::markedText(textIn(metadata->get_object(), model::kRiskMember), kShownValue);
}

// Adds the caller's metadata: readers of the record see them, and rules may depend on them.
void addMetadata(std::string& out, const json::object& request) {
  const json::value* value = request.if_contains("metadata");
  if (value == nullptr || !value->is_object()) return;
  size_t shown = 0;
  for (const auto& [name, text] : value->get_object()) {
    if (std::string_view(name).starts_with(model::kReservedMetadata)) continue;
    if (shown++ == kShownItems) {
      out += "\nmetadata: [" + std::to_string(value->get_object().size()) + " in all]";
      return;
    }
    out +=
        "\nmetadata: " + model::markedText(std::string_view(name), kShownValue) + "=" + safe(text);
  }
}

// Comes early, so that the text is not cut off. A program of the session can show a false workspace
// to readers of its files, and restore the bound state before the start.
void addWorkspace(std::string& out, const std::string& workspace, bool fresh) {
  out += "\nworkspace of the session: " + workspace + "; it runs only while that is so";
  out +=
      "\nwhat is read in the workspace now may differ from that; what is bound is listed by "
      "`cloister escalation show --full` (`workspace` of GET /v1/escalations/{id}/request)";
  out += fresh ? "\nwhat the network answers is not covered"
               : "\n/tmp, /dev/shm, open descriptors and what the network answers are not covered; "
                 "with sandbox: fresh it has none of the session's";
}

void addProgram(std::string& out, const json::object& request) {
  const std::string code = textIn(request, "code");
  if (!code.empty()) {
    out += "\ncode (" + sized(code) + "): " + model::markedText(code, kShownCode);
  } else if (const json::value* command = request.if_contains("command")) {
    out += "\ncommand: " + safe(*command, kShownCode);
  }
  addList(out, "args", request);
  addEnvironment(out, request);
  addFiles(out, request);
  if (const std::string input = textIn(request, "input"); !input.empty()) {
    out += "\ninput (" + sized(input) + "): " + model::markedText(input, kShownValue);
  }
}

// Which files are kept is bound, so "none" is shown as well.
void addArtifacts(std::string& out, const json::object& request) {
  const json::value* value = request.if_contains("artifacts");
  if (value != nullptr && value->is_array() && value->get_array().empty())
    out += "\nartifacts: none";
  addList(out, "artifacts", request);
}

void addSurroundings(std::string& out, const json::object& request) {
  if (const std::string cwd = textIn(request, "cwd"); !cwd.empty()) {
    out += "\ndirectory: " + model::markedText(cwd, kShownValue);
  }
  addList(out, "deps", request);
  addArtifacts(out, request);
  if (const json::value* network = request.if_contains("network_policy")) {
    out += "\nnetwork: " + safe(*network);
  }
  out += "\nlimits:";
  for (const char* limit : {"timeout_seconds", "cpu_seconds", "cpu_millis", "memory_mb", "disk_mb",
                            "pids", "max_output_bytes"}) {
    if (const json::value* value = request.if_contains(limit)) {
      out += " " + std::string(limit) + "=" + safe(*value);
    }
  }
}

model::AuditEvent about(std::string_view action, const Escalation& e, const model::Principal& by,
                        json::object details) {
  details["operation"] = e.operation;
  details["what"] = e.subject;
  details["of_tenant"] = e.requester.tenant;
  details["requester"] = toJsonObject(e.requester);
  details["requester_key"] = e.requester.key_id;
  if (!e.execution_id.empty()) details["execution_id"] = e.execution_id;
  if (!e.digest.empty()) details["digest"] = e.digest;
  return {std::string(action), e.id, by, std::move(details)};
}

}  // namespace

namespace {

// The service's own members name the called tool. A request by hand cannot name them, so an
// approval given ahead of a call is bound without them; `tool_type` and the rest of the metadata
// are bound in every case.
void leaveOutOwn(json::object& request) {
  json::value* metadata = request.if_contains("metadata");
  if (metadata == nullptr || !metadata->is_object()) return;
  json::object rest;
  for (const auto& [name, value] : metadata->get_object()) {
    if (!std::string_view(name).starts_with(model::kReservedMetadata)) rest[name] = value;
  }
  *metadata = std::move(rest);
}

// The bound text of a request: everything except the name of the approval and the list of named
// limits, which do not affect the program.
std::string boundText(json::object request) {
  if (request.erase("approval") > 0) leaveOutOwn(request);
  request.erase("named_limits");
  return model::canonicalJson(request);
}

}  // namespace

Result<Bound> boundOf(const std::string& request_json, const std::string& session_id,
                      const model::LanguageSet& languages) {
  json::object request = TRY(parseStored(request_json));
  const std::string neutral = TRY(neutralSpec(request, !session_id.empty(), languages));
  return Bound{.request_sha256 = base::sha256Hex(boundText(std::move(request))),
               .spec_sha256 = base::sha256Hex(neutral),
               .session_id = session_id};
}

std::string digestOf(const Bound& bound, const std::string& image_digest) {
  json::object all = {{"request", bound.request_sha256},
                      {"program", bound.spec_sha256},
                      {"image", image_digest},
                      {"session", bound.session_id}};
  if (!bound.workspace_sha256.empty()) all["workspace"] = bound.workspace_sha256;
  if (!bound.secrets.empty()) all["secrets"] = bound.secrets;
  return "sha256:" + base::sha256Hex(std::string(kDomain) + model::canonicalJson(all));
}

std::string secretVersions(store::Store& store, const std::string& tenant,
                           const std::vector<model::SecretUse>& uses) {
  std::vector<std::string> lines;
  for (const model::SecretUse& use : uses) {
    const auto info = store.secrets().info({tenant, use.name});
    lines.push_back(use.name + "@" + std::to_string(info ? info->version : 0) + "\n");
  }
  std::ranges::sort(lines);
  std::string all;
  for (const std::string& line : lines)
    all += line;
  return all;
}

Result<Bound> boundOfSession(const std::string& request_json) {
  json::object request = TRY(parseStored(request_json));
  return Bound{.request_sha256 = base::sha256Hex(boundText(std::move(request))),
               .spec_sha256 = "",
               .session_id = ""};
}

namespace {

std::string atMost(std::string out) {
  if (out.size() <= kShownInAll) return out;
  const size_t left = out.size() - kShownInAll;
  out.resize(base::withoutCutCharacter(std::string_view(out).substr(0, kShownInAll)).size());
  return out + "\n[" + std::to_string(left) + " more bytes]";
}

}  // namespace

std::string displayOf(const std::string& request_json, const std::string& image_digest,
                      const std::string& session_id, const std::string& workspace) {
  const auto request = parseStored(request_json);
  if (!request) return "a request that cannot be shown";
  std::string out = "run " + model::markedText(subjectOf(request_json), kShownValue);
  out += session_id.empty() ? ", in a sandbox of its own" : ", in session " + session_id;
  const bool fresh = textIn(*request, model::kSandboxMember) == model::kFreshSandbox;
  if (!session_id.empty()) addWorkspace(out, workspace, fresh);
  addTool(out, *request);
  addMetadata(out, *request);
  addProgram(out, *request);
  addSurroundings(out, *request);
  if (fresh) {
    out += "\nin a sandbox of its own with the session's workspace";
  }
  out += "\nimage: " + model::markedText(image_digest, kShownValue);
  return atMost(std::move(out));
}

std::string displayOfSession(const std::string& request_json, const std::string& image_digest) {
  const auto request = parseStored(request_json);
  if (!request) return "a request that cannot be shown";
  std::string out = "make a session";
  const auto add = [&](const char* name) {
    const std::string value = textIn(*request, name);
    if (!value.empty())
      out += "\n" + std::string(name) + ": " + model::markedText(value, kShownValue);
  };
  for (const char* name : {"language", "runtime", "tier", "from_snapshot", "cwd"})
    add(name);
  if (const json::value* scope = request->if_contains("capabilities"))
    out += "\ncapabilities: " + safe(*scope);
  addMetadata(out, *request);
  addEnvironment(out, *request);
  addSurroundings(out, *request);
  for (const char* time : {"ttl_seconds", "idle_ttl_seconds"}) {
    if (const json::value* value = request->if_contains(time))
      out += " " + std::string(time) + "=" + safe(*value);
  }
  const json::value* nested = request->if_contains("nested");
  if (nested != nullptr && *nested == json::value(true)) out += "\nsandboxes of their own within";
  out += "\nimage: " + model::markedText(image_digest, kShownValue);
  return atMost(std::move(out));
}

std::string subjectOfSession(const std::string& request_json) {
  constexpr size_t kShort = 200;
  const auto request = parseStored(request_json);
  const std::string language = request ? textIn(*request, "language") : "";
  return language.empty() ? "for commands" : "for " + model::markedText(language, kShort);
}

std::string subjectOf(const std::string& request_json) {
  constexpr size_t kShort = 200;
  const auto request = parseStored(request_json);
  if (!request) return "";
  const std::string code = textIn(*request, "code");
  if (!code.empty()) {
    return model::markedText(textIn(*request, "language"), kShort) + " code, " +
           std::to_string(code.size()) + " bytes";
  }
  const json::value* command = request->if_contains("command");
  return command == nullptr ? "" : "command " + safe(*command, kShort);
}

Result<std::string> personOf(store::Store& store, const model::Principal& who) {
  const std::string tenant = who.tenant + "/";
  if (!who.user.empty()) return tenant + "user:" + who.user;
  if (!who.agent.empty()) return tenant + "agent:" + who.agent;
  std::string key = who.key_id;
  for (int i = 0; i < kMostRotations; i++) {
    const auto record = store.key(store::Scope::of(who), key);
    if (!record && record.error().code == Code::kNotFound) return tenant + "key:" + key;
    if (!record) return std::unexpected(record.error());
    if (record->replaces.empty()) return tenant + "key:" + key;
    key = record->replaces;
  }
  return fail(Code::kInternal, "finding who a key belongs to: it was rotated too often");
}

std::optional<model::AgentEscalation> agentSettings(store::Store& store,
                                                    const model::Principal& of) {
  if (of.agent.empty()) return std::nullopt;
  auto sandbox = store.agents().sandbox(store::Scope::ofTenant(of.tenant),
                                        {.tenant = of.tenant, .agent = of.agent});
  if (!sandbox) return std::nullopt;
  return std::move(sandbox->escalation);
}

std::vector<std::string> channelsFor(store::Store& store, const model::Principal& requester,
                                     const EscalationConfig& config) {
  const auto own = agentSettings(store, requester);
  if (!own || !own->notification_channels) return config.channels;
  std::vector<std::string> channels;
  std::ranges::copy_if(config.channels, std::back_inserter(channels), [&](const auto& channel) {
    const auto& names = *own->notification_channels;
    return std::ranges::find(names, channel) != names.end();
  });
  return channels;
}

namespace {

Escalation drawUp(const Wanted& wanted, std::string digest, const EscalationConfig& config) {
  constexpr int64_t kMicros = 1'000'000;
  Escalation e;
  e.reason = wanted.by_policy.reason;
  e.requester = wanted.requester;
  e.requester_person = wanted.person;
  e.execution_id = wanted.execution_id;
  e.session_id = wanted.session_id;
  e.digest = std::move(digest);
  e.rule = wanted.by_policy.rule;
  e.roles = wanted.by_policy.approver_roles;
  e.quorum = wanted.by_policy.quorum;
  e.grant_us = config.grant_us;
  e.created_at = wanted.now;
  e.expires_at = wanted.now + wanted.by_policy.ttl_seconds * kMicros;
  return e;
}

store::NewEscalation toAsk(Escalation e, const Wanted& wanted, const EscalationConfig& config,
                           const std::string& request_json) {
  e.request_sha256 = base::sha256Hex(request_json);
  model::AuditEvent event = requestedEvent(e);
  return {.escalation = std::move(e),
          .event = std::move(event),
          .channels = wanted.channels,
          .bounds = config.bounds,
          .request_json = wanted.execution_id.empty() ? request_json : ""};
}

}  // namespace

store::NewEscalation escalationFor(const Wanted& wanted, const std::string& request_json,
                                   const Bound& bound, const std::string& image_digest,
                                   const EscalationConfig& config) {
  Escalation e = drawUp(wanted, digestOf(bound, image_digest), config);
  e.operation = model::operation::kRun;
  e.subject = subjectOf(request_json);
  e.lifts = wanted.lifts;
  for (const model::WantedOperation& each : wanted.lifts) {
    e.display += "its agent may not: " + each.operation + " " +
                 model::markedText(each.target, kShownValue) + "\n";
  }
  e.display += displayOf(request_json, image_digest, wanted.session_id, bound.workspace_shown);
  return toAsk(std::move(e), wanted, config, request_json);
}

store::NewEscalation escalationForSession(const Wanted& wanted, std::string digest,
                                          const std::string& request_json,
                                          const std::string& image_digest,
                                          const EscalationConfig& config) {
  Escalation e = drawUp(wanted, std::move(digest), config);
  e.operation = model::operation::kSession;
  e.subject = subjectOfSession(request_json);
  e.display = displayOfSession(request_json, image_digest);
  return toAsk(std::move(e), wanted, config, request_json);
}

bool areSafeOperations(const std::vector<model::WantedOperation>& wanted,
                       const std::vector<std::string>& safe) {
  return std::ranges::all_of(wanted, [&](const model::WantedOperation& each) {
    std::string_view name = each.operation;
    if (name == "command_execution") name = model::operation::kCommand;
    if (name == "file_create") name = model::operation::kFileWrite;
    return std::ranges::find(safe, name) != safe.end();
  });
}

model::RunError approvalError(const policy::NeedsApproval& wanted, const std::string& what) {
  model::RunError error{
      std::string(model::error_type::kApprovalRequired), what + ": " + wanted.reason, {}, false};
  error.details = {
      {"rule", wanted.rule},
      {"required_roles", json::array(wanted.approver_roles.begin(), wanted.approver_roles.end())},
      {"quorum", wanted.quorum}};
  return error;
}

model::RunError notApproved(const Escalation& e) {
  const bool denied = e.status == model::EscalationStatus::kDenied;
  std::string message = denied ? "its approval was denied" : "nobody approved it in time";
  if (denied && !e.decisions.empty() && !e.decisions.back().reason.empty()) {
    message += ": " + model::markedText(e.decisions.back().reason, 1000);
  }
  model::RunError error{
      std::string(model::error_type::kApprovalRequired), message + " (" + e.id + ")", {}, false};
  error.details = {{"escalation_id", e.id},
                   {"rule", e.rule},
                   {"reason", denied ? policy::approval::kDenied : policy::approval::kExpired}};
  return error;
}

model::AuditEvent requestedEvent(const Escalation& e) {
  return about("escalation.requested", e, e.requester,
               {{"rule", e.rule},
                {"reason", e.reason},
                {"roles", json::array(e.roles.begin(), e.roles.end())},
                {"quorum", e.quorum},
                {"expires_at", base::formatTime(e.expires_at)}});
}

model::AuditEvent votedEvent(const Escalation& e, const model::Principal& by, bool approve,
                             const std::string& reason) {
  return about(approve ? "escalation.approved" : "escalation.denied", e, by,
               {{"reason", reason},
                {"roles_of_approver", model::toText(by.roles)},
                {"approvals", e.approvals()},
                {"quorum", e.quorum}});
}

model::AuditEvent ruledEvent(const Escalation& e) {
  const model::EscalationDecision& last = e.decisions.back();
  model::AuditEvent event = votedEvent(e, last.by, last.approve, last.reason);
  event.details["automatic"] = true;
  return event;
}

model::AuditEvent refusedVoteEvent(const Escalation& e, const model::Principal& by, bool approve,
                                   const std::string& why) {
  return about("escalation.vote_refused", e, by,
               {{"decision", approve ? "approve" : "deny"},
                {"reason", why},
                {"roles_of_approver", model::toText(by.roles)}});
}

model::AuditEvent struckEvent(const Escalation& e) {
  json::array credentials;
  for (const model::EscalationDecision& each : e.decisions) {
    if (each.revoked) credentials.emplace_back(each.by.key_id);
  }
  return about("escalation.votes_revoked", e, e.requester,
               {{"approvals", e.approvals()},
                {"quorum", e.quorum},
                {"credentials", std::move(credentials)}});
}

model::AuditEvent usedEvent(const Escalation& e) {
  return about("escalation.used", e, e.requester, {{"approvals", e.approvals()}});
}

model::AuditEvent expiredEvent(const Escalation& e) {
  return about("escalation.expired", e, e.requester, {{"approvals", e.approvals()}});
}

model::AuditEvent withdrawnEvent(const Escalation& e) {
  return about("escalation.withdrawn", e, e.requester, {{"approvals", e.approvals()}});
}

}  // namespace cloister::orchestrator
