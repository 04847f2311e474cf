// SPDX-License-Identifier: Apache-2.0
#include "auth/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace cloister::auth {
namespace {

namespace json = base::json;

constexpr size_t kMaxLabel = 128;
constexpr size_t kMaxValues = 256;
constexpr double kLastSecond = 253'402'300'799;  // of the year 9999

std::unexpected<Error> bad(std::string_view why) {
  return fail(Code::kInvalid, "checking a token: " + std::string(why));
}

bool has(const std::vector<std::string>& values, std::string_view wanted) {
  return std::ranges::find(values, wanted) != values.end();
}

std::unexpected<Error> denied(const std::string& why) {
  return fail(Code::kDenied, "the token is valid, but " + why);
}

// A claim by its full name, or else by the path along its dots: realm_access.roles.
const json::value* find(const json::object& claims, std::string_view path) {
  if (const json::value* whole = claims.if_contains(path)) return whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const json::value* outer = claims.if_contains(path.substr(0, dot));
  if (outer == nullptr || !outer->is_object()) return nullptr;
  return find(outer->get_object(), path.substr(dot + 1));
}

// NumericDate (RFC 7519 §2); nullopt if absent.
Result<std::optional<int64_t>> seconds(const json::object& claims, std::string_view name) {
  const json::value* value = claims.if_contains(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return bad(std::string(name) + " is no number");
  const double number = value->to_number<double>();
  if (!(number >= 0 && number <= kLastSecond)) return bad(std::string(name) + " is no time");
  return static_cast<int64_t>(std::floor(number));
}

// The texts of a claim: an array's, or the words of a text separated by spaces (`scope`).
std::vector<std::string> valuesOf(const json::value* claim) {
  std::vector<std::string> out;
  if (claim == nullptr) return out;
  if (claim->is_array()) {
    for (const json::value& item : claim->get_array()) {
      if (item.is_string() && out.size() < kMaxValues) out.emplace_back(item.get_string());
    }
    return out;
  }
  if (!claim->is_string()) return out;
  std::string_view text = claim->get_string();
  out.emplace_back(text);
  if (!text.contains(' ')) return out;
  while (!text.empty() && out.size() < kMaxValues) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool meets(const json::object& claims, const Requirement& rule) {
  const json::value* claim = find(claims, rule.claim);
  if (claim == nullptr) return false;
  if (rule.contains) return has(valuesOf(claim), rule.value);
  if (claim->is_string()) return claim->get_string() == rule.value;
  if (claim->is_bool()) return rule.value == (claim->get_bool() ? "true" : "false");
  return claim->is_number() && base::toJson(*claim) == rule.value;
}

// A text for records and logs, "" if the claim is absent or not asked for.
Result<std::string> label(const json::object& claims, const std::string& name) {
  const json::value* claim = name.empty() ? nullptr : find(claims, name);
  if (claim == nullptr) return std::string();
  const auto control = [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; };
  if (!claim->is_string() || claim->get_string().size() > kMaxLabel ||
      std::ranges::any_of(claim->get_string(), control)) {
    return denied("its claim " + name +
                  " must be a text of at most 128 bytes without control characters");
  }
  return std::string(claim->get_string());
}

Result<model::Roles> rolesOf(const json::object& claims, const TokenRules& rules) {
  model::Roles roles;
  const std::vector<std::string> values = valuesOf(find(claims, rules.roles_claim));
  for (const auto& [value, role] : rules.roles) {
    if (has(values, value)) roles.add(role);
  }
  if (roles.empty()) roles = rules.default_roles;
  if (roles.empty()) {
    return denied("its claim " + rules.roles_claim + " gives no role here (auth.oidc.roles)");
  }
  if (auto fits = model::goTogether(roles); !fits) return denied(fits.error().message);
  return roles;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::unexpected<Error> wrongKey(const std::string& key, const std::string& what) {
  return fail(Code::kInvalid, key + ": " + what, key);
}

Result<Requirement> parseRequirement(const std::string& text) {
  for (const std::string_view sign : {" contains ", "="}) {
    const size_t at = text.find(sign);
    if (at == std::string::npos) continue;
    const std::string_view whole = text;
    const std::string claim(trimmed(whole.substr(0, at)));
    const std::string value(trimmed(whole.substr(at + sign.size())));
    if (!claim.empty() && !value.empty()) return Requirement{claim, sign != "=", value};
  }
  return wrongKey("auth.oidc.require", "must be `CLAIM = VALUE` or `CLAIM contains VALUE`");
}

Result<std::pair<std::string, model::Role>> parseRole(const std::string& text) {
  const size_t at = text.rfind('=');
  const std::string_view whole = text;
  if (at != std::string::npos) {
    const auto role = model::roleFromName(trimmed(whole.substr(at + 1)));
    const std::string value(trimmed(whole.substr(0, at)));
    if (role && !value.empty()) return std::pair(value, *role);
  }
  return wrongKey("auth.oidc.roles",
                  "must be `VALUE = ROLE`, with a role of viewer, agent, operator, approver, "
                  "tenant-admin, admin, metrics");
}

}  // namespace

Result<TokenRules> TokenRules::from(const model::OidcSettings& config) {
  TokenRules rules{.issuer = config.issuer,
                   .audience = config.audience,
                   .algorithms = {},
                   .leeway = config.leeway_seconds,
                   .max_life = config.max_life_seconds,
                   .tenant_claim = config.tenant_claim,
                   .app_claim = config.app_claim,
                   .agent_claim = config.agent_claim,
                   .user_claim = config.user_claim,
                   .roles_claim = config.roles_claim,
                   .tenant = config.tenant,
                   .roles = {},
                   .default_roles = {},
                   .require = {}};
  if (rules.audience.empty() || has(rules.audience, "")) {
    return wrongKey("auth.oidc.audience",
                    "required with auth.oidc.issuer: what tokens for this service have in `aud`");
  }
  for (const std::string& name : config.algorithms) {
    const auto algorithm = algorithmFromName(name);
    if (!algorithm) return wrongKey("auth.oidc.algorithms", "must be of RS256, ES256, EdDSA");
    rules.algorithms.push_back(*algorithm);
  }
  for (const std::string& text : config.roles)
    rules.roles.push_back(TRY(parseRole(text)));
  for (const std::string& text : config.require)
    rules.require.push_back(TRY(parseRequirement(text)));
  const auto defaults = model::rolesFromNames(config.default_roles);
  if (!defaults) return wrongKey("auth.oidc.default_roles", defaults.error().message);
  rules.default_roles = *defaults;
  if (rules.default_roles.has(model::Role::kAdmin)) {
    return wrongKey("auth.oidc.default_roles", "admin is given by auth.oidc.roles only");
  }
  if (!rules.default_roles.empty()) {
    if (auto fits = model::goTogether(rules.default_roles); !fits) {
      return wrongKey("auth.oidc.default_roles", fits.error().message);
    }
  }
  return rules;
}

Result<> checkClaims(const json::object& claims, const TokenRules& rules, int64_t now) {
  const json::value* issuer = claims.if_contains("iss");
  if (issuer == nullptr || !issuer->is_string() || issuer->get_string() != rules.issuer) {
    return bad("another issuer");
  }
  const json::value* audience = claims.if_contains("aud");
  const bool ours =
      audience != nullptr && std::ranges::any_of(rules.audience, [&](const std::string& wanted) {
        if (audience->is_string()) return audience->get_string() == wanted;
        return has(valuesOf(audience), wanted);
      });
  if (!ours) return bad("for another audience");
  const auto expires = TRY(seconds(claims, "exp"));
  const auto issued = TRY(seconds(claims, "iat"));
  const auto begins = TRY(seconds(claims, "nbf"));
  if (!expires || !issued) return bad("it does not say from when to when it is good");
  if (now >= *expires + rules.leeway) return bad("expired");
  if (*issued > now + rules.leeway) return bad("of the future");
  if (begins && *begins > now + rules.leeway) return bad("not good yet");
  if (*expires <= *issued || *expires - *issued > rules.max_life) return bad("it lives too long");
  return {};
}

Result<int64_t> endOf(const json::object& claims, const TokenRules& rules) {
  const auto expires = TRY(seconds(claims, "exp"));
  if (!expires) return bad("it does not say until when it is good");
  return *expires + rules.leeway;
}

Result<model::Principal> principalOf(const json::object& claims, const TokenRules& rules) {
  for (const Requirement& rule : rules.require) {
    if (meets(claims, rule)) continue;
    return denied("its claim " + rule.claim + " is not what this service asks for");
  }
  model::Principal who;
  who.tenant = TRY(label(claims, rules.tenant_claim));
  if (who.tenant.empty()) who.tenant = rules.tenant;
  if (who.tenant.empty()) {
    return denied("it has no claim " + rules.tenant_claim + ", which names the tenant");
  }
  who.app = TRY(label(claims, rules.app_claim));
  who.agent = TRY(label(claims, rules.agent_claim));
  who.user = TRY(label(claims, rules.user_claim));
  who.roles = TRY(rolesOf(claims, rules));
  return who;
}

}  // namespace cloister::auth
