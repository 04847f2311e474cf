// SPDX-License-Identifier: Apache-2.0
#include "bench/targets.h"

#include "bench/figures.h"

namespace cloister::bench {
namespace {

namespace json = base::json;

bool measured(const Target& target) {
  return target.figure > 0 && (target.judge == Judge::kAtMost || target.beside > 0);
}

bool reached(const Target& target) {
  switch (target.judge) {
    case Judge::kRatioAtMost:
      return target.figure <= target.limit * target.beside;
    case Judge::kRatioAtLeast:
      return target.figure >= target.limit * target.beside;
    case Judge::kAtMost:
      return target.figure <= target.limit;
  }
  return false;
}

// Three digits, or all before the point.
std::string shown(double value) {
  return number(value, value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string amount(double value, const std::string& unit) {
  return value > 0 ? shown(value) + " " + unit : "—";
}

std::string limitOf(const Target& target) {
  std::string limit = number(target.limit, 2);
  limit.erase(limit.find_last_not_of('0') + 1);
  if (limit.ends_with('.')) limit.pop_back();
  if (target.judge == Judge::kAtMost) return "≤ " + limit + " " + target.unit;
  return (target.judge == Judge::kRatioAtMost ? "≤ " : "≥ ") + limit + " × " + target.peer;
}

}  // namespace

std::string targetTable(const std::vector<Target>& targets) {
  std::vector<std::vector<std::string>> rows;
  for (const Target& target : targets) {
    const bool ratio = target.figure > 0 && target.beside > 0;
    rows.push_back(
        {target.work, amount(target.figure, target.unit),
         target.peer.empty() ? "—" : target.peer + ": " + amount(target.beside, target.unit),
         ratio ? shown(target.figure / target.beside) : "—", limitOf(target),
         !measured(target) ? "not measured"
         : reached(target) ? "yes"
                           : "**no**",
         target.note});
  }
  return table({"work", "Cloister", "peer", "ratio", "target", "reached", "note"}, rows);
}

json::array toJsonArray(const std::vector<Target>& targets) {
  json::array rows;
  for (const Target& target : targets) {
    json::object row = {{"work", target.work}, {"unit", target.unit}, {"target", limitOf(target)}};
    row["figure"] = target.figure > 0 ? json::value(target.figure) : json::value();
    row["peer"] = target.peer;
    row["peer_figure"] = target.beside > 0 ? json::value(target.beside) : json::value();
    row["reached"] = measured(target) ? json::value(reached(target)) : json::value();
    row["note"] = target.note;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace cloister::bench
