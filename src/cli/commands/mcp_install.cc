// SPDX-License-Identifier: Apache-2.0
// `cloister mcp install`: configures MCP clients for this server, or prints text to paste.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/json_splice.h"
#include "cli/mcp_clients.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "supervisor/state_dir.h"

namespace cloister::cli {
namespace {

using base::Flag;
namespace fs = std::filesystem;

constexpr size_t kMostConfiguration = size_t{4} << 20;

std::string variable(const char* name) {
  const char* text = ::getenv(name);
  return text == nullptr ? "" : text;
}

Result<const McpClient*> clientCalled(const std::string& name) {
  std::vector<std::string> names;
  for (const McpClient& client : mcpClients()) {
    if (client.name == name) return &client;
    names.emplace_back(client.name);
  }
  const std::string nearest = base::nearestName(name, names);
  std::string known;
  for (const std::string& one : names)
    known.append(known.empty() ? "" : ", ").append(one);
  return fail(Code::kInvalid,
              "--client " + printable(name) + ": " +
                  (nearest.empty() ? "one of " + known : "did you mean " + nearest + "?"));
}

std::string absolute(const std::string& path) {
  std::error_code failed;
  const fs::path full = fs::absolute(path, failed);
  return failed ? path : full.lexically_normal().string();
}

// A client starts this program with little of the present environment, so settings that select the
// server become arguments. A key never becomes an argument, only the name of its file.
Result<McpLaunch> launchFor(const Globals& globals) {
  McpLaunch launch{.program = base::programDir() + "/cloister", .args = {"mcp"}};
  const auto add = [&launch](std::string_view flag, const std::string& value) {
    launch.args.emplace_back(flag);
    launch.args.push_back(value);
  };
  const std::string url = globals.url.value_or(variable("CLOISTER_URL"));
  if (!url.empty()) {
    TRY(net::parseBaseUrl(url));
    add("--url", url);
  }
  if (globals.key_file) {
    TRY(supervisor::readKey(*globals.key_file));
    add("--key-file", absolute(*globals.key_file));
  }
  if (globals.state) {
    add("--state", absolute(*globals.state));
  } else if (url.empty() && !variable("XDG_STATE_HOME").empty() && ::geteuid() != 0) {
    add("--state", base::defaultStateDir());
  }
  return launch;
}

// A configuration that cannot work is not written.
Result<> mayWrite(const Globals& globals) {
  if (!variable("CLOISTER_API_KEY").empty() && !globals.key_file) {
    return fail(Code::kInvalid,
                "the key in $CLOISTER_API_KEY is not written into anyone's configuration: keep it "
                "in a file of mode 0600 and name that with --key-file FILE (or unset it, to use "
                "this account's own server)");
  }
  return {};
}

Result<std::string> fileOf(const McpClient& client, const Invocation& invocation) {
  if (const auto given = invocation.flags.text("file")) return absolute(*given);
  if (!client.file.starts_with("~/")) return absolute(std::string(client.file));
  const std::string home = variable("HOME");
  if (home.empty()) return fail(Code::kInvalid, "HOME is not set: name the file with --file");
  return home + std::string(client.file.substr(1));
}

// Follows links, because some editors keep their settings behind links.
Result<std::string> behindLinks(const std::string& path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(path, failed);
  if (failed) return fail(Code::kInvalid, "resolving " + path + ": " + failed.message());
  return real.string();
}

// True if the file changed.
Result<bool> writeEntry(const McpClient& client, const McpLaunch& launch, const std::string& file) {
  constexpr mode_t kPrivate = 0600;
  const std::string path = TRY(behindLinks(file));
  struct stat facts{};
  const bool there = ::stat(path.c_str(), &facts) == 0;
  if (there && !S_ISREG(facts.st_mode)) {
    return fail(Code::kInvalid, path + ": not a regular file");
  }
  const std::string before = there ? TRY(base::readFile(path, kMostConfiguration)) : "";
  const std::string entry = entryText(client, launch);
  auto after =
      spliceMember(before, {.group = client.group, .name = kMcpServerName, .value = entry});
  if (!after) {
    return std::unexpected(
        std::move(after).error().within(path + " is left as it is, for it cannot be read as JSON"));
  }
  if (*after == before) return false;
  TRY(base::makeDirs(fs::path(path).parent_path().string(), 0755));
  TRY(base::writeFileAtomic(path, *after, there ? facts.st_mode & 0777 : kPrivate));
  return true;
}

Result<int> write(const Invocation& invocation, const McpClient& client, const McpLaunch& launch) {
  if (client.file.empty()) {
    return fail(Code::kInvalid, "--write: " + std::string(client.title) +
                                    " is set up in a program, not in a file; paste what --print "
                                    "shows");
  }
  TRY(mayWrite(invocation.globals));
  const std::string file = TRY(fileOf(client, invocation));
  const bool changed = TRY(writeEntry(client, launch, file));
  if (invocation.globals.json) {
    printJson(json::object{{"client", client.name}, {"file", file}, {"changed", changed}});
  } else {
    writeTo(STDOUT_FILENO, printable(file) + (changed ? ": written; restart " : ": unchanged; ") +
                               (changed ? std::string(client.title) : "it has this server") + "\n");
  }
  return 0;
}

// For one client prints only the text to paste on stdout, for a pipe; for all clients each text
// under the client's name.
Result<int> print(const Invocation& invocation, std::span<const McpClient> clients,
                  const McpLaunch& launch) {
  json::array all;
  for (const McpClient& client : clients) {
    const std::string where =
        client.file.empty() ? "your program" : TRY(fileOf(client, invocation));
    const std::string text = documentText(client, launch);
    if (invocation.globals.json) {
      all.push_back(json::object{{"client", client.name}, {"file", where}, {"text", text}});
    } else {
      writeTo(clients.size() == 1 ? STDERR_FILENO : STDOUT_FILENO,
              "# " + std::string(client.title) + ", in " + printable(where) + ":\n");
      writeTo(STDOUT_FILENO, text + (clients.size() == 1 ? "" : "\n"));
    }
  }
  if (invocation.globals.json) printJson(json::object{{"clients", all}});
  if (!mayWrite(invocation.globals)) {
    writeTo(STDERR_FILENO,
            "cloister: the key in $CLOISTER_API_KEY is not in this; keep it in a file of mode 0600 "
            "and name that with --key-file FILE\n");
  }
  return 0;
}

Result<int> install(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  if (flags.has("print") && flags.has("write")) {
    return fail(Code::kInvalid, "--print and --write: choose one");
  }
  const McpClient* chosen = nullptr;
  if (const auto name = flags.text("client")) chosen = TRY(clientCalled(*name));
  if (chosen == nullptr && (flags.has("write") || flags.has("file"))) {
    return fail(Code::kInvalid, "for which client: give --client NAME");
  }
  const McpLaunch launch = TRY(launchFor(invocation.globals));
  if (flags.has("write")) return write(invocation, *chosen, launch);
  const auto all = mcpClients();
  return print(invocation, chosen == nullptr ? all : std::span(chosen, 1), launch);
}

constexpr Flag kFlags[] = {
    {.name = "client",
     .value = "NAME",
     .help = "claude-desktop, claude-code, vscode, cursor, openai-agents or inspector"},
    {.name = "print", .value = "", .help = "show what to paste (default)"},
    {.name = "write", .value = "", .help = "put it into the client's file, and leave the rest"},
    {.name = "file", .value = "FILE", .help = "the client's file, where it is not the usual one"},
};

}  // namespace

const Command kMcpInstall = {
    .name = "mcp install",
    .summary = "configure an MCP client for this server",
    .details =
        "What is printed or written starts `cloister mcp` with --url, --key-file and --state as "
        "they were given here. It never holds a key.",
    .flags = kFlags,
    .examples =
        "cloister mcp install --client claude-code\n"
        "cloister mcp install --client cursor --write\n"
        "cloister mcp install --client vscode --url http://10.0.0.5:8750 --key-file "
        "~/.cloister.key --write",
    .run = install};

}  // namespace cloister::cli
