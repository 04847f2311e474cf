// SPDX-License-Identifier: Apache-2.0
#include "cli/render/audit_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/glob.h"
#include "base/nearest.h"
#include "cli/api.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

namespace json = base::json;

// The text of an action: WHO `verb` SUBJECT, then the present members of its details. An action
// missing in the table is shown by its name.
struct Phrase {
  std::string_view action;
  std::string_view verb;
  std::string_view shown;  // members of the details, separated by spaces
};

constexpr std::array kPhrases = {
    Phrase{"agent.created", "made the sandbox of", ""},
    Phrase{"agent.deleted", "deleted the sandbox of", ""},
    Phrase{"agent.lowered", "caused a lower level of", "from to"},
    Phrase{"agent.runtime_removed", "removed the runtime of", ""},
    Phrase{"agent.runtime_set", "set the runtime of", "runtime"},
    Phrase{"agent.updated", "changed", "changed"},
    Phrase{"agent.violation", "was refused as", "operation what rule"},
    Phrase{"artifact.created", "uploaded", "path"},
    Phrase{"artifact.deleted", "deleted", "path"},
    Phrase{"artifact.key_destroyed", "destroyed the key of", ""},
    Phrase{"artifact.refused", "could not keep", "path reason"},
    Phrase{"artifact.withheld", "withheld a file of", "path secret"},
    Phrase{"audit.redacted", "redacted", "member reason"},
    Phrase{"dlp.matched", "matched a rule for data in", "rule action place path"},
    Phrase{"escalation.approved", "approved", "operation what"},
    Phrase{"escalation.denied", "denied", "operation what reason"},
    Phrase{"escalation.expired", "let expire", "operation what"},
    Phrase{"escalation.notification_failed", "could not send a notification of",
           "channel event reason"},
    Phrase{"escalation.policy_set", "set the escalation policy of", ""},
    Phrase{"escalation.requested", "requested", "operation what"},
    Phrase{"escalation.used", "used", "operation what"},
    Phrase{"escalation.vote_refused", "may not decide on", "decision operation what reason"},
    Phrase{"escalation.votes_revoked", "lost votes on", "approvals quorum credentials"},
    Phrase{"escalation.withdrawn", "no longer needs", "operation what"},
    Phrase{"execution.accepted", "began", "language rule"},
    Phrase{"execution.blocked", "has to wait for approval of", "rule"},
    Phrase{"execution.cancel_requested", "cancelled", ""},
    Phrase{"execution.denied", "was denied", "reason"},
    Phrase{"execution.finished", "finished", "status exit_code error"},
    Phrase{"execution.resumed", "resumed", "escalation"},
    Phrase{"execution.revoked", "lost permissions in", "ended"},
    Phrase{"execution.started", "got a sandbox for", "node"},
    Phrase{"file.directory_made", "made a directory in", "arguments incomplete"},
    Phrase{"file.moved", "moved a file in", "arguments incomplete"},
    Phrase{"file.removed", "removed a file in", "arguments incomplete"},
    Phrase{"file.unpacked", "unpacked files in", "arguments incomplete"},
    Phrase{"file.written", "wrote a file in", "arguments incomplete"},
    Phrase{"image.changed", "found that the image changed to", "node"},
    Phrase{"image.not_verified", "could not verify the image of executions", "node"},
    Phrase{"image.verified", "verified the image of executions", "digest"},
    Phrase{"kernel.ended", "ended an interpreter of", "kernel"},
    Phrase{"kernel.restarted", "restarted an interpreter of", "kernel"},
    Phrase{"kernel.started", "started an interpreter in", "kernel language"},
    Phrase{"key.created", "created", "name"},
    Phrase{"key.revoked", "revoked", "name"},
    Phrase{"key.rotated", "rotated", "name"},
    Phrase{"layer.evicted", "evicted the dependency layer", "ecosystem"},
    Phrase{"layer.made", "made the dependency layer", "ecosystem packages"},
    Phrase{"layer.pruned", "pruned the dependency layer", "ecosystem"},
    Phrase{"ledger.anchored", "anchored the ledger", "reason"},
    Phrase{"ledger.recovered", "recovered", "problem"},
    Phrase{"ledger.retained", "applied retention to", "archived deleted"},
    Phrase{"mcp_server.added", "added the MCP server", "name"},
    Phrase{"mcp_server.called", "called the MCP server", "name tool"},
    Phrase{"mcp_server.removed", "removed the MCP server", "name"},
    Phrase{"memory.deleted", "deleted from the memory of", "key"},
    Phrase{"memory.set", "kept in the memory of", "key size"},
    Phrase{"network.attempts", "tried to reach the network from", ""},
    Phrase{"network.planned", "planned the network of", "why tier"},
    Phrase{"policy.applied", "applied policy", "note"},
    Phrase{"policy.rolled_back", "rolled back to policy", "note"},
    Phrase{"quota.set", "set", "quota"},
    Phrase{"secret.deleted", "deleted", ""},
    Phrase{"secret.set", "set", "version"},
    Phrase{"secret.used", "used secrets in", ""},
    Phrase{"session.amended", "changed", "changed"},
    Phrase{"session.created", "began", "language"},
    Phrase{"session.ended", "ended", "reason"},
    Phrase{"session.image_verified", "verified the image of", ""},
    Phrase{"session.moved", "moved", "runtime"},
    Phrase{"session.opened", "gave more to one program in", "runtime"},
    Phrase{"session.paused", "paused", ""},
    Phrase{"session.refused", "was refused in", "doing missing"},
    Phrase{"session.renewed", "renewed", ""},
    Phrase{"session.resumed", "resumed", "escalation"},
    Phrase{"session.rules_applied", "applied the agent's rules to", "runtime"},
    Phrase{"session.started", "got a sandbox for", "node"},
    Phrase{"session.unpaused", "resumed", ""},
    Phrase{"snapshot.created", "took", ""},
    Phrase{"snapshot.deleted", "deleted", ""},
    Phrase{"tool.changed", "changed the tool", "name"},
    Phrase{"tool.created", "added the tool", "name"},
    Phrase{"tool.deleted", "deleted the tool", "name"},
    Phrase{"ui.sign_in_refused", "refused a sign-in in", "by reason"},
    Phrase{"ui.signed_in", "signed in with", "by"},
    Phrase{"ui.sign_in_ended", "ended the sign-in", "user"},
    Phrase{"ui.signed_out", "signed out of", "reason"},
};

