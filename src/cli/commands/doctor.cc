// SPDX-License-Identifier: Apache-2.0
// `cloister doctor`: capabilities of this machine, missing capabilities, and remedies. Asks the
// server, or else `cloister-node findings`, which serves nothing and needs no privilege. Whatever
// fails on the way is a line of the answer.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "base/clock.h"
#include "base/file.h"
#include "base/version.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "supervisor/capture.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Flag kDoctorFlags[] = {
    {.name = "strict", .value = "", .help = "exit with 1 if something is missing"},
    {.name = "boot",
     .value = "",
     .help = "boot each guest (gvisor, microvm), with a private server if none runs"},
    {.name = "config", .value = "FILE", .help = "the configuration, if no server runs"},
};

struct Look {
  std::string_view state;
  std::string_view mark;
  std::string_view colour;
};
constexpr Look kLooks[] = {
    {"ok", "ok       ", "\x1b[32m"},
    {"reduced", "reduced  ", "\x1b[33m"},
    {"missing", "missing  ", "\x1b[31m"},
};

constexpr const char* kGeneral = "see docs/operations.md, \"When something is missing\"";

std::string lineOf(const json::object& finding, size_t width, bool colour) {
  const std::string state = textOf(finding, "state");
  std::string line = "  ";
  for (const Look& look : kLooks) {
    if (look.state != state) continue;
    line.append(colour ? look.colour : "").append(look.mark).append(colour ? "\x1b[0m" : "");
  }
  std::string name = printable(textOf(finding, "name"));
  name.resize(std::max(width, name.size()), ' ');
  line.append(name).append("  ").append(printable(textOf(finding, "detail"))).append("\n");
  const std::string remedy = textOf(finding, "remedy");
  if (state != "ok") {
    line.append(std::string(11 + width + 2, ' '))
        .append("-> ")
        .append(remedy.empty() ? kGeneral : printable(remedy))
        .append("\n");
  }
  return line;
}

std::string headOf(const json::object& node) {
  const std::string memory = humanBytes(static_cast<uint64_t>(integerOf(node, "memory_bytes")));
  return "node " + printable(textOf(node, "node")) + ", version " +
         printable(textOf(node, "version")) + ", " + textOf(node, "cpus") + " cpus, " + memory +
         "\n";
}

std::string report(const json::object& node) {
  const bool colour = mayColour(STDOUT_FILENO);
  size_t width = 0;
  std::vector<std::string> areas;  // in the order of their first finding
  std::map<std::string, std::vector<const json::object*>> by_area;
  for (const json::value& item : arrayOf(node, "findings")) {
    if (!item.is_object()) continue;
    const std::string area = printable(textOf(item.get_object(), "area"));
    if (by_area[area].empty()) areas.push_back(area);
    by_area[area].push_back(&item.get_object());
    width = std::max(width, textOf(item.get_object(), "name").size());
  }
  std::string out = headOf(node);
  for (const std::string& area : areas) {
    out.append("\n").append(area).append("\n");
    for (const json::object* finding : by_area[area])
      out.append(lineOf(*finding, width, colour));
  }
  if (!arrayOf(node, "weakened").empty()) out += "\nweakened, as each result says\n";
  for (const json::value& item : arrayOf(node, "weakened")) {
    if (item.is_string()) out += "  " + printable(item.get_string()) + "\n";
  }
  out += boolOf(node, "usable") ? "\nruns are possible here\n" : "\nruns are not possible here\n";
  return out;
}

// The result of a real boot of a guest: the kernel seen by a program inside, or the failure.
void boot(net::BlockingClient& client, std::string_view runtime, json::object& node) {
  constexpr int kPatience = 20;  // for the program; an emulated kernel takes longer
  constexpr int kWait = 60;
  const json::object request{
      {"command", {"cat", "/proc/version"}}, {"runtime", runtime}, {"timeout_seconds", kPatience}};
  const auto begin = base::monotonicNow();
  const auto run = call(client, "POST", "/v1/executions?wait=" + std::to_string(kWait), request);
  const auto took = std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
  const bool booted = run && textOf(*run, "status") == "completed";
  for (json::value& item : node["findings"].as_array()) {
    json::object* finding = item.if_object();
    if (finding == nullptr || textOf(*finding, "name") != runtime) continue;
    std::string detail = textOf(*finding, "detail");
    if (booted) {
      const std::string kernel = textOf(*run, "stdout");
      detail +=
          "; booted in " + std::to_string(took) + " ms: " + kernel.substr(0, kernel.find('\n'));
    } else {
      detail += "; it does not boot: ";
      detail += run ? textOf(objectOf(*run, "error"), "message") : run.error().message;
      (*finding)["state"] = "missing";
      (*finding)["remedy"] = "see the log of cloister-node";
    }
    (*finding)["detail"] = detail;
  }
}

json::object findingOf(std::string_view area, std::string_view name, std::string_view state,
                       std::string detail, std::string remedy) {
  return {{"area", area},
          {"name", name},
          {"state", state},
          {"detail", std::move(detail)},
          {"remedy", std::move(remedy)}};
}

