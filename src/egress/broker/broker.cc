// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/broker.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/crypto.h"
#include "base/glob.h"
#include "model/network.h"

namespace cloister::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kForbidden = 403;
constexpr int kNotReady = 503;
constexpr std::string_view kValueSign = "{}";
constexpr std::string_view kBasic = "basic ";

// Fields that frame or route a request, or that an answer's reading depends on. No secret is sent
// in them.
constexpr std::array<std::string_view, 13> kNeverSet = {"accept-encoding",
                                                        "connection",
                                                        "content-length",
                                                        "expect",
                                                        "host",
                                                        "range",
                                                        "te",
                                                        "trailer",
                                                        "upgrade",
                                                        "transfer-encoding",
                                                        "keep-alive",
                                                        "proxy-connection",
                                                        "sec-websocket-extensions"};

std::string asciiLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

// Some programs read '_' in a field's name as '-' (CGI).
bool isSameField(std::string_view name, std::string_view header) {
  const auto plain = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(name, header, {}, plain, plain);
}

bool isFieldValue(std::string_view value) {
  return std::ranges::all_of(value, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
  });
}

std::string placeOf(const model::PlanSecret& secret) {
  return secret.host + ":" + std::to_string(secret.port);
}

// Puts `value` in place of each `sign`. The old text is wiped: it may have other values.
void replaceAll(std::string& text, std::string_view sign, std::string_view value) {
  std::string out;
  out.reserve(text.size() + value.size());
  size_t from = 0;
  for (size_t at = text.find(sign); at != std::string::npos; at = text.find(sign, from)) {
    out.append(text, from, at - from).append(value);
    from = at + sign.size();
  }
  out.append(text, from);
  wipe(text);
  text = std::move(out);
}

// "user:password" of Basic credentials (RFC 7617).
std::optional<std::string> basicOf(const HeadField& field) {
  if (field.name != "authorization" && field.name != "proxy-authorization") return std::nullopt;
  if (asciiLower(std::string_view(field.value).substr(0, kBasic.size())) != kBasic) {
    return std::nullopt;
  }
  std::string_view coded = std::string_view(field.value).substr(kBasic.size());
  while (coded.starts_with(' '))
    coded.remove_prefix(1);
  auto decoded = base::fromBase64(coded);
  if (!decoded) return std::nullopt;
  return *std::move(decoded);
}

Broker::Fault notHere(const model::PlanSecret& secret) {
  return {kSecretRule, kNotReady, "The value of the secret " + secret.name + " is not here.",
          "Try again in a moment; start another run if the secret was changed or removed."};
}

Broker::Fault notSendable(const model::PlanSecret& secret) {
  return {kSecretRule, kForbidden,
          "The secret " + secret.name + " cannot be sent in the header " + secret.header + ".",
          "Set a value of printable characters, without line breaks, for an ordinary header."};
}

void dropField(RequestHead& head, std::string_view name) {
  std::erase_if(head.fields, [&](const HeadField& field) { return isSameField(field.name, name); });
}

void setField(RequestHead& head, std::string_view name, std::string value) {
  dropField(head, name);
  head.fields.push_back({std::string(name), std::move(value)});
}

// The answer must come whole and uncoded, or the values in it could not be found.
void askForPlain(RequestHead& head) {
  setField(head, "accept-encoding", "identity");
  for (const std::string_view name :
       {"range", "if-range", "sec-websocket-extensions", "a-im", "want-digest"})
    dropField(head, name);
  const bool grpc = std::ranges::any_of(
      head.fields, [](const HeadField& each) { return each.name == "grpc-accept-encoding"; });
  if (grpc) setField(head, "grpc-accept-encoding", "identity");
}

}  // namespace

void wipe(RequestHead& head) {
  for (HeadField& field : head.fields)
    wipe(field.value);
}

std::shared_ptr<const Broker> Broker::make(std::vector<model::PlanSecret> secrets,
                                           const SecretValues& values) {
  std::shared_ptr<Broker> made(new Broker());
  std::vector<redact::Secret> known;
  std::vector<redact::Secret> signs;
  std::vector<redact::Secret> lowered;
  for (model::PlanSecret& plan : secrets) {
    const auto found = values.find(plan.id);
    auto value = found == values.end() ? nullptr : found->second;
    if (value) known.push_back({plan.name, std::string(value->view())});
    if (!plan.placeholder.empty()) {
      signs.push_back({plan.name, plan.placeholder});
      lowered.push_back({plan.name, asciiLower(plan.placeholder)});
    }
    made->secrets_.push_back({std::move(plan), std::move(value)});
  }
  made->patterns_ = redact::Patterns::make(known);
  for (redact::Secret& each : known)
    wipe(each.value);
  if (!signs.empty()) {
    made->placeholders_ = redact::Patterns::make(signs);
    made->lowered_ = redact::Patterns::make(lowered);
  }
  return made;
}

bool Broker::binds(std::string_view host, uint16_t port) const {
  return std::ranges::any_of(secrets_, [&](const Secret& secret) {
    return secret.plan.host == host && secret.plan.port == port;
  });
}

