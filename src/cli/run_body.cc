// SPDX-License-Identifier: Apache-2.0
#include "cli/run_body.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/crypto.h"
#include "base/file.h"
#include "cli/render/amounts.h"
#include "cli/secret_uses.h"
#include "cli/server.h"
#include "model/language.h"

namespace cloister::cli {
namespace {

namespace json = base::json;
using base::Flag;
using base::Flags;

constexpr Flag kFlags[] = {
    {.name = "language",
     .value = "NAME",
     .help = "default: by the file's extension, else python",
     .letter = 'l'},
    {.name = "code", .value = "CODE", .help = "run this code", .letter = 'c'},
    {.name = "timeout", .value = "TIME", .help = "wall time, as 30s or 5m (default 30s)"},
    {.name = "memory",
     .value = "SIZE",
     .help = "memory, files included, as 512MB or 2g (default 256MB)"},
    {.name = "cpu", .value = "CPU", .help = "800m or 0.8 of a core (default 800m)"},
    {.name = "pids", .value = "N", .help = "processes and threads (default 64)"},
    {.name = "disk", .value = "SIZE", .help = "scratch space (default 1GB)"},
    {.name = "env",
     .value = "NAME=VALUE",
     .help = "a variable for the program",
     .letter = 'e',
     .many = true},
    {.name = "file",
     .value = "HOST[:PATH]",
     .help = "put a file into /workspace",
     .letter = 'f',
     .many = true},
    {.name = "artifacts", .value = "GLOB", .help = "keep files the program leaves", .many = true},
    {.name = "out", .value = "DIR", .help = "download what is kept"},
    {.name = "network",
     .value = "TIER",
     .help = "none (default), restricted, internal, api or full",
     .choices = kNetworkTiers},
    {.name = "allow",
     .value = "NAME:PORT",
     .help = "a destination it may reach; with the tier restricted unless --network names one",
     .many = true},
    {.name = "on-denied",
     .value = "ACTION",
     .help = "of a destination that policy does not grant: deny (default), escalate or ask",
     .choices = kDeniedActions},
    kSecretFlag,
    {.name = "dep",
     .value = "PACKAGE",
     .help = "a package to have installed, such as numpy==1.26.4 or lodash@^4",
     .many = true},
    {.name = "deps-from",
     .value = "WHAT",
     .help = "packages named by: script (a block of PEP 723) or files (requirements.txt, "
             "package.json)",
     .choices = "script files"},
    {.name = "runtime", .value = "NAME", .help = "process (default), gvisor or microvm"},
    {.name = "image", .value = "NAME", .help = "an imported image (see `cloister image list`)"},
    {.name = "tier",
     .value = "NAME",
     .help = "Auto, Assisted, HumanApprove or ManualOnly, where policy wants no higher one",
     .choices = kTiers},
    {.name = "approval", .value = "ID", .help = "the escalation that was approved for this run"},
    {.name = "wait-approval", .value = "", .help = "stay while the run waits for an approval"},
    {.name = "interactive",
     .value = "",
     .help = "pass on input while the program runs, as a terminal's without this flag",
     .letter = 'i'},
    {.name = "tty", .value = "", .help = "give the program this terminal", .letter = 't'},
    {.name = "dry-run", .value = "", .help = "say what policy decides, and run nothing"},
    {.name = "verbose", .value = "", .help = "with --dry-run: the whole plan", .letter = 'v'},
    {.name = "raw", .value = "", .help = "let control sequences reach the terminal"},
};

Result<> putFiles(const Flags& flags, json::object& body) {
  json::array files;
  for (const std::string& spec : flags.all("file")) {
    std::string host = spec;
    std::string path;
    const size_t colon = spec.rfind(':');
    if (colon != std::string::npos && ::access(spec.c_str(), F_OK) != 0) {
      host = spec.substr(0, colon);
      path = spec.substr(colon + 1);
    }
    if (path.empty()) path = std::filesystem::path(host).filename().string();
    json::object file;
    file["path"] = path;
    putBytes(file, "content", TRY(base::readFile(host)));
    if (::access(host.c_str(), X_OK) == 0) file["executable"] = true;
    files.push_back(std::move(file));
  }
  if (!files.empty()) body["files"] = std::move(files);
  return {};
}

}  // namespace

std::span<const Flag> runFlags() {
  return kFlags;
}

Result<> putLimits(const Flags& flags, json::object& body) {
  constexpr int64_t kAnyNumber = 1'000'000'000;  // the service knows the real bounds
  if (const auto seconds = TRY(durationFlag(flags, "timeout"))) body["timeout_seconds"] = *seconds;
  for (const auto& [flag, member] : {std::pair("memory", "memory_mb"), {"disk", "disk_mb"}}) {
    if (const auto mib = TRY(memoryFlag(flags, flag))) body[member] = *mib;
  }
  if (const auto text = flags.text("cpu")) body["cpu_millis"] = TRY(parseCpuMillis(*text, "cpu"));
  if (const auto pids = TRY(flags.integer("pids", 1, kAnyNumber))) body["pids"] = *pids;
  return {};
}

Result<> putPairs(const Flags& flags, std::string_view flag, json::object& body) {
  json::object object;
  for (const std::string& pair : flags.all(flag)) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      const std::string name = "--" + std::string(flag);
      return fail(Code::kInvalid, name + ": must be NAME=VALUE, not " + pair, name);
    }
    object[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  if (!object.empty()) body[flag] = std::move(object);
  return {};
}

void putNetwork(const Flags& flags, json::object& body) {
  json::object network;
  const std::vector<std::string> allow = flags.all("allow");
  const auto on_denied = flags.text("on-denied");
  const auto tier = flags.text("network");
  if (tier || !allow.empty() || on_denied) network["tier"] = tier.value_or("restricted");
  if (!allow.empty()) network["allow"] = toArray(allow);
  if (on_denied) network["on_denied"] = *on_denied;
  if (!network.empty()) body["network_policy"] = std::move(network);
}

void putIsolation(const Flags& flags, json::object& body) {
  putNetwork(flags, body);
  if (const auto deps = flags.all("dep"); !deps.empty()) body["deps"] = toArray(deps);
  if (const auto from = flags.text("deps-from")) body["deps_from"] = *from;
  if (const auto runtime = flags.text("runtime")) body["runtime"] = *runtime;
  if (const auto image = flags.text("image")) body["image"] = *image;
  if (const auto tier = flags.text("tier")) body["tier"] = *tier;
  if (const auto approval = flags.text("approval")) body["approval"] = *approval;
}

json::array toArray(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts)
    array.emplace_back(text);
  return array;
}