// The last line that a program wrote before its end, without the log's own members.
std::string lastLine(std::string text) {
  while (text.ends_with('\n'))
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// What cloister-node finds without serving, or why there is no answer.
Result<json::object> askProgram(const Invocation& invocation, int interrupt) {
  constexpr Millis kPatience{20'000};  // boots a machine at most once after each start of the host
  supervisor::Program program;
  program.argv = {base::programDir() + "/cloister-node", "findings", "--state",
                  invocation.globals.state.value_or(base::defaultStateDir())};
  if (const auto config = invocation.flags.text("config")) {
    program.argv.insert(program.argv.end(), {"--config", *config});
  }
  program.env = supervisor::environmentWithout({"CLOISTER_API_KEY", "CLOISTER_URL"});
  const auto captured = TRY(supervisor::capture(program, kPatience, interrupt));
  if (captured.wait_status == 0) {
    auto found = parseObject(captured.out);
    if (!found) return std::unexpected(std::move(found).error().within("asking cloister-node"));
    return found;
  }
  return fail(Code::kUnavailable, "cloister-node " +
                                      supervisor::describeExit(captured.wait_status) + ": " +
                                      lastLine(captured.err));
}

json::object lookHere(const Invocation& invocation, int interrupt) {
  auto found = askProgram(invocation, interrupt);
  if (found) return *std::move(found);
  json::object node{{"node", "unknown"}, {"version", base::version()}, {"findings", json::array()}};
  node["findings"].get_array().push_back(
      findingOf("isolation", "node", "missing", found.error().message,
                "correct the named cause; for a program that is missing, install Cloister anew"));
  return node;
}

Result<json::object> askServer(net::BlockingClient& client, bool boots) {
  json::object node = TRY(call(client, "GET", "/v1/doctor"));
  if (textOf(node, "detail") != "full") {  // the service's own lines are for operators
    node = TRY(call(client, "GET", "/v1/node"));
  }
  for (const json::value& name : json::array(arrayOf(node, "runtimes"))) {
    const bool guest = name.is_string() && name != "process";
    if (boots && guest && node["findings"].is_array()) boot(client, name.as_string(), node);
  }
  node["usable"] = boolOf(node, "connected") && !arrayOf(node, "runtimes").empty();
  return node;
}

// Without a server, or without an answer from this account's: looks at the machine itself.
json::object lookWithout(const Invocation& invocation, const Result<json::object>& asked,
                         int interrupt) {
  json::object node = lookHere(invocation, interrupt);
  node["connected"] = false;
  node["usable"] = !arrayOf(node, "runtimes").empty();
  if (!node["findings"].is_array()) node["findings"] = json::array();
  constexpr const char* kNone = "none runs on this account; `cloister serve` starts one";
  node["findings"].get_array().push_back(
      asked ? findingOf("service", "server", "ok", kNone, "")
            : findingOf("service", "server", "reduced", asked.error().message,
                        "ask as the account of the server, or name the server and a key: "
                        "CLOISTER_URL, CLOISTER_API_KEY"));
  return node;
}

bool isNamed(const Globals& globals) {
  const char* url = ::getenv("CLOISTER_URL");
  return globals.url || (url != nullptr && *url != 0);
}

Result<json::object> look(const Invocation& invocation, int interrupt) {
  if (invocation.flags.has("boot")) {
    const Service service = TRY(anyServer(invocation.globals, interrupt));
    net::BlockingClient client(service.endpoint, interrupt);
    return askServer(client, true);
  }
  const auto endpoint = findServer(invocation.globals);
  if (endpoint && !*endpoint) return lookWithout(invocation, json::object(), interrupt);
  auto asked = [&]() -> Result<json::object> {
    if (!endpoint) return std::unexpected(endpoint.error());
    net::BlockingClient client(**endpoint, interrupt);
    return askServer(client, false);
  }();
  if (asked || isNamed(invocation.globals)) return asked;
  return lookWithout(invocation, asked, interrupt);
}

bool isComplete(const json::object& node) {
  return boolOf(node, "usable") &&
         std::ranges::none_of(arrayOf(node, "findings"), [](const json::value& finding) {
           return finding.is_object() && textOf(finding.get_object(), "state") == "missing";
         });
}

Result<int> doctor(const Invocation& invocation) {
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP}));
  const auto node = look(invocation, signals.fd());
  if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
  if (!node) return std::unexpected(node.error());
  if (invocation.globals.json) {
    printJson(*node);
  } else {
    writeTo(STDOUT_FILENO, report(*node));
  }
  return invocation.flags.has("strict") && !isComplete(*node) ? 1 : 0;
}

}  // namespace

const Command kDoctor = {
    .name = "doctor",
    .summary = "say what this machine offers, what is missing, and how to get it",
    .details =
        "Asks this account's server, or the server at --url; without a server, looks at the\n"
        "machine itself, without any privilege. Exits 0 if it could look.",
    .flags = kDoctorFlags,
    .examples =
        "cloister doctor\n"
        "cloister doctor --strict --json",
    .run = doctor,
    .failure_status = kStatusService};

}  // namespace cloister::cli
