// SPDX-License-Identifier: Apache-2.0
// Policy documents, the cases that test them, and the answers of another engine. The first byte
// chooses.
#include "base/file.h"
#include "policy/answer.h"
#include "policy/explain.h"

#include "require.h"

using namespace cloister;

namespace {

struct Fixed {
  model::LanguageSet languages;
  policy::Levels levels;
  model::RequestBounds bounds = model::defaultBounds();
  model::RunRequest request;
  model::Principal principal;
};

// An accepted policy decides the same in each form.
void decide(const policy::Policy& read, const Fixed& fixed) {
  const policy::ReaderParts parts{
      .languages = fixed.languages, .levels = fixed.levels, .bounds = fixed.bounds};
  policy::Supposed supposed = policy::suppose(fixed.request, fixed.principal, parts);
  supposed.language = "python";
  const auto question = supposed.question();
  const auto made = policy::evaluate(read, question);
  const auto decision = policy::decide(read, question);
  const bool permit = std::holds_alternative<model::Permit>(decision);
  REQUIRE(permit == (policy::outcomeOf(made) == "allow"));
  REQUIRE(permit == !policy::refusalOf(decision));
  REQUIRE(!permit || made.runtime == "process");  // no other is offered
  REQUIRE(policy::explain(read, question).at("rules").as_array().size() == read.rules.size());
  REQUIRE(policy::differences(read, read).at("same").as_bool());
}

// An accepted answer of another engine grants no more than the ceiling.
void answer(std::string_view text, const Fixed& fixed) {
  const auto value = base::parseJson(text, {.max_depth = 16});
  if (!value || !value->is_object()) return;
  const policy::ReaderParts parts{
      .languages = fixed.languages, .levels = fixed.levels, .bounds = fixed.bounds};
  policy::Supposed supposed = policy::suppose(fixed.request, fixed.principal, parts);
  supposed.language = "python";
  const auto read =
      policy::readAnswer(value->get_object(), supposed.question(), fixed.bounds.max, "opa");
  if (!read) {
    REQUIRE(!read.error().message.empty());
    return;
  }
  REQUIRE(read->rules.size() == 1);
  REQUIRE(read->id.starts_with("opa@"));
  const auto& most = read->rules[0].max;
  REQUIRE(read->rules[0].effect == policy::Effect::kDeny ||
          (most.memory_bytes <= fixed.bounds.max.memory_bytes &&
           most.wall <= fixed.bounds.max.wall && most.pids <= fixed.bounds.max.pids));
  decide(*read, fixed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Fixed kFixed;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'a') {
    answer(text, kFixed);
    return 0;
  }
  if (data[0] == 'c') {
    static const policy::Policy kPolicy =
        policy::parsePolicy("version: 2\nrules: [{name: a, why: b, effect: allow}]", "x",
                            kFixed.bounds.max)
            .value();
    const auto report = policy::runCases(
        kPolicy, text,
        {.languages = kFixed.languages, .levels = kFixed.levels, .bounds = kFixed.bounds});
    if (!report) REQUIRE(!report.error().message.empty());
    return 0;
  }
  const auto read = policy::parsePolicy(text, "x", kFixed.bounds.max);
  if (!read) {
    REQUIRE(read.error().message.starts_with("x"));
    return 0;
  }
  REQUIRE(!read->rules.empty());
  for (const auto& rule : read->rules)
    REQUIRE(!rule.why.empty() && !rule.name.empty());
  decide(*read, kFixed);
  return 0;
}
