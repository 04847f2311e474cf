// SPDX-License-Identifier: Apache-2.0
// For tests of policy: documents in short form, and questions in the format of explanations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "model/run_request.h"
#include "policy/document.h"
#include "policy/explain.h"

namespace cloister::policy::testing {

inline const model::Limits kMax = model::defaultBounds().max;

inline Result<Policy> parse(std::string_view text) {
  return parsePolicy(text, "test", kMax);
}

inline std::string errorOf(std::string_view text) {
  const auto policy = parse(text);
  return policy ? "none" : policy.error().message;
}

// Rules of version 2 in flow style, a line each from line 3 on.
inline Policy policyOf(std::string_view rules, std::string_view settings = "") {
  auto policy = parse("version: 2\nrules:\n" + std::string(rules) + std::string(settings));
  EXPECT_TRUE(policy) << policy.error().message;
  return policy ? *std::move(policy) : Policy{};
}

inline Policy shippedPolicy(const std::string& name) {
  const std::string path = std::string(CLOISTER_SOURCE_DIR "/policies/") + name + ".yaml";
  auto policy = parsePolicy(base::readFile(path).value(), name, kMax);
  EXPECT_TRUE(policy) << policy.error().message;
  return policy ? *std::move(policy) : Policy{};
}

class Asking {
 public:
  Asking() {
    bounds_ = model::defaultBounds();
    languages_ = model::LanguageSet::load(CLOISTER_SOURCE_DIR "/languages").value();
    levels_ =
        parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
            .value();
  }
  [[nodiscard]] ReaderParts parts() const {
    return {.languages = languages_,
            .levels = levels_,
            .bounds = bounds_,
            .runtimes = &runtimes_,
            .images = &images_};
  }
  [[nodiscard]] Supposed suppose(std::string_view question) const {
    const auto value = base::parseJson(question).value();
    base::ObjectReader reader(value.get_object(), "");
    model::Principal asker;
    asker.tenant = "acme";
    auto supposed = readSupposed(reader, parts(), asker);
    EXPECT_TRUE(supposed) << supposed.error().message;
    return *std::move(supposed);
  }
  std::vector<std::string> runtimes_ = {"process"};
  std::vector<model::OfferedImage> images_;

 private:
  model::RequestBounds bounds_;
  model::LanguageSet languages_;
  Levels levels_;
};

inline const Asking& asking() {
  static const Asking kAsking;
  return kAsking;
}

inline Decision decideOn(const Policy& policy, std::string_view question) {
  const Supposed supposed = asking().suppose(question);
  return decide(policy, supposed.question());
}

inline std::string ruleOf(const Policy& policy, std::string_view question) {
  const Supposed supposed = asking().suppose(question);
  return decidingRule(policy, supposed.question());
}

constexpr std::string_view kPython = R"({"request":{"language":"python","code":"1"}})";

}  // namespace cloister::policy::testing
