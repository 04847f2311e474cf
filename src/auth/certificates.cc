// SPDX-License-Identifier: Apache-2.0
#include "auth/certificates.h"

#include <algorithm>

#include "auth/auth.h"

namespace cloister::auth {
namespace {

constexpr std::string_view kKey = "tls.clients";
constexpr std::string_view kForm = "NAME = tenant:T [app:A] [agent:A] [user:U] roles:R[,R]";
constexpr size_t kShownDigits = 32;  // digits of a certificate's digest that name the certificate

std::unexpected<Error> wrong(const std::string& row, std::string_view why) {
  return fail(Code::kInvalid,
              std::string(kKey) + ": \"" + row + "\": " + std::string(why) + "; it is `" +
                  std::string(kForm) + "`",
              std::string(kKey));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool isName(std::string_view name) {
  const auto has = [&](std::string_view kind) {
    return name.starts_with(kind) && name.size() > kind.size();
  };
  return has("uri:") || has("dns:") || has("email:");
}

struct Row {
  model::Principal principal;
  std::vector<std::string> seen;
};

// Reads a `member:value` of a row.
Result<> readMember(const std::string& row, std::string_view word, Row& into) {
  const size_t colon = word.find(':');
  const std::string member(word.substr(0, colon));
  const std::string value(colon == std::string_view::npos ? "" : word.substr(colon + 1));
  if (value.empty()) return wrong(row, "\"" + std::string(word) + "\" has no value");
  if (std::ranges::find(into.seen, member) != into.seen.end()) {
    return wrong(row, member + " stands there twice");
  }
  into.seen.push_back(member);
  model::Principal& who = into.principal;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"tenant", &who.tenant}, {"app", &who.app}, {"agent", &who.agent}, {"user", &who.user}};
  for (const auto& [name, target] : texts) {
    if (name != member) continue;
    *target = value;
    return {};
  }
  if (member != "roles") return wrong(row, "\"" + member + "\" is no member of it");
  const auto roles = model::rolesFromNames(split(value, ','));
  if (!roles) return wrong(row, roles.error().message);
  if (auto fits = model::goTogether(*roles); !fits) return wrong(row, fits.error().message);
  who.roles = *roles;
  return {};
}

}  // namespace

Result<Certificates> Certificates::parse(const std::vector<std::string>& rows) {
  Certificates all;
  for (const std::string& row : rows) {
    // A URI may include "=", so the separator has spaces around.
    constexpr std::string_view kSign = " = ";
    const size_t at = row.find(kSign);
    if (at == std::string::npos) return wrong(row, "\" = \" is missing");
    const std::string name = row.substr(0, at);
    if (!isName(name)) return wrong(row, "the name must begin with uri:, dns: or email:");
    Row read;
    read.principal.roles = {};
    for (const std::string& word : split(std::string_view(row).substr(at + kSign.size()), ' '))
      TRY(readMember(row, word, read));
    if (read.principal.tenant.empty()) return wrong(row, "tenant is missing");
    if (read.principal.roles.empty()) return wrong(row, "roles is missing");
    if (!all.by_name_.emplace(name, read.principal).second) return wrong(row, "the name has two");
  }
  return all;
}

Result<model::Principal> Certificates::identify(const ClientCertificate& certificate,
                                                int64_t now) const {
  if (now >= certificate.not_after) return refused();
  for (const std::string& name : certificate.names) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) continue;
    model::Principal principal = found->second;
    principal.key_id = "cert_" + certificate.sha256.substr(0, kShownDigits);
    return principal;
  }
  return refused();
}

}  // namespace cloister::auth
