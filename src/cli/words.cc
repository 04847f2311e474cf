// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <algorithm>

namespace cloister::cli {
namespace {

using base::FlagWord;

// The first entry whose flag the command has counts.
constexpr FlagWord kFlagWords[] = {
    // Earlier names.
    {"--ttl-seconds", "ttl", true, "s"},
    {"--expires-seconds", "expires", true, "s"},
    {"--expires-in-days", "expires", true, "d"},
    {"--expires-at", "expires", true},
    {"--overlap-hours", "overlap", true, "h"},
    {"--unused-days", "unused", true, "d"},
    {"--memory-mb", "memory", true, "MB"},
    {"--storage-mb", "storage", true, "MB"},
    {"--stdin", "interactive", true},
    {"--real-time", "watch", true},
    // Words of other tools.
    {"--cpus", "cpu", true, " cores"},
    {"--lang", "language"},
    {"--runtime-language", "language"},
    {"--ram", "memory"},
    {"--mem", "memory"},
    {"--memory-limit", "memory"},
    {"-m", "memory"},
    {"--cpu-limit", "cpu"},
    {"--cpu-millis", "cpu"},
    {"--storage", "disk"},
    {"--disk-mb", "disk"},
    {"--pids-limit", "pids"},
    {"--processes", "pids"},
    {"--max-time", "timeout"},
    {"--time-limit", "timeout"},
    {"--wall", "timeout"},
    {"--wall-time", "timeout"},
    {"--deadline", "timeout"},
    {"--timeout-seconds", "timeout"},
    {"--duration", "timeout"},
    {"--duration", "ttl"},
    {"--duration", "expires"},
    {"--lifetime", "ttl"},
    {"--keep-for", "ttl"},
    {"--expires", "ttl"},
    {"--expiry", "ttl"},
    {"--expiry", "expires"},
    {"--ttl", "expires"},
    {"--valid-for", "expires"},
    {"--idle", "idle-ttl"},
    {"--idle-timeout", "idle-ttl"},
    {"--environment", "env"},
    {"--env-var", "env"},
    {"--variable", "env"},
    {"--workdir", "cwd"},
    {"--working-dir", "cwd"},
    {"--directory", "cwd"},
    {"-w", "cwd"},
    {"--detach", "background"},
    {"-d", "background"},
    {"--eval", "code"},
    {"--exec", "code"},
    {"--program", "code"},
    {"--net", "network"},
    {"--network-tier", "network"},
    {"--network-policy", "network"},
    {"--egress", "allow"},
    {"--allow-net", "allow"},
    {"--allow-host", "allow"},
    {"--host", "allow"},
    {"--package", "dep"},
    {"--packages", "dep"},
    {"--deps", "dep"},
    {"--dependency", "dep"},
    {"--requirement", "dep"},
    {"--pip", "dep"},
    {"--install", "dep"},
    {"--volume", "file"},
    {"--mount", "file"},
    {"-v", "file"},
    {"--upload", "file"},
    {"--artifact", "artifacts"},
    {"--output-dir", "out"},
    {"--download", "out"},
    {"--isolation", "runtime"},
    {"--approve", "approval"},
    {"--escalation", "approval"},
    {"--plan", "dry-run"},
    {"--check", "dry-run"},
    {"--label", "metadata"},
    {"--labels", "metadata"},
    {"--annotation", "metadata"},
    {"--tag", "metadata"},
    {"--filter", "status"},
    {"--state", "status"},
    {"--max", "limit"},
    {"--count", "limit"},
    {"-n", "limit"},
    {"--tail", "limit"},
    {"--lines", "tail"},
    {"--role-name", "role"},
    {"--ip", "from"},
    {"--snapshot", "from-snapshot"},
    {"--restore", "from-snapshot"},
    {"--from", "from-snapshot"},
    {"--format", "output"},
    {"--server", "url"},
    {"--endpoint", "url"},
    {"--api-url", "url"},
    {"--api-key", "key-file"},
    {"--token", "key-file"},
    {"--silent", "quiet"},
};

struct Word {
  std::string_view word;
  std::string_view means;
};

// Verbs with the same meaning are taken for each other.
constexpr Word kVerbs[] = {
    {"ls", "list"},
    {"ps", "list"},
    {"rm", "remove delete end revoke cancel"},
    {"remove", "rm delete end"},
    {"delete", "rm remove end revoke"},
    {"del", "rm delete remove"},
    {"destroy", "end rm delete"},
    {"get", "show"},
    {"inspect", "show"},
    {"describe", "show"},
    {"info", "show"},
    {"view", "show"},
    {"status", "show"},
    {"new", "create"},
    {"add", "create set put"},
    {"start", "create"},
    {"kill", "cancel end"},
    {"stop", "end cancel"},
    {"terminate", "end cancel"},
    {"log", "logs"},
    {"put", "set"},
    {"write", "set"},
};

// A command of another tool.
constexpr Word kCommands[] = {
    {"ps", "session list"},
    {"ls", "session list"},
    {"list", "session list"},
    {"logs", "execution logs"},
    {"attach", "execution watch"},
    {"kill", "execution cancel"},
    {"stop", "session end"},
    {"rm", "session end"},
    {"create", "session create"},
    {"start", "serve"},
    {"server", "serve"},
    {"copy", "cp"},
    {"ssh", "shell"},
    {"images", "image list"},
    {"pull", "image import"},
    {"load", "image import"},
    {"import", "image import"},
    {"inspect", "session show"},
    {"describe", "session show"},
    {"auth", "whoami"},
    {"login", "key create"},
    {"approve", "escalation approve"},
    {"deny", "escalation deny"},
    {"secrets", "secret list"},
    {"stats", "agent stats"},
    {"events", "session events"},
    {"port-forward", "port open"},
    {"proxy", "port open"},
    {"info", "doctor"},
    {"eval", "run"},
};

template <size_t n>
std::string_view meaningOf(const Word (&words)[n], std::string_view word) {
  const auto* found = std::ranges::find(words, word, &Word::word);
  return found == std::end(words) ? std::string_view() : found->means;
}

}  // namespace

std::span<const FlagWord> flagWords() {
  return kFlagWords;
}

std::string_view verbsFor(std::string_view verb) {
  return meaningOf(kVerbs, verb);
}

std::string_view commandFor(std::string_view word) {
  return meaningOf(kCommands, word);
}

}  // namespace cloister::cli
