// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/resources.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/screen.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

// `text` with each name in braces replaced by its value.
std::string filled(std::string_view text,
                   const std::function<std::string(std::string_view)>& valueOf) {
  std::string out;
  for (;;) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = text.find('}', open);
    out += valueOf(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
}

bool isFlag(std::string_view name) {
  return name.starts_with("--");
}

// For "" the first operand, for "--operation" every value of the flag; "" for none.
std::string given(std::string_view name, const base::Flags& flags) {
  if (!isFlag(name)) return flags.operands().empty() ? "" : flags.operands()[0];
  std::string text;
  for (const std::string& one : flags.all(name.substr(2)))
    text += (text.empty() ? "" : ", ") + one;
  return text;
}

int64_t secondsFrom(int64_t from_micros, int64_t to_micros) {
  constexpr int64_t kSecond = 1'000'000;
  return (to_micros - from_micros) / kSecond;
}

std::string cellOf(const Column& column, const json::object& object) {
  const size_t dot = column.member.find('.');
  if (dot == std::string_view::npos) return column.shown(object, column.member);
  return column.shown(objectOf(object, column.member.substr(0, dot)),
                      column.member.substr(dot + 1));
}

std::string linesOf(std::span<const Column> columns, const json::object& object) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Column& column : columns)
    lines.emplace_back(column.heading, cellOf(column, object));
  return pairs(lines);
}

// The column that names an item.
const Column& keyOf(std::span<const Column> columns) {
  const auto found = std::ranges::find(columns, Fit::kWhole, &Column::fit);
  return found == columns.end() ? columns.front() : *found;
}

// What --quiet prints: a line for each resource of the answer.
std::string idsOf(const Verb& verb, const json::object& answer) {
  const auto lineOf = [&](const json::object& object) {
    std::string id = verb.columns.empty() ? "" : cellOf(keyOf(verb.columns), object);
    for (const char* member : {"id", "name"}) {
      if (id.empty()) id = textOf(object, member);
    }
    return id.empty() ? "" : printable(id) + "\n";
  };
  if (verb.items.empty()) return lineOf(answer);
  std::string lines;
  for (const json::value& item : arrayOf(answer, verb.items)) {
    if (item.is_object()) lines += lineOf(item.get_object());
  }
  return lines;
}

std::string saidOf(std::string_view text, const base::Flags& flags, const json::object& answer) {
  return filled(text, [&](std::string_view name) {
    const bool asked = name.empty() || isFlag(name);
    return printable(asked ? given(name, flags) : cellOf({.heading = "", .member = name}, answer));
  });
}

std::string shownText(const Verb& verb, const base::Flags& flags, const json::object& answer) {
  std::string text = saidOf(verb.said, flags, answer);
  if (verb.text != nullptr) text += verb.text(answer);
  if (verb.columns.empty()) return text;
  if (verb.items.empty()) return text + linesOf(verb.columns, answer);
  const json::array& items = arrayOf(answer, verb.items);
  if (items.empty() && !verb.empty.empty()) return text + saidOf(verb.empty, flags, answer);
  return text + tableOf(verb.columns, items);
}

// {"agent": "alice", "deleted": true}
json::object doneObject(const Verb& verb, const base::Flags& flags) {
  const size_t open = verb.path.find('{') + 1;
  const std::string_view name = verb.path.substr(open, verb.path.find('}') - open);
  return {{isFlag(name) ? name.substr(2) : "id", given(name, flags)}, {verb.done, true}};
}

Result<int> carryOutEach(const Verb& verb, const Invocation& invocation,
                         net::BlockingClient& client) {
  json::array answers;
  const auto& ids = invocation.flags.operands();
  for (const std::string& id : ids) {
    const std::string target =
        filled(verb.path, [&](std::string_view) { return net::percentEncode(id); });
    answers.push_back(TRY(call(client, verb.method, target)));
    if (invocation.globals.json) continue;
    const std::string result = invocation.globals.quiet ? "" : ": " + std::string(verb.each);
    writeTo(STDOUT_FILENO, printable(id) + result + "\n");
  }
  if (!invocation.globals.json) return 0;
  if (verb.items.empty()) {
    printJson(json::object{{verb.each, json::array(ids.begin(), ids.end())}});
  } else {
    printJson(json::object{{verb.items, std::move(answers)}});
  }
  return 0;
}

}  // namespace