const Phrase* phraseOf(std::string_view action) {
  const auto* found = std::ranges::find(kPhrases, action, &Phrase::action);
  return found == kPhrases.end() ? nullptr : found;
}

// The person, otherwise the key, the agent, or the service itself.
std::string whoOf(const json::object& entry) {
  for (const std::string_view member : {"user", "agent", "key"}) {
    if (std::string name = textOf(entry, member); !name.empty()) return name;
  }
  return "cloister";
}

std::string whenOf(const json::object& entry) {
  const json::value* at = entry.if_contains("at");
  std::string text = at != nullptr && at->is_int64() ? base::formatTime(at->get_int64()) : "";
  if (const size_t dot = text.find('.'); dot != std::string::npos)
    text.replace(dot, std::string::npos, "Z");
  return text;
}

std::string numberOf(const json::object& entry) {
  const std::string place = textOf(entry, "position");
  const std::string number = place.empty() ? textOf(entry, "seq") : place;
  return number.empty() ? "" : number + "  ";
}

// The values of an object, as "concurrent 4, runs_per_minute 60"; "none" for an empty one.
std::string valuesOf(const json::object& object) {
  std::string text;
  for (const auto& [name, value] : object) {
    if (value.is_null()) continue;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + textOf(object, name);
  }
  return text.empty() ? "none" : text;
}

// The paths of a file operation; its further arguments are switches.
std::string pathsOf(const json::object& details, std::string_view action) {
  std::string text;
  size_t left = action == "file.moved" ? 2 : 1;
  for (const json::value& each : arrayOf(details, "arguments")) {
    if (left-- == 0) break;
    if (!each.is_string() || each.get_string().empty()) continue;
    text += (text.empty() ? "" : ", ") + std::string(each.get_string());
  }
  return text;
}

