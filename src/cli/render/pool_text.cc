// SPDX-License-Identifier: Apache-2.0
#include "cli/render/pool_text.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "cli/api.h"
#include "cli/render/outline.h"

namespace cloister::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string humanMicros(int64_t micros) {
  constexpr double kMilli = 1e3;
  constexpr double kSecond = 1e6;
  const auto value = static_cast<double>(micros);
  char text[32];
  std::snprintf(text, sizeof text, value < kSecond ? "%.4g ms" : "%.4g s",
                value / (value < kSecond ? kMilli : kSecond));
  return text;
}

constexpr Heading kHeadings[] = {{"LANGUAGE"}, {"LIMITS"}, {"SCRATCH"}, {"READY"},
                                 {"WANTED"},   {"MAKING"}, {"WAITING"}};

Rows kindRows(const json::object& pool) {
  Rows rows;
  for (const json::value& item : arrayOf(pool, "kinds")) {
    if (!item.is_object()) continue;
    const json::object& kind = item.get_object();
    rows.push_back({textOf(kind, "language"), textOf(kind, "limits"),
                    humanBytes(static_cast<uint64_t>(integerOf(kind, "scratch_bytes"))),
                    textOf(kind, "ready"), textOf(kind, "wanted"), textOf(kind, "making"),
                    textOf(kind, "waiting")});
  }
  return rows;
}

std::string shares(const json::object& claims) {
  std::string text;
  for (const auto& claim : claims) {
    text.append(text.empty() ? "" : ", ").append(textOf(claims, claim.key()));
    text.append(" ").append(std::string_view(claim.key()));
  }
  return text;
}

std::string latency(const json::object& durations) {
  const int64_t count = integerOf(durations, "count");
  if (count <= 0) return "none yet";
  return std::to_string(count) + ", half within " + withinOf(durations, 50) + ", 99 % within " +
         withinOf(durations, 99) + ", " + humanMicros(integerOf(durations, "sum") / count) +
         " on average";
}

std::string heldText(const std::string& held) {
  if (held == "memory") return "memory is short: nothing is made ahead, and the ready ones go";
  if (held == "cpu") return "no processor is free: nothing is made ahead";
  return "nothing";
}

}  // namespace

std::string withinOf(const json::object& durations, int64_t percent) {
  const int64_t count = integerOf(durations, "count");
  if (count <= 0) return "-";
  int64_t longest = 0;
  for (const json::value& item : arrayOf(durations, "buckets")) {
    if (!item.is_object()) continue;
    longest = integerOf(item.get_object(), "le");
    // In floating point: a server may say anything.
    if (static_cast<double>(integerOf(item.get_object(), "count")) * 100 >=
        static_cast<double>(count) * static_cast<double>(percent)) {
      return humanMicros(longest);
    }
  }
  return "more than " + humanMicros(longest);
}

std::string poolText(const json::object& pool) {
  const std::vector<std::pair<std::string, std::string>> rest = {
      {"claims", shares(objectOf(pool, "claims"))},
      {"claim", latency(objectOf(pool, "claim_us"))},
      {"refill", latency(objectOf(pool, "refill_us"))},
      {"held by", heldText(textOf(pool, "held"))},
      {"zygotes",
       textOf(pool, "zygotes") + " standing, " + textOf(pool, "copies") + " copies made"},
      {"given up", textOf(pool, "dead") + " found dead, " + textOf(pool, "drained") +
                       " while memory was short"},
      {"teardown", textOf(pool, "teardown_backlog") + " under way"},
  };
  const Rows kinds = kindRows(pool);
  return (kinds.empty() ? "nothing is kept ready\n" : table(kHeadings, kinds)) + "\n" + pairs(rest);
}

}  // namespace cloister::cli
