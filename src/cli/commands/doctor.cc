// SPDX-License-Identifier: Apache-2.0
// `cloister doctor`: capabilities of this machine, missing capabilities, and remedies.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/clock.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

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
  if (!remedy.empty() && state != "ok") {
    line.append(std::string(11 + width + 2, ' '))
        .append("-> ")
        .append(printable(remedy))
        .append("\n");
  }
  return line;
}

std::string report(const json::object& node, bool usable) {
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
  std::string out = "node " + printable(textOf(node, "node")) + ", version " +
                    printable(textOf(node, "version")) + ", " + textOf(node, "cpus") + " cpus, " +
                    humanBytes(static_cast<uint64_t>(integerOf(node, "memory_bytes"))) + "\n";
  for (const std::string& area : areas) {
    out.append("\n").append(area).append("\n");
    for (const json::object* finding : by_area[area])
      out.append(lineOf(*finding, width, colour));
  }
  out.append(usable ? "\nruns are possible here\n" : "\nruns are not possible here\n");
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

Result<int> doctor(const Invocation& invocation) {
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP}));
  const auto service = anyServer(invocation.globals, signals.fd());
  if (!service) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(service.error());
  }
  net::BlockingClient client(service->endpoint, signals.fd());
  json::object node = TRY(call(client, "GET", "/v1/node"));
  for (const json::value& name : json::array(arrayOf(node, "runtimes"))) {
    const bool guest = name.is_string() && name != "process";
    if (guest && node["findings"].is_array()) boot(client, name.as_string(), node);
  }
  const bool usable = boolOf(node, "connected") && !arrayOf(node, "runtimes").empty();
  if (invocation.globals.json) {
    printJson(node);
  } else {
    writeTo(STDOUT_FILENO, report(node, usable));
  }
  return usable ? 0 : 1;
}

}  // namespace

const Command kDoctor = {
    .name = "doctor",
    .summary = "say what this machine offers, what is missing, and how to get it",
    .details = "Exits 0 if programs can be run, 1 if not.",
    .run = doctor};

}  // namespace cloister::cli