std::string shownOf(const json::object& details, const Phrase& phrase) {
  std::string text;
  std::string_view members = phrase.shown;
  while (!members.empty()) {
    const std::string_view member = members.substr(0, members.find(' '));
    members.remove_prefix(std::min(member.size() + 1, members.size()));
    const std::string value = member == "arguments" ? pathsOf(details, phrase.action)
                              : member == "quota"   ? valuesOf(objectOf(details, member))
                                                    : textOf(details, member);
    if (!value.empty()) text += (text.empty() ? "" : " ") + value;
  }
  return text.empty() ? "" : " (" + text + ")";
}

// The represented agent, if the actor is somebody else.
std::string forOf(const json::object& entry, const std::string& who) {
  const json::object& requester = objectOf(objectOf(entry, "details"), "requester");
  std::string agent = textOf(requester, "agent");
  if (agent.empty()) agent = textOf(entry, "agent");
  return agent.empty() || agent == who ? "" : " for agent " + agent;
}

// The reason for refusing a program that its own rules allow.
std::string boundaryOf(const json::object& entry) {
  const json::object& details = objectOf(entry, "details");
  if (!details.contains("session_agent")) return "";
  const std::string agent = textOf(details, "session_agent");
  return ": the session is of " + (agent.empty() ? "no agent" : "agent " + agent) +
         ", and lets programs do more than " + whoOf(entry) + " may";
}

std::string tenantOf(const json::object& entry) {
  const std::string tenant = textOf(entry, "tenant");
  return tenant.empty() ? "" : " in tenant " + tenant;
}

// For a vote: other votes struck with the vote.
std::string struckOf(const json::object& details) {
  std::string text;
  for (const json::value& each : arrayOf(details, "revoked_credentials")) {
    if (!each.is_string()) continue;
    text += (text.empty() ? "; the votes of revoked credentials no longer count: " : ", ") +
            std::string(each.get_string());
  }
  return text;
}

}  // namespace

std::string auditLine(const json::object& entry, bool names_tenant) {
  const std::string action = textOf(entry, "action");
  const std::string subject = textOf(entry, "subject");
  const std::string who = whoOf(entry);
  const Phrase* phrase = phraseOf(action);
  std::string line = who + " ";
  line += phrase != nullptr ? phrase->verb : std::string_view(action);
  if (!subject.empty()) line += " " + subject;
  if (phrase != nullptr) line += shownOf(objectOf(entry, "details"), *phrase);
  line += boundaryOf(entry) + forOf(entry, who) + (names_tenant ? tenantOf(entry) : "") +
          struckOf(objectOf(entry, "details"));
  return numberOf(entry) + whenOf(entry) + "  " + printable(line);
}

std::string noEntriesText(const std::string& action) {
  const auto matches = [&](const Phrase& each) { return base::globMatches(action, each.action); };
  if (action.empty() || std::ranges::any_of(kPhrases, matches)) return "no entries\n";
  // A group of actions ("key.*") is meant by a glob, else one action.
  const bool group = action.ends_with(".*");
  std::vector<std::string> known;
  for (const Phrase& each : kPhrases) {
    const std::string_view name = each.action;
    known.push_back(group ? std::string(name.substr(0, name.find('.'))) + ".*" : std::string(name));
  }
  const std::string meant = base::nearestName(action, known);
  return "no entries" + (meant.empty() ? "" : "; did you mean " + meant + "?") + "\n";
}

std::string auditReport(const json::object& report, bool published) {
  if (!boolOf(report, "ok")) {
    std::string text = "BROKEN: " + printable(textOf(report, "problem")) + "\n";
    // 0: no single entry is bad, as with a revoked key that is good again.
    const int64_t first = integerOf(report, "first_bad");
    if (!published && first != 0) text += "first bad entry: " + std::to_string(first) + "\n";
    return text;
  }
  std::string text = "ok: " + textOf(report, "entries") + " entries, " +
                     textOf(report, "checkpoints") + (published ? " published" : " signed") +
                     " checkpoints, head " + printable(textOf(report, "head")) + "\n";
  for (const json::value& note : arrayOf(report, "notes")) {
    if (note.is_string()) text += "note: " + printable(note.get_string()) + "\n";
  }
  return text;
}

}  // namespace cloister::cli