bool Broker::isFor(const Secret& secret, const RequestHead& head, std::string_view host,
                   uint16_t port) {
  const model::PlanSecret& plan = secret.plan;
  if (plan.host != host || plan.port != port) return false;
  const auto takesMethod = [&](const std::string& method) {
    return plan.methods.empty() || std::ranges::find(plan.methods, method) != plan.methods.end();
  };
  const auto takesPath = [&](const std::string& path) {
    const auto covers = [&](const std::string& glob) { return base::globMatches(glob, path); };
    return plan.paths.empty() ||
           (model::isPlainPath(path) && std::ranges::any_of(plan.paths, covers));
  };
  return takesMethod(head.method) && std::ranges::all_of(head.field_methods, takesMethod) &&
         takesPath(head.path) && std::ranges::all_of(head.field_paths, takesPath);
}

std::optional<Broker::Fault> Broker::apply(RequestHead& head, std::string_view host,
                                           uint16_t port) const {
  std::set<std::string_view> set;
  for (const Secret& secret : secrets_) {
    if (secret.plan.header.empty() || !isFor(secret, head, host, port)) continue;
    if (!set.insert(secret.plan.header).second) continue;  // the first secret for a header
    if (auto fault = setHeader(head, secret)) return fault;
  }
  for (const Secret& secret : secrets_) {
    const bool usable = isFor(secret, head, host, port);
    for (HeadField& field : head.fields) {
      if (set.contains(field.name)) continue;
      if (auto fault = replaceIn(field, secret, usable)) return fault;
    }
  }
  if (binds(host, port)) askForPlain(head);
  return checkRest(head);
}

std::optional<Broker::Fault> Broker::setHeader(RequestHead& head, const Secret& secret) const {
  const model::PlanSecret& plan = secret.plan;
  const auto theirs = std::ranges::count_if(
      head.fields, [&](const HeadField& field) { return isSameField(field.name, plan.header); });
  if (theirs > 1) {
    return Fault{kSecretRule, kBadRequest,
                 "The header " + plan.header + " is given twice, and a secret is sent in it.",
                 "Send it once, or leave it out."};
  }
  if (!secret.value) return notHere(plan);
  std::string value = plan.format;
  replaceAll(value, kValueSign, secret.value->view());
  const bool reserved = std::ranges::find(kNeverSet, plan.header) != kNeverSet.end();
  if (reserved || !isFieldValue(value)) {
    wipe(value);
    return notSendable(plan);
  }
  setField(head, plan.header, std::move(value));
  return std::nullopt;
}

std::optional<Broker::Fault> Broker::replaceIn(HeadField& field, const Secret& secret,
                                               bool usable) const {
  const model::PlanSecret& plan = secret.plan;
  if (plan.placeholder.empty()) return std::nullopt;
  auto basic = basicOf(field);
  const bool in_basic = basic && basic->contains(plan.placeholder);
  if (!in_basic && !field.value.contains(plan.placeholder)) return std::nullopt;
  if (!usable) {
    Fault fault = misplacedIn("a request that the secret is not for", plan.name);
    fault.remedy = "The secret is for " + placeOf(plan) +
                   " with the methods and paths of its use. Send its placeholder nowhere else.";
    return fault;
  }
  if (!secret.value) return notHere(plan);
  const bool reserved = std::ranges::find(kNeverSet, field.name) != kNeverSet.end();
  if (reserved || !isFieldValue(secret.value->view())) return notSendable(plan);
  if (in_basic) {
    replaceAll(*basic, plan.placeholder, secret.value->view());
    wipe(field.value);
    field.value = "Basic " + base::toBase64(*basic);
    wipe(*basic);
  } else {
    replaceAll(field.value, plan.placeholder, secret.value->view());
  }
  return std::nullopt;
}

// After the replacements no placeholder is left in any coding.
std::optional<Broker::Fault> Broker::checkRest(const RequestHead& head) const {
  if (auto fault = misplaced(head.origin, "the path of a request")) return fault;
  for (const HeadField& field : head.fields) {
    if (auto fault = misplaced(field.name, "the name of a header")) return fault;
    if (auto fault = misplaced(field.value, "a header, in a coding that is not replaced")) {
      return fault;
    }
  }
  return std::nullopt;
}

std::optional<Broker::Fault> Broker::misplaced(std::string_view text,
                                               std::string_view where) const {
  if (!placeholders_) return std::nullopt;
  const std::string name = placeholders_->find(text);
  if (name.empty()) return std::nullopt;
  return misplacedIn(where, name);
}

Broker::Fault Broker::misplacedIn(std::string_view where, const std::string& name) {
  return {kPlaceholderRule, kForbidden,
          "The placeholder of the secret " + name + " was sent in " + std::string(where) + ".",
          "Send the placeholder in a header of a request to the host of the secret, and nowhere "
          "else."};
}

std::optional<Broker::Fault> Broker::inLookUp(std::string_view name) const {
  if (!lowered_) return std::nullopt;
  std::string text = asciiLower(name);
  std::string found = lowered_->find(text);
  if (found.empty()) {
    std::erase(text, '.');
    found = lowered_->find(text);
  }
  if (found.empty()) return std::nullopt;
  return misplacedIn("a look-up", found);
}

}  // namespace cloister::egress
