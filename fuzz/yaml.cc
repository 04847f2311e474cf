// SPDX-License-Identifier: Apache-2.0
// Documents of the operator: a language, a policy, a configuration. The first byte chooses.
#include "model/config.h"
#include "model/language.h"
#include "model/run_request.h"
#include "policy/decide.h"

#include "require.h"

using namespace cloister;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l': {
      const auto language = model::parseLanguage(text, "x");
      if (language) REQUIRE(!language->run.empty());
      break;
    }
    case 'p': {
      const auto policy = policy::parsePolicy(text, "x", model::defaultBounds().max);
      if (!policy) break;
      for (const auto& rule : policy->rules)
        REQUIRE(!rule.why.empty());
      break;
    }
    case 'c':
      if (const auto config = model::parseConfig(text, "x"); !config)
        REQUIRE(!config.error().message.empty());
      break;
    default:
      break;
  }
  return 0;
}
