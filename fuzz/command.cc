// SPDX-License-Identifier: Apache-2.0
// A command to the filter. The first byte says how: 'l' for a document of levels, 'a' for words
// parted by newlines, anything else for text.
#include <algorithm>

#include "base/json.h"
#include "policy/command/filter.h"

#include "require.h"

using namespace cloister;

namespace {

constexpr std::string_view kDocument = R"(
version: 1
sandbox_levels:
  test:
    description: all kinds of rules
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a}]
      forbidden_commands: [{pattern: "rm -rf /*", why: a}, {regex: "dd( .*)?", why: a}, {prefix: git push, why: a}]
      dangerous_patterns: [{builtin: privileged, risk: privileged, why: a}]
      parameter_restrictions: [{command: cat, allowed_flags: ["-n"], allowed_paths: ["src/*"], why: a}]
      forbidden_paths: [{path: /etc/*, why: a}]
)";

void judge(const policy::Levels& levels, const base::json::object& question) {
  const auto verdict = policy::explainCommand(levels, question);
  REQUIRE(verdict);
  REQUIRE(base::isUtf8(base::toJson(*verdict)));
  for (const auto& risk : verdict->at("risk_factors").as_array()) {
    REQUIRE(risk.at("begin").to_number<int64_t>() <= risk.at("end").to_number<int64_t>());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const policy::Levels kLevels = policy::parseLevels(kDocument, "test").value();
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'l') {
    const auto levels = policy::parseLevels(text, "x");
    REQUIRE(levels || !levels.error().message.empty());
  } else if (data[0] == 'a') {
    base::json::array argv{"x"};
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      argv.push_back(base::json::string(text.substr(at, end - at)));
      at = end + 1;
    }
    argv.erase(argv.begin(), argv.size() > 1 ? argv.begin() + 1 : argv.begin());
    judge(kLevels, {{"argv", std::move(argv)}, {"level", "test"}});
  } else {
    judge(kLevels, {{"command", text}, {"level", "test"}});
    const policy::Effects effects = policy::effectsOf(text, kLevels.bounds);
    REQUIRE(effects.findings.size() <= 128);
    for (const policy::Finding& finding : effects.findings)
      REQUIRE(finding.span.end <= size);
  }
  return 0;
}
