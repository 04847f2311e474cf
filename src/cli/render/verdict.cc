// SPDX-License-Identifier: Apache-2.0
#include "cli/render/verdict.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "cli/api.h"
#include "cli/render/terminal.h"
#include "model/agent_sandbox.h"
#include "model/execution.h"
#include "model/network_text.h"

namespace cloister::cli {
namespace {

namespace limit = model::limit_name;

// The flag of `cloister run` for a limit with the API's name.
struct LimitFlag {
  std::string_view limit;
  std::string_view flag;
};
constexpr LimitFlag kLimitFlags[] = {
    {limit::kWall, "--timeout"}, {limit::kMemory, "--memory"},   {limit::kDisk, "--disk"},
    {limit::kPids, "--pids"},    {limit::kCpuTime, "--timeout"},
};

// "" where the message names the flag already.
std::string remedy(std::string_view name, std::string_view message) {
  const auto* found = std::ranges::find(kLimitFlags, name, &LimitFlag::limit);
  if (found == std::end(kLimitFlags) || message.contains(found->flag)) return {};
  return " (" + std::string(found->flag) + ")";
}

std::string why(const json::object& execution) {
  const json::object& error = objectOf(execution, "error");
  if (error.empty()) return {};
  const std::string name = textOf(objectOf(error, "details"), "limit");
  const std::string message = textOf(error, "message");
  // The message may name another useful limit.
  const bool other = name == limit::kDisk && message.contains(limit::kMemory);
  const std::string text = inOurWords(message);
  return printable(text) + (other ? " (--memory, --disk)" : remedy(name, text));
}

std::string_view opening(std::string_view status) {
  if (status == "timed_out") return "the run took too long";
  if (status == "cancelled") return "the run was cancelled";
  if (status == "denied") return "the run was denied";
  if (status == "failed") return "the run was stopped";
  return "note";
}

// Possible actions after a refusal by the agent's sandbox.
std::string actions(const json::object& execution) {
  const json::object& details = objectOf(objectOf(execution, "error"), "details");
  if (textOf(details, "level").empty() || textOf(execution, "status") != "denied") return {};
  std::string text = "❌ Operation blocked: " + printable(textOf(details, "operation")) + "\n";
  const std::string agent = textOf(details, "agent");
  text += "   Reason: " + printable(textOf(details, "reason")) + " (level " +
          printable(textOf(details, "level") + (agent.empty() ? "" : " of agent " + agent)) + ")\n";
  if (const std::string words = textOf(details, "words"); !words.empty()) {
    text += "   Words: \"" + printable(words) + "\"\n";
  }
  text += "   Available actions:\n";
  std::vector<std::string> list;
  if (boolOf(details, "escalation_available")) {
    list.push_back(boolOf(details, "human_approval")
                       ? "Request an escalation (a person approves it)"
                       : "Request an escalation");
  }
  for (const json::value& item : arrayOf(details, "mitigations")) {
    if (item.is_string() && list.size() < 5) list.push_back(printable(item.get_string()));
  }
  // A visitor cannot have another agent's rules changed.
  if (textOf(details, "outcome") != model::Violation::kBoundary)
    list.emplace_back("Have the agent's sandbox changed (cloister agent)");
  for (size_t i = 0; i < list.size(); ++i)
    text += "   " + std::to_string(i + 1) + ". " + list[i] + "\n";
  return text;
}

// The destinations that the program was refused, or why it has no network.
std::string networkText(const json::object& execution) {
  const auto use = model::readNetworkUse(objectOf(execution, "network"));
  std::string lines;
  if (!use) return lines;  // of an earlier server
  for (const std::string& line : model::networkLines(*use))
    lines.append("cloister: network: ").append(printable(line)).append("\n");
  return lines;
}

}  // namespace

int errorStatus(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
      return kStatusUsage;
    case Code::kUnauthorized:
    case Code::kDenied:
    case Code::kConflict:
    case Code::kTooLarge:
    case Code::kQuota:
      return kStatusRefused;
    case Code::kNotFound:
      return kStatusMissing;
    case Code::kUnavailable:
    case Code::kNoSpace:
    case Code::kUnsupported:
    case Code::kInternal:
      break;
  }
  return kStatusService;
}

int exitStatus(const json::object& execution) {
  const std::string status = textOf(execution, "status");
  const json::value* code = execution.if_contains("exit_code");
  const int signal = model::signalNumber(textOf(execution, "signal"));
  if (status == "completed") {
    if (code != nullptr && code->is_number()) {
      const auto own = static_cast<int>(integerOf(execution, "exit_code") & 0xff);
      // Readers of the output must not mistake a cut output for the whole.
      return own == 0 && boolOf(execution, "output_cut") ? kStatusService : own;
    }
    return signal > 0 ? kStatusSignal + signal : kStatusService;
  }
  if (status == "timed_out") return kStatusTimeout;
  const json::object& error = objectOf(execution, "error");
  if (status == "failed" && textOf(error, "type") == model::error_type::kResourceLimit) {
    const bool memory = textOf(objectOf(error, "details"), "limit") == limit::kMemory;
    return memory || signal == 0 ? kStatusKilled : kStatusSignal + signal;
  }
  return kStatusService;
}

std::string blockedText(const json::object& execution, bool waits, std::string_view show) {
  const json::object& error = objectOf(execution, "error");
  const std::string escalation = printable(textOf(objectOf(error, "details"), "escalation_id"));
  const std::string id = printable(textOf(execution, "id"));
  std::string text = "cloister: blocked: " + printable(textOf(error, "message"));
  text += "\n";
  if (waits || escalation.empty()) return text;
  return text + "cloister: " + id + " runs once somebody else approves it: `cloister escalation " +
         "approve " + escalation + "`. `cloister " + std::string(show) + " " + id +
         "` shows what became of it\n";
}

std::string explain(const json::object& execution) {
  std::string lines;
  const std::string status = textOf(execution, "status");
  if (status == "blocked") return lines;  // already shown by blockedText()
  if (const std::string cause = why(execution); !cause.empty()) {
    lines.append("cloister: ").append(opening(status)).append(": ").append(cause).append("\n");
    lines += actions(execution);
  } else if (const std::string signal = textOf(execution, "signal");
             !signal.empty() && status == "completed") {
    lines.append("cloister: the program was killed by ").append(printable(signal)).append("\n");
  }
  for (const std::string name : {"stdout", "stderr"}) {
    if (!boolOf(execution, name + "_truncated")) continue;
    lines.append("cloister: ").append(name).append(" was cut off at its limit; ");
    lines.append("`cloister execution show ").append(printable(textOf(execution, "id")));
    lines.append("` names the artifact that has more of it\n");
  }
  return lines + networkText(execution);
}

}  // namespace cloister::cli
