// SPDX-License-Identifier: Apache-2.0
// The time of a decision with a document of 50 rules, the last of which decides, and with the
// request's command read for its risks. Prints a line of JSON each: policy_bench [DECISIONS].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "policy/explain.h"

namespace {

using namespace cloister;

// Rules with a condition each; only the last matches.
std::string document(int rules) {
  std::string text =
      "version: 2\n"
      "risk: {languages: {command: 10, other: 5}, commands: {other: 5}, roles: {other: 1}, "
      "secrets: {each: 5, names: ['*TOKEN*', '*SECRET*']}}\n"
      "rules:\n";
  for (int i = 1; i < rules; ++i) {
    text += "  - {name: r" + std::to_string(i) +
            ", why: bench, effect: deny, match: {tenants: [acme, other], agents: [a" +
            std::to_string(i) + ", b], languages: [python, command], risk: {at_least: 1}}}\n";
  }
  return text + "  - {name: last, why: bench, effect: allow, tier: Auto}\n";
}

template <class Work>
void measure(const char* name, int count, Work work) {
  std::vector<double> took;
  took.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto start = base::monotonicNow();
    work();
    took.push_back(std::chrono::duration<double, std::micro>(base::monotonicNow() - start).count());
  }
  std::ranges::sort(took);
  const auto at = [&](double share) {
    return took[static_cast<size_t>(share * static_cast<double>(took.size() - 1))];
  };
  std::printf(R"({"bench":"%s","decisions":%zu,"p50_us":%.2f,"p99_us":%.2f,"max_us":%.1f})"
              "\n",
              name, took.size(), at(0.5), at(0.99), took.back());
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRules = 50;
  const int count = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20'000;
  const std::string root = CLOISTER_SOURCE_DIR;
  const model::RequestBounds bounds = model::defaultBounds();
  const auto languages = model::LanguageSet::load(root + "/languages").value();
  const auto levels =
      policy::parseLevels(base::readFile(root + "/policies/levels.yaml").value(), "levels").value();
  const auto policy = policy::parsePolicy(document(kRules), "bench", bounds.max).value();
  const policy::ReaderParts parts{.languages = languages, .levels = levels, .bounds = bounds};
  const auto body =
      base::parseJson(R"({"command":"git status && make -j2 | tee log","env":{"A_TOKEN":"x"}})")
          .value();
  const auto request = model::parseRunRequest(body.get_object(), bounds).value();
  model::Principal principal;
  principal.tenant = "acme";
  const policy::Supposed supposed = policy::suppose(request, principal, parts);
  bool allowed = true;
  measure("policy decision, 50 rules", count, [&] {
    allowed = allowed &&
              std::holds_alternative<model::Permit>(policy::decide(policy, supposed.question()));
  });
  measure("risks of its command", count, [&] {
    allowed = allowed && !policy::riskFactsOf(request, languages, &levels).variables.empty();
  });
  return allowed ? 0 : 1;
}