Result<std::string> requestTarget(const Verb& verb, const base::Flags& flags) {
  bool missing = false;
  std::string target = filled(verb.path, [&](std::string_view name) {
    const std::string value = given(name, flags);
    missing |= isFlag(name) ? value.empty() : flags.operands().empty();
    return net::percentEncode(value);
  });
  if (missing) return fail(Code::kInvalid, std::string(verb.missing));
  std::string_view left = verb.query;
  while (!left.empty()) {
    const std::string_view flag = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(flag.size() + 1, left.size()));
    const auto value = flags.text(flag);
    if (!value) continue;
    target.append(target.contains('?') ? "&" : "?").append(flag).append("=");
    target.append(net::percentEncode(*value));
  }
  return target;
}

int showAnswer(const Verb& verb, const Invocation& invocation, const json::object& answer) {
  if (invocation.globals.json) {
    printJson(verb.done.empty() ? answer : doneObject(verb, invocation.flags));
  } else if (invocation.globals.quiet) {
    writeTo(STDOUT_FILENO, idsOf(verb, answer));
  } else {
    writeTo(STDOUT_FILENO, shownText(verb, invocation.flags, answer));
  }
  return verb.status == nullptr ? 0 : verb.status(answer);
}

Result<int> carryOut(const Verb& verb, const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  const std::string target = TRY(requestTarget(verb, flags));
  json::object body;
  if (verb.body != nullptr) body = TRY(verb.body(flags));
  net::BlockingClient client = TRY(connect(invocation.globals));
  if (!verb.each.empty()) return carryOutEach(verb, invocation, client);
  json::object answer;
  if (verb.paged) {
    answer[verb.items] = TRY(newest(client, target, verb.items, flags));
  } else {
    answer = TRY(call(client, verb.method, target, body));
  }
  return showAnswer(verb, invocation, answer);
}

std::string tableOf(std::span<const Column> columns, const json::array& items) {
  std::vector<Heading> headings;
  std::vector<const Column*> shown;
  for (const Column& column : columns) {
    if (column.fit == Fit::kWide && !screen().wide) continue;
    headings.push_back({column.heading, shown.empty() || column.fit == Fit::kWhole});
    shown.push_back(&column);
  }
  std::vector<std::vector<std::string>> rows;
  for (const json::value& item : items) {
    if (!item.is_object()) continue;
    std::vector<std::string>& row = rows.emplace_back();
    for (const Column* column : shown)
      row.push_back(cellOf(*column, item.get_object()));
  }
  return table(headings, rows);
}

std::string ageOf(const json::object& object, std::string_view name) {
  const std::string text = textOf(object, name);
  const auto time = screen().wide ? std::nullopt : base::parseTime(text);
  return time ? shortSeconds(secondsFrom(*time, base::wallMicros())) : text;
}

std::string dueOf(const json::object& object, std::string_view name) {
  const std::string text = textOf(object, name);
  const auto time = screen().wide ? std::nullopt : base::parseTime(text);
  if (!time) return text;
  const int64_t left = secondsFrom(base::wallMicros(), *time);
  return left <= 0 ? "over" : "in " + shortSeconds(left);
}

std::string bytesOf(const json::object& object, std::string_view name) {
  return humanBytes(static_cast<uint64_t>(integerOf(object, name)));
}

std::string joinedOf(const json::object& object, std::string_view name) {
  std::string text;
  for (const json::value& item : arrayOf(object, name)) {
    if (item.is_string()) text += (text.empty() ? "" : ", ") + std::string(item.get_string());
  }
  return text;
}

}  // namespace cloister::cli
