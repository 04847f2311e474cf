// SPDX-License-Identifier: Apache-2.0
// Commands on resources as rows of a table. Most of these commands send one request and show its
// answer; a Verb says which request, made of which operands and flags, and how the answer is shown.
// To add one: its Verb and its Command, beside those of the same resource. A command that does more
// is a function, which may use the parts below.
//
// In `path` and `said` braces stand for a value: {} is the first operand, {--agent} a flag, and in
// `said` {principal.tenant} a member of the answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/api.h"
#include "cli/command.h"

namespace cloister::cli {

struct Column {
  std::string_view heading;
  std::string_view member;  // "status", "principal.tenant"
  std::string (*shown)(const json::object&,
                       std::string_view) = textOf;  // of the object with the last member
};

struct Verb {
  std::string_view method = "GET";
  std::string_view path = {};
  std::string_view missing = {};  // the error where `path` needs a value that was not given
  std::string_view query = {};    // flags that are query parameters, as "status agent"
  Result<json::object> (*body)(const base::Flags&) = nullptr;
  // Every operand is a resource, and becomes this: "deleted". The requests are sent one by one.
  std::string_view each = {};

  std::string_view items = {};  // the member of the answer that is the list
  bool paged = false;           // the newest of it, as many as --limit says
  std::span<const Column> columns =
      {};                       // a row for each item; without `items`, a line for each column
  std::string_view empty = {};  // said in place of a table without rows
  std::string_view said = {};   // printed before `text`
  std::string (*text)(const json::object& answer) = nullptr;
  std::string_view done = {};  // the JSON of an empty answer: {"id": …, "revoked": true}
  int (*status)(const json::object& answer) = nullptr;  // the exit status, if it is not always 0
};

Result<int> carryOut(const Verb& verb, const Invocation& invocation);
// A Command's `run`.
template <const Verb& verb>
Result<int> carryOut(const Invocation& invocation) {
  return carryOut(verb, invocation);
}

// --- parts of it

// The value of the operand or flag, or else `missing` as an error.
Result<std::string> requestTarget(const Verb& verb, const base::Flags& flags);
// The answer as JSON or text, as --json says; returns the exit status.
int showAnswer(const Verb& verb, const Invocation& invocation, const json::object& answer);
std::string tableOf(std::span<const Column> columns, const json::array& items);

// Ways to show a member, for columns.
std::string bytesOf(const json::object& object, std::string_view name);   // "1.5 MiB"
std::string joinedOf(const json::object& object, std::string_view name);  // "agent, viewer"

}  // namespace cloister::cli
