// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/fair_share.h"

#include <charconv>
#include <string_view>

namespace cloister::orchestrator {
namespace {

constexpr char kKey[] = "fairness.weights";
constexpr uint32_t kMostWeight = 1000;

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

Result<std::map<std::string, uint32_t>> parseWeights(const std::vector<std::string>& rows) {
  std::map<std::string, uint32_t> weights;
  for (const std::string& row : rows) {
    const std::string_view text(row);
    const size_t sign = text.find('=');
    const std::string_view tenant = trimmed(text.substr(0, sign));
    const std::string_view number =
        sign == std::string_view::npos ? "" : trimmed(text.substr(sign + 1));
    uint32_t weight = 0;
    const auto read = std::from_chars(number.begin(), number.end(), weight);
    const bool whole = read.ec == std::errc() && read.ptr == number.end();
    if (tenant.empty() || !whole || weight < 1 || weight > kMostWeight) {
      return fail(Code::kInvalid,
                  std::string(kKey) + ": \"" + row + "\" is not `TENANT = N`, with N from 1 to " +
                      std::to_string(kMostWeight),
                  kKey);
    }
    if (!weights.emplace(tenant, weight).second) {
      return fail(Code::kInvalid,
                  std::string(kKey) + ": tenant " + std::string(tenant) + " is there twice", kKey);
    }
  }
  return weights;
}

}  // namespace cloister::orchestrator
