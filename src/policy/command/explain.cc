// SPDX-License-Identifier: Apache-2.0
// A verdict in the API's format.
#include <algorithm>

#include "base/nearest.h"
#include "model/yaml.h"
#include "policy/command/filter.h"

namespace cloister::policy {
namespace {

namespace json = base::json;

constexpr size_t kMaxShown = 200;

// The bytes of a span as displayable text; "" for invalid UTF-8.
std::string wordsAt(std::string_view text, Span span) {
  const size_t begin = std::min<size_t>(span.begin, text.size());
  const size_t length = std::min<size_t>(span.end - std::min(span.begin, span.end), kMaxShown);
  const std::string_view part = base::withoutCutCharacter(text.substr(begin, length));
  return base::isUtf8(part) ? std::string(part) : std::string();
}

std::string safe(std::string_view text) {
  const std::string_view part = base::withoutCutCharacter(text.substr(0, kMaxShown));
  return base::isUtf8(part) ? std::string(part) : "(not UTF-8)";
}

json::object riskJson(const Risk& risk, std::string_view text) {
  return {{"kind", risk.kind},
          {"what", safe(risk.what)},
          {"outcome", outcomeName(risk.outcome)},
          {"rule", risk.rule.empty() ? json::value(nullptr) : json::value(risk.rule)},
          {"why", risk.why.empty() ? json::value(nullptr) : json::value(risk.why)},
          {"words", wordsAt(text, risk.span)},
          {"begin", risk.span.begin},
          {"end", risk.span.end},
          {"mitigation", risk.mitigation}};
}

json::object commandJson(const Execution& one) {
  json::array words;
  for (const Value& word : one.argv) {
    if (words.size() >= kMaxShown) break;
    words.push_back(json::object{{"text", safe(word.text)}, {"known", word.known}});
  }
  return {{"program", safe(one.program)},
          {"via", one.via.empty() ? json::value(nullptr) : json::value(safe(one.via))},
          {"words", std::move(words)},
          {"begin", one.span.begin},
          {"end", one.span.end}};
}

json::object verdictJson(const Verdict& verdict, const Level& level, std::string_view text) {
  json::array risks;
  json::array mitigations;
  std::vector<std::string> said;
  for (const Risk& risk : verdict.risks) {
    risks.push_back(riskJson(risk, text));
    if (risk.outcome == Outcome::kAllow || std::ranges::find(said, risk.mitigation) != said.end())
      continue;
    said.push_back(risk.mitigation);
    mitigations.push_back(json::string(risk.mitigation));
  }
  json::array commands;
  for (const Execution& one : verdict.executions) {
    if (commands.size() < kMaxShown) commands.push_back(commandJson(one));
  }
  return {{"outcome", outcomeName(verdict.outcome)},
          {"level", level.name},
          {"reason", safe(verdict.reason)},
          {"rule", verdict.rule.empty() ? json::value(nullptr) : json::value(verdict.rule)},
          {"why", verdict.why},
          {"escalation_available", mayBeApproved(level, verdict)},
          {"commands", std::move(commands)},
          {"risk_factors", std::move(risks)},
          {"mitigations", std::move(mitigations)}};
}

}  // namespace

Result<json::object> explainCommand(const Levels& levels, const json::object& request) {
  base::ObjectReader reader(request, "");
  const std::string name = TRY(reader.text("level")).value_or("standard");
  const auto command = TRY(reader.text("command"));
  std::vector<std::string> argv;
  const json::array* items = TRY(reader.array("argv"));
  if (items != nullptr) {
    for (const json::value& item : *items) {
      if (!item.is_string()) return fail(Code::kInvalid, "argv: must be a list of strings", "argv");
      argv.emplace_back(item.get_string());
    }
    if (argv.empty())
      return fail(Code::kInvalid, "argv: must have a word; give the program first", "argv");
  }
  TRY(reader.finish());
  if (command.has_value() == (items != nullptr)) {
    return fail(Code::kInvalid, "command: give either command (text for bash) or argv (a list)",
                "command");
  }
  const auto level = levels.levels.find(name);
  if (level == levels.levels.end()) {
    std::string known;
    for (const auto& [one, value] : levels.levels)
      (known += known.empty() ? "" : ", ") += one;
    return fail(Code::kInvalid, "level: there is no such level; use one of " + known, "level");
  }
  std::string text = command.value_or("");
  for (const std::string& word : argv)
    (text += text.empty() ? "" : " ") += word;
  Effects effects = command ? effectsOf(*command, levels.bounds, levels.image.get())
                            : effectsOfArgv(argv, levels.bounds, levels.image.get());
  return verdictJson(judgeCommand(level->second, std::move(effects)), level->second, text);
}

}  // namespace cloister::policy
