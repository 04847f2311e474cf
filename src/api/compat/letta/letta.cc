// SPDX-License-Identifier: Apache-2.0
#include "api/compat/letta/letta.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cloister::api::compat::letta {
namespace {

class Letta : public Dialect {
 public:
  explicit Letta(std::shared_ptr<RunTokens> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] std::string_view prefix() const override { return "letta"; }
  [[nodiscard]] std::string_view credential(const Request& request) const override {
    return bearerToken(request);
  }
  [[nodiscard]] std::optional<Result<auth::Identity>> ownIdentity(
      const Request& request) const override {
    return tokens_->identify(request);
  }
  void refuse(const Request& /*request*/, Response& response) const override {
    setJson(response, base::json::object{{"detail", response.failure->message}});
  }

 private:
  std::shared_ptr<RunTokens> tokens_;
};

}  // namespace

Facade facade(RestParts& parts) {
  const auto tokens = std::make_shared<RunTokens>(parts.store);
  std::vector<Route> routes = lettaToolRoutes(parts, tokens);
  std::ranges::move(lettaConfigRoutes(parts, tokens), std::back_inserter(routes));
  return {.dialect = std::make_unique<Letta>(tokens), .routes = std::move(routes)};
}

}  // namespace cloister::api::compat::letta
