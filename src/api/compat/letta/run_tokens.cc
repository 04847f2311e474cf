// SPDX-License-Identifier: Apache-2.0
#include "api/compat/letta/run_tokens.h"

#include <utility>

#include "auth/auth.h"
#include "base/id.h"

namespace cloister::api::compat::letta {
namespace {

constexpr std::string_view kPrefix = "letta_run_";

}  // namespace

const RunTokens::Entry* RunTokens::find(const Request& request) const {
  const auto found = live_.find(bearerToken(request));
  return found == live_.end() ? nullptr : &found->second;
}

Result<std::unique_ptr<RunTokens::Token>> RunTokens::issue(const Request& request) {
  const Entry* caller = find(request);
  Entry entry{.principal = request.principal, .depth = caller == nullptr ? 1 : caller->depth + 1};
  if (entry.depth > kMaxDepth) {
    return fail(Code::kDenied,
                "the run of the tool: it would be the run " + std::to_string(entry.depth) +
                    " of tools that run each other; at most " + std::to_string(kMaxDepth) + " may");
  }
  entry.principal.roles = model::Role::kAgent;
  entry.principal.request.clear();
  constexpr size_t kRandomBytes = 32;
  std::string text = std::string(kPrefix) + base::randomHex(kRandomBytes);
  live_.emplace(text, std::move(entry));
  return std::make_unique<Token>(shared_from_this(), std::move(text));
}

std::optional<Result<auth::Identity>> RunTokens::identify(const Request& request) const {
  if (!bearerToken(request).starts_with(kPrefix)) return std::nullopt;
  const Entry* entry = find(request);
  if (entry == nullptr || !store::stillHolds(store_, entry->principal)) return auth::refused();
  return auth::Identity{.principal = entry->principal, .ends_at = entry->principal.ends_at};
}

Result<> RunTokens::mayChange(const Request& request) const {
  if (find(request) == nullptr) return {};
  return fail(Code::kDenied,
              "the key of a tool's run: reads and runs tools, and changes none; use a key of your "
              "own outside of the tool");
}

}  // namespace cloister::api::compat::letta