std::string languageOf(const std::string& file_name) {
  const std::string extension = std::filesystem::path(file_name).extension().string();
  if (extension == ".py" || extension.empty()) return "python";  // without reading anything
  const auto languages = model::LanguageSet::load(base::shareDir() + "/languages");
  if (!languages) return "python";
  for (const model::Language& language : languages->all()) {
    if (std::ranges::find(language.extensions, extension) != language.extensions.end()) {
      return language.name;
    }
  }
  return "python";
}

void putBytes(json::object& object, std::string_view key, std::string_view bytes) {
  const bool text = base::isUtf8(bytes);
  object[key] = text ? std::string(bytes) : base::toBase64(bytes);
  if (!text) object["encoding"] = "base64";
}

Result<json::object> runBody(const Flags& flags, const RunSource& source) {
  json::object body;
  body["language"] = flags.text("language").value_or(languageOf(source.file_name));
  if (!base::isUtf8(source.code)) return fail(Code::kInvalid, "reading the code: it is not UTF-8");
  body["code"] = source.code;
  if (source.input && !source.input->empty()) putBytes(body, "input", *source.input);
  if (!flags.rest().empty()) body["args"] = toArray(flags.rest());
  TRY(putLimits(flags, body));
  TRY(putPairs(flags, "env", body));
  TRY(putFiles(flags, body));
  putIsolation(flags, body);
  TRY(putSecrets(flags, body));
  // Collecting files takes time, so files are collected only if the user will see the files.
  if (flags.has("artifacts")) {
    body["artifacts"] = toArray(flags.all("artifacts"));
  } else if (!flags.has("out") && !isStructured(flags)) {
    body["artifacts"] = json::array();
  }
  return body;
}

}  // namespace cloister::cli
