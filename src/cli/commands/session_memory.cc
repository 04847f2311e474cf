// SPDX-License-Identifier: Apache-2.0
// `cloister session memory …`: values kept by a session.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "cli/commands/resources.h"
#include "cli/relay.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr size_t kManyKeys = 1000;

// The given words, at most `most`, also after --, because a value may begin with a dash.
Result<std::vector<std::string>> wordsOf(const Invocation& invocation, size_t most) {
  std::vector<std::string> words = invocation.flags.operands();
  std::ranges::copy(invocation.flags.rest(), std::back_inserter(words));
  if (words.size() <= most) return words;
  return fail(Code::kInvalid, "what is \"" + printable(words[most]) + "\" for? see --help");
}

Result<std::string> targetOf(const std::vector<std::string>& words) {
  if (words.empty()) {
    return fail(Code::kInvalid, std::string(kWhichSession));
  }
  return "/v1/sessions/" + net::percentEncode(words[0]) + "/memory";
}

Result<std::string> targetOfKey(const std::vector<std::string>& words) {
  const std::string target = TRY(targetOf(words));
  if (words.size() > 1) return target + "/" + net::percentEncode(words[1]);
  return fail(Code::kInvalid, "which key: give it (see `cloister session memory list`)");
}

constexpr Column kKeys[] = {
    {"KEY", "key"}, {"SIZE", "size", bytesOf}, {"UPDATED", "updated_at", ageOf}};

Result<int> list(const Invocation& invocation) {
  const std::vector<std::string> words = TRY(wordsOf(invocation, 1));
  const std::string target = TRY(targetOf(words));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer{{"memory", TRY(newest(client, target, "memory", invocation.flags))}};
  return showAnswer({.items = "memory", .columns = kKeys}, invocation, answer);
}

// The value's text, for people and pipes.
Result<std::string> plainText(const std::string& value) {
  const json::value parsed = TRY(base::parseJson(value));
  if (parsed.is_string()) return std::string(parsed.get_string());
  return fail(Code::kInvalid, "--text: the value is no text; leave the flag out");
}

Result<int> get(const Invocation& invocation) {
  const std::vector<std::string> words = TRY(wordsOf(invocation, 2));
  const std::string target = TRY(targetOfKey(words));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const net::HttpResponse answer = TRY(client.exchange({.method = "GET", .target = target}));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  const bool text = invocation.flags.has("text");
  const std::string value = text ? TRY(plainText(answer.body)) : answer.body + "\n";
  const bool shown = isTerminal(STDOUT_FILENO);
  if (writeTo(STDOUT_FILENO, shown ? TerminalFilter()(value) : value)) return 0;
  return fail(Code::kUnavailable, "writing the value: nobody reads it");
}

Result<std::string> valueOf(const std::vector<std::string>& words) {
  if (words.size() > 2 && words[2] != "-") return words[2];
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP}));
  return readStdin(signals);
}

Result<int> set(const Invocation& invocation) {
  const std::vector<std::string> words = TRY(wordsOf(invocation, 3));
  const std::string target = TRY(targetOfKey(words));
  std::string value = TRY(valueOf(words));
  if (invocation.flags.has("text")) {
    if (!base::isUtf8(value)) return fail(Code::kInvalid, "--text: the value is not UTF-8");
    value = base::toJson(json::string(value));
  }
  net::BlockingClient client = TRY(connect(invocation.globals));
  const net::HttpResponse answer =
      TRY(client.exchange({.method = "PUT", .target = target, .body = value}));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  if (invocation.globals.json) printJson(TRY(parseObject(answer.body)));
  return 0;
}

Result<int> remove(const Invocation& invocation) {
  const std::vector<std::string> words = TRY(wordsOf(invocation, kManyKeys));
  TRY(targetOfKey(words));
  const std::string target = TRY(targetOf(words));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const std::vector<std::string> keys(words.begin() + 1, words.end());
  for (const std::string& key : keys) {
    TRY(call(client, "DELETE", target + "/" + net::percentEncode(key)));
    if (!invocation.globals.json) writeTo(STDOUT_FILENO, printable(key) + ": deleted\n");
  }
  if (invocation.globals.json) {
    printJson(json::object{{"deleted", json::array(keys.begin(), keys.end())}});
  }
  return 0;
}

constexpr Flag kListFlags[] = {
    {.name = "limit", .value = "N", .help = "at most so many, by key (default 20)"},
};
constexpr Flag kGetFlags[] = {
    {.name = "text", .value = "", .help = "the value is a text: print it without quotes"},
};
constexpr Flag kSetFlags[] = {
    {.name = "text", .value = "", .help = "VALUE is a text, not JSON"},
};

}  // namespace

const Command kSessionMemoryList = {.name = "session memory list",
                                    .operands = "SESSION",
                                    .max_operands = 1,
                                    .summary = "list the keys of a session's memory",
                                    .flags = kListFlags,
                                    .run = list};
const Command kSessionMemoryGet = {.name = "session memory get",
                                   .operands = "SESSION KEY",
                                   .max_operands = 2,
                                   .summary = "print a value of a session's memory, as JSON",
                                   .flags = kGetFlags,
                                   .run = get};
const Command kSessionMemorySet = {
    .name = "session memory set",
    .operands = "SESSION KEY [VALUE | -]",
    .max_operands = 3,
    .summary = "keep a JSON value in a session's memory",
    .details =
        "Without VALUE, or with -, it is read from standard input. It is kept until the session's\n"
        "record goes, and given back byte for byte. Programs in the session do not see it.",
    .flags = kSetFlags,
    .examples =
        "cloister session memory set $S plan '{\"step\": 3}'\n"
        "cloister session memory set $S note --text 'look at main.c'\n"
        "cloister session memory set $S result < result.json",
    .run = set};
const Command kSessionMemoryDelete = {.name = "session memory delete",
                                      .operands = "SESSION KEY...",
                                      .max_operands = kManyKeys,
                                      .summary = "delete values of a session's memory",
                                      .run = remove};

}  // namespace cloister::cli
