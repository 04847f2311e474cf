// SPDX-License-Identifier: Apache-2.0
#include "cli/session_body.h"

#include "base/crypto.h"
#include "cli/render/amounts.h"
#include "cli/run_body.h"
#include "cli/secret_uses.h"

namespace cloister::cli {
namespace {

namespace json = base::json;
using base::Flag;
using base::Flags;

constexpr Flag kSessionFlags[] = {
    {.name = "name", .value = "NAME", .help = "what it is called; usable wherever an id is"},
    {.name = "language",
     .value = "NAME",
     .help = "what code is written in that does not say it",
     .letter = 'l'},
    {.name = "ttl", .value = "TIME", .help = "how long it lives from now, as 2h (default 1h)"},
    {.name = "idle-ttl",
     .value = "TIME",
     .help = "how long it lives with no program running (default 10m)"},
    {.name = "env",
     .value = "NAME=VALUE",
     .help = "a variable for its programs",
     .letter = 'e',
     .many = true},
    {.name = "cwd", .value = "DIR", .help = "where programs start (default /workspace)"},
    {.name = "memory",
     .value = "SIZE",
     .help = "memory, files included, as 512MB or 2g (default 256MB)"},
    {.name = "cpu", .value = "CPU", .help = "800m or 0.8 of a core (default 800m)"},
    {.name = "pids", .value = "N", .help = "processes and threads (default 64)"},
    {.name = "disk", .value = "SIZE", .help = "scratch space (default 1GB)"},
    {.name = "timeout", .value = "TIME", .help = "wall time of a program (default 30s)"},
    {.name = "network",
     .value = "TIER",
     .help = "none (default), restricted, internal, api or full",
     .choices = kNetworkTiers},
    {.name = "allow",
     .value = "NAME:PORT",
     .help = "a destination for its programs; with the tier restricted unless --network names one",
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
    {.name = "runtime", .value = "NAME", .help = "process (default), gvisor or microvm"},
    {.name = "image", .value = "NAME", .help = "an imported image (see `cloister image list`)"},
    {.name = "tier",
     .value = "NAME",
     .help = "Auto, Assisted, HumanApprove or ManualOnly, where policy wants no higher one",
     .choices = kTiers},
    {.name = "metadata", .value = "NAME=VALUE", .help = "kept with its record", .many = true},
    {.name = "nested", .value = "", .help = "programs may have sandboxes of their own within it"},
    {.name = "from-snapshot", .value = "ID", .help = "begin with the files of a snapshot"},
    {.name = "capability",
     .value = "NAME",
     .help = "command_execution, file_read, file_write, file_delete or network: what may be done "
             "in it (default: all that its agent may do)",
     .many = true,
     .choices = "command_execution file_read file_write file_delete network"},
    {.name = "wait-approval", .value = "", .help = "stay while it waits for an approval"},
};
constexpr Flag kRenewalFlags[] = {
    {.name = "ttl", .value = "TIME", .help = "how long it lives from now (default: as before)"},
    {.name = "idle-ttl",
     .value = "TIME",
     .help = "how long it lives with no program running (default: as before)"},
};
constexpr Flag kExecFlags[] = {
    {.name = "code", .value = "CODE", .help = "run this code instead of a command", .letter = 'c'},
    {.name = "language",
     .value = "NAME",
     .help = "of the code (default: the session's, or python)",
     .letter = 'l'},
    {.name = "kernel",
     .value = "NAME",
     .help = "the interpreter for the code, or none (default: the language's own)"},
    {.name = "images", .value = "DIR", .help = "write the images that code shows into DIR"},
    {.name = "artifacts",
     .value = "GLOB",
     .help = "keep files that change meanwhile as artifacts",
     .many = true},
    {.name = "out", .value = "DIR", .help = "download them, all that changed if none are named"},
    {.name = "nested", .value = "", .help = "in a sandbox of its own within the session's"},
    {.name = "sandbox",
     .value = "WHICH",
     .help = "session, or fresh: in a sandbox of its own with the session's workspace",
     .choices = "session fresh"},
    {.name = "memory",
     .value = "SIZE",
     .help = "of a nested or fresh sandbox (default: the session's)"},
    {.name = "pids", .value = "N", .help = "of a nested or fresh sandbox (default: the session's)"},
    {.name = "disk", .value = "SIZE", .help = "of a nested program (default: the session's)"},
    {.name = "timeout", .value = "TIME", .help = "wall time (default: the session's)"},
    {.name = "cwd", .value = "DIR", .help = "where it starts (default: the session's)"},
    {.name = "env",
     .value = "NAME=VALUE",
     .help = "a variable for the program",
     .letter = 'e',
     .many = true},
    kSecretFlag,
    {.name = "approval", .value = "ID", .help = "the escalation that was approved for this"},
    {.name = "parent", .value = "ID", .help = "the execution of this session that calls"},
    {.name = "wait-approval", .value = "", .help = "stay while it waits for an approval"},
    {.name = "interactive",
     .value = "",
     .help = "pass on input even from a terminal",
     .letter = 'i'},
    {.name = "tty", .value = "", .help = "give the program this terminal", .letter = 't'},
    {.name = "background",
     .value = "",
     .help = "print the execution's id, and do not wait; it may last as long as the session"},
    {.name = "raw", .value = "", .help = "let control sequences reach the terminal"},
};

Result<> putTimes(const Flags& flags, json::object& body) {
  if (const auto ttl = TRY(durationFlag(flags, "ttl"))) body["ttl_seconds"] = *ttl;
  if (const auto ttl = TRY(durationFlag(flags, "idle-ttl"))) body["idle_ttl_seconds"] = *ttl;
  return {};
}

void putText(const Flags& flags, std::string_view flag, json::object& body) {
  if (const auto text = flags.text(flag)) body[flag] = *text;
}

}  // namespace

std::span<const Flag> sessionFlags() {
  return kSessionFlags;
}

std::span<const Flag> renewalFlags() {
  return kRenewalFlags;
}

std::span<const Flag> execFlags() {
  return kExecFlags;
}

Result<json::object> sessionBody(const Flags& flags) {
  json::object body;
  putText(flags, "name", body);
  putText(flags, "language", body);
  putText(flags, "cwd", body);
  if (const auto id = flags.text("from-snapshot")) body["from_snapshot"] = *id;
  TRY(putTimes(flags, body));
  TRY(putLimits(flags, body));
  TRY(putPairs(flags, "env", body));
  TRY(putPairs(flags, "metadata", body));
  putIsolation(flags, body);
  TRY(putSecrets(flags, body));
  if (flags.has("nested")) body["nested"] = true;
  if (flags.has("capability")) body["capabilities"] = toArray(flags.all("capability"));
  return body;
}

Result<json::object> renewalBody(const Flags& flags) {
  json::object body;
  TRY(putTimes(flags, body));
  return body;
}

Result<json::object> execBody(const Flags& flags, const FirstInput& input) {
  json::object body;
  const auto code = flags.text("code");
  if (!code && flags.rest().empty()) {
    return fail(Code::kInvalid, "what to run: give -c CODE, or a command after --");
  }
  if (code && !base::isUtf8(*code)) return fail(Code::kInvalid, "--code: it is not UTF-8");
  putText(flags, "code", body);
  putText(flags, "language", body);
  putText(flags, "kernel", body);
  putText(flags, "approval", body);
  if (const auto parent = flags.text("parent")) body["parent_id"] = *parent;
  putText(flags, "cwd", body);
  if (!flags.rest().empty()) body[code ? "args" : "command"] = toArray(flags.rest());
  TRY(putLimits(flags, body));
  TRY(putPairs(flags, "env", body));
  TRY(putSecrets(flags, body));
  if (flags.has("artifacts")) {
    body["artifacts"] = toArray(flags.all("artifacts"));
  } else if (flags.has("out")) {
    body["artifacts"] = json::array{"**"};
  }
  if (!input.bytes.empty()) putBytes(body, "input", input.bytes);
  if (input.more && !flags.has("tty")) body["keep_input"] = true;
  if (flags.has("background")) body["background"] = true;
  if (flags.has("nested")) body["nested"] = true;
  putText(flags, "sandbox", body);
  return body;
}

}  // namespace cloister::cli
