// SPDX-License-Identifier: Apache-2.0
// Commands on resources as rows of a table. Most of these commands send one request and show its
// answer. A Verb defines the request, with its operands and flags, and the form of the answer. To
// add a command, add its Verb and its Command beside the resource's other commands. A command with
// further steps is a function, which may use the parts below.
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

// A column's part in a table.
enum class Fit {
  kCut,    // is cut off where the table is wider than the screen
  kWhole,  // is cut off last, and never an id; --quiet prints this column, or else the first
  kWide,   // is shown only by -o wide
};

struct Column {
  std::string_view heading;
  std::string_view member;  // "status", "principal.tenant"
  std::string (*shown)(const json::object&,
                       std::string_view) = textOf;  // of the object with the last member
  Fit fit = Fit::kCut;                              // the first column of a table is whole
};

struct Verb {
  std::string_view method = "GET";
  std::string_view path = {};
  std::string_view missing = {};  // the error if `path` needs a missing value
  std::string_view query = {};    // flags that are query parameters, as "status agent"
  Result<json::object> (*body)(const base::Flags&) = nullptr;
  // Every operand is a resource; `each` names the result: "deleted". Requests are sent in order.
  std::string_view each = {};

  std::string_view items = {};  // the answer's member with the list
  bool paged = false;           // shows the newest items, at most --limit
  std::span<const Column> columns =
      {};                       // a row for each item; without `items`, a line for each column
  std::string_view empty = {};  // said in place of a table without rows
  std::string_view said = {};   // printed before `text`
  std::string (*text)(const json::object& answer) = nullptr;
  std::string_view done = {};  // the JSON of an empty answer: {"id": …, "revoked": true}
  int (*status)(const json::object& answer) = nullptr;  // the exit status, unless always 0
};

Result<int> carryOut(const Verb& verb, const Invocation& invocation);
// A Command's `run`.
template <const Verb& verb>
Result<int> carryOut(const Invocation& invocation) {
  return carryOut(verb, invocation);
}

// --- parts

// The error without a session.
inline constexpr std::string_view kWhichSession =
    "which session: give its id or name (see `cloister session list`)";

// The value of the operand or flag, or else `missing` as an error.
Result<std::string> requestTarget(const Verb& verb, const base::Flags& flags);
// The answer as its ids, as JSON or YAML, or as text, as the flags say; returns the exit status.
int showAnswer(const Verb& verb, const Invocation& invocation, const json::object& answer);
std::string tableOf(std::span<const Column> columns, const json::array& items);

// Ways to show a member, for columns.
std::string bytesOf(const json::object& object, std::string_view name);   // "1.5 MiB"
std::string joinedOf(const json::object& object, std::string_view name);  // "agent, viewer"
// Times of the API: "3m" since one, "in 3m" until one or "over"; whole on a wide screen.
std::string ageOf(const json::object& object, std::string_view name);
std::string dueOf(const json::object& object, std::string_view name);

}  // namespace cloister::cli
