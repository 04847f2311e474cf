// SPDX-License-Identifier: Apache-2.0
#include "cli/render/escalation_text.h"

#include <ctime>

#include "base/json.h"
#include "cli/api.h"
#include "cli/render/terminal.h"
#include "model/execution.h"
#include "model/shown_text.h"

namespace cloister::cli {
namespace {

constexpr size_t kShort = 60;

std::string line(std::string_view name, const std::string& value) {
  return value.empty() ? "" : "   " + std::string(name) + ": " + printable(value) + "\n";
}

std::string whatOf(const json::object& escalation) {
  const std::string operation = textOf(escalation, "operation");
  const std::string subject = textOf(escalation, "subject");
  if (operation == "file_write" || operation == "file_delete") return operation + " to " + subject;
  return subject.empty() ? operation : operation + " " + subject;
}

// A path or a command for eyes. The server has already marked a run's command.
std::string markedOf(const json::object& escalation) {
  const bool is_run = textOf(escalation, "operation") == "run";
  return is_run ? whatOf(escalation) : model::markedText(whatOf(escalation));
}

std::string joined(const json::array& items, std::string_view between) {
  std::string all;
  for (const json::value& item : items) {
    if (!item.is_string()) continue;
    all += (all.empty() ? "" : std::string(between)) + std::string(item.get_string());
  }
  return all;
}

// A short name of the person behind a credential. A tenant has many credentials, so its name says
// nothing about who decided.
std::string nameOf(const json::object& principal, const std::string& credential) {
  for (const std::string_view member : {"user", "agent"}) {
    if (std::string name = textOf(principal, member); !name.empty()) return name;
  }
  return credential.empty() ? textOf(principal, "tenant") : credential;
}

int64_t parseTime(const std::string& text) {
  std::tm parts{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return 0;
  return ::timegm(&parts);
}

// A person, otherwise the agent, otherwise the key's id. Without a principal a rule approves, and
// the service denies.
std::string deciderOf(const json::object& decision) {
  if (boolOf(decision, "automatic"))
    return textOf(decision, "decision") == "deny" ? "the service" : "a rule";
  return nameOf(objectOf(decision, "principal"), textOf(decision, "credential"));
}

std::string decisionsText(const json::object& escalation) {
  std::string text;
  for (const json::value& item : arrayOf(escalation, "decisions")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    const std::string who = deciderOf(one);
    const std::string reason = textOf(one, "reason");
    const std::string revoked = boolOf(one, "revoked") ? " (does not count: revoked)" : "";
    text += line("Decision", textOf(one, "decision") + " by " + who + " at " + textOf(one, "at") +
                                 revoked + (reason.empty() ? "" : ": " + reason));
  }
  return text;
}

std::string struckText(const json::object& escalation) {
  std::string text;
  for (const json::value& item : arrayOf(escalation, "decisions")) {
    if (!item.is_object() || !boolOf(item.get_object(), "revoked")) continue;
    text += line("Does not count",
                 "the vote of " + deciderOf(item.get_object()) + ", whose credential was revoked");
  }
  return text;
}

}  // namespace

std::string timeText(int64_t seconds) {
  struct Unit {
    int64_t seconds;
    std::string_view name;
  };
  static constexpr Unit kUnits[] = {{86'400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
  for (const Unit& unit : kUnits) {
    if (seconds < unit.seconds && unit.seconds > 1) continue;
    const int64_t count = (seconds + unit.seconds / 2) / unit.seconds;
    return std::to_string(count) + " " + std::string(unit.name) + (count == 1 ? "" : "s");
  }
  return "";
}

int64_t secondsBetween(const std::string& from, const std::string& to) {
  const int64_t begin = parseTime(from);
  const int64_t end = parseTime(to);
  return begin == 0 || end == 0 ? 0 : end - begin;
}

std::string shortText(const std::string& text) {
  if (text.size() <= kShort) return text;
  return std::string(base::withoutCutCharacter(std::string_view(text).substr(0, kShort))) + "…";
}

std::string requestedText(const json::object& escalation) {
  std::string text = "✓ Escalation request created: " + printable(textOf(escalation, "id")) + "\n";
  if (textOf(escalation, "status") == "approved") {
    const json::array& decisions = arrayOf(escalation, "decisions");
    const bool told = !decisions.empty() && decisions.back().is_object();
    return text +
           line("Approved by rule", told ? textOf(decisions.back().get_object(), "reason") : "") +
           line("Temporary permission expires", textOf(escalation, "grant_expires_at"));
  }
  text += line("Decided by", joined(arrayOf(escalation, "required_roles"), " or "));
  text += line("Notification goes to", joined(arrayOf(escalation, "notified"), ", "));
  const json::value* usual = escalation.if_contains("usual_wait_seconds");
  if (usual != nullptr && usual->is_int64()) {
    text += line("Estimated approval time", timeText(std::max<int64_t>(usual->get_int64(), 1)));
  }
  return text + line("Expires", textOf(escalation, "expires_at"));
}

std::string leftText(int64_t seconds) {
  const int64_t minutes = (seconds + 59) / 60;
  const int64_t hours = minutes / 60;
  return (hours == 0 ? "" : std::to_string(hours) + "h ") + std::to_string(minutes % 60) + "min";
}

namespace {

std::string waitingText(const json::object& escalation) {
  const int64_t waiting = integerOf(escalation, "waiting");
  return waiting == 0 ? "" : std::to_string(waiting) + (waiting == 1 ? " request" : " requests");
}

// An escalation that ended with its run lets nothing run any more, though its time is not over.
std::string timesText(const json::object& escalation) {
  const std::string why = textOf(escalation, "ended_reason");
  if (!why.empty()) return line("Ended", textOf(escalation, "ended_at") + ", because " + why);
  return line("Expires", textOf(escalation, "expires_at")) +
         line("Permission expires", textOf(escalation, "grant_expires_at"));
}

}  // namespace

std::string shownText(const json::object& escalation, int64_t now) {
  const json::object& requester = objectOf(escalation, "requester");
  std::string text =
      printable(textOf(escalation, "id")) + ": " + printable(textOf(escalation, "status")) + "\n" +
      line("Agent", textOf(requester, "agent")) + line("User", textOf(requester, "user")) +
      line("Tenant", textOf(requester, "tenant")) + line("Operation", markedOf(escalation)) +
      line("Reason", textOf(escalation, "reason")) + line("Rule", textOf(escalation, "rule")) +
      line("Execution", textOf(escalation, "execution_id")) +
      line("Session", textOf(escalation, "session_id")) + line("Waiting", waitingText(escalation)) +
      line("Digest", textOf(escalation, "digest")) +
      line("Approvals", textOf(escalation, "approvals") + " of " + textOf(escalation, "quorum") +
                            ", by " + joined(arrayOf(escalation, "required_roles"), " or ")) +
      decisionsText(escalation) + line("Created", textOf(escalation, "created_at")) +
      timesText(escalation);
  const int64_t left = parseTime(textOf(escalation, "grant_expires_at")) - now;
  const bool holds = textOf(escalation, "status") == "approved" && left > 0;
  const std::string operation = textOf(escalation, "operation");
  if (holds && operation != "run" && operation != "session") {
    text += line("Automatic permission revocation in", leftText(left));
  }
  const std::string display = textOf(escalation, "display");
  if (display.empty()) return text;
  text += "   What would happen:\n";
  for (size_t at = 0; at <= display.size();) {
    const size_t end = std::min(display.find('\n', at), display.size());
    text += "     " + printable(std::string_view(display).substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return text;
}

bool neverStarted(const json::object& execution) {
  const std::string status = textOf(execution, "status");
  return status == "denied" || status == "cancelled";
}

std::string approvedText(const json::object& escalation, const json::object& execution_now) {
  const std::string status = textOf(escalation, "status");
  const std::string agent = textOf(objectOf(escalation, "requester"), "agent");
  const std::string facts =
      line("Agent", agent) + line("Operation", whatOf(escalation)) + struckText(escalation);
  if (status == "pending") {
    return "✓ Approval counted\n" + facts +
           line("Approvals", textOf(escalation, "approvals") + " of " +
                                 textOf(escalation, "quorum") + "; it waits for more");
  }
  std::string text = "✓ Escalation approved\n" + facts;
  if (neverStarted(execution_now)) {
    return text + "\n" + endedText(execution_now) + "   Nothing runs with the approval; ask anew\n";
  }
  const std::string execution = textOf(escalation, "execution_id");
  const std::string life = timeText(
      secondsBetween(textOf(escalation, "decided_at"), textOf(escalation, "grant_expires_at")));
  const std::string operation = textOf(escalation, "operation");
  if (operation == "run" || operation == "session") {
    text += "   Approved for one " + operation + " (expires in " + life + ")\n";
  } else {
    text += "   Temporary permission granted (expires in " + life + ")\n";
  }
  const std::string session = textOf(escalation, "session_id");
  if (operation == "session" && !session.empty())
    text += "\n→ Making blocked session: " + printable(session) + "\n";
  if (!execution.empty()) text += "\n→ Resuming blocked execution: " + printable(execution) + "\n";
  return text;
}

std::string deniedText(const json::object& escalation) {
  const json::array& decisions = arrayOf(escalation, "decisions");
  const std::string reason = decisions.empty() || !decisions.back().is_object()
                                 ? ""
                                 : textOf(decisions.back().get_object(), "reason");
  return "✓ Escalation denied\n" +
         line("Agent", textOf(objectOf(escalation, "requester"), "agent")) +
         line("Operation", whatOf(escalation)) + line("Reason", reason) +
         line("Execution", textOf(escalation, "execution_id"));
}

namespace {

// "safe (no policy is set; the level standard says so)"
std::string autoApproveText(const json::object& policy) {
  const json::object& effective = objectOf(policy, "effective");
  if (effective.empty()) return textOf(policy, "auto_approve");
  const std::string now = textOf(effective, "auto_approve");
  const std::string by = textOf(effective, "by");
  const std::string none = textOf(policy, "set_at").empty() ? "no policy is set; " : "";
  if (by == "level")
    return now + " (" + none + "the level " + textOf(effective, "level") + " says so)";
  if (by == "default") return now + " (" + none + "the agent has no level)";
  if (by != "sandbox") return now;
  const std::string over =
      none.empty() ? "which goes before the policy " + textOf(policy, "auto_approve") : "";
  return now + " (" + none + "the agent's sandbox says so" + (over.empty() ? "" : ", " + over) +
         ")";
}

}  // namespace

std::string policyText(const json::object& policy) {
  const std::string by = nameOf(objectOf(policy, "set_by"), textOf(policy, "set_by_credential"));
  return "Escalation policy of agent " + printable(textOf(policy, "agent")) + "\n" +
         line("Auto-approve", autoApproveText(policy)) + line("Set by", by) +
         line("Set at", textOf(policy, "set_at"));
}

bool isUnderWay(const json::object& execution) {
  const auto status = model::statusFromName(textOf(execution, "status"));
  return status && !model::isTerminal(*status);
}

std::string endedText(const json::object& execution) {
  const std::string status = textOf(execution, "status");
  if (status == "completed") {
    return "✓ Execution completed with the approval (exit code " +
           printable(textOf(execution, "exit_code")) +
           ")\n   The approval is used, and lets nothing else run\n";
  }
  const std::string why = textOf(objectOf(execution, "error"), "message");
  return "→ Execution is " + printable(status) + (why.empty() ? "" : ": " + printable(why)) + "\n";
}

}  // namespace cloister::cli
