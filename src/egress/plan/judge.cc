// SPDX-License-Identifier: Apache-2.0
#include "egress/plan/judge.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/glob.h"
#include "base/json.h"
#include "base/network.h"
#include "egress/plan/own_names.h"
#include "model/shown_text.h"

namespace cloister::egress {
namespace {

using model::OnDenied;
using model::PlanRule;
using model::Protocol;

constexpr size_t kMaxShown = 80;  // bytes of a text of the program's
constexpr size_t kMaxListed = 4;  // items of a rule in a sentence

// How far an attempt gets with a rule, in the order of the checks: the first check that fails. A
// refusal reports the rule with which the attempt gets furthest.
enum class Stop : uint8_t {
  kName,  // another name
  kApex,  // the name below which the rule allows every name
  kType,  // a record type of a look-up
  kPort,
  kProtocol,
  kMethod,
  kSpelling,  // a path that servers read in different ways
  kPath,
  kNowhere,  // the rule allows the attempt
};

// Types of look-ups whose answers are made here, and so carry nothing of the program.
constexpr std::array<std::string_view, 4> kAnswered = {"A", "AAAA", "HTTPS", "SVCB"};

template <class List, class T>
bool lists(const List& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

// An empty list sets no bound.
template <class List, class T>
bool permits(const List& list, const T& item) {
  return list.empty() || lists(list, item);
}

bool speaks(Protocol allowed, Protocol spoken) {
  return allowed == Protocol::kTcp || allowed == spoken;
}

Stop pathStop(const std::vector<std::string>& globs, std::string_view path) {
  if (globs.empty()) return Stop::kNowhere;
  if (!model::isPlainPath(path)) return Stop::kSpelling;
  const bool covered = std::ranges::any_of(
      globs, [&](const std::string& glob) { return base::globMatches(glob, path); });
  return covered ? Stop::kNowhere : Stop::kPath;
}

// The first refused method: of the attempt, or of a header field.
std::optional<std::string_view> wrongMethod(const PlanRule& rule, const Attempt& attempt) {
  const auto& methods = rule.entry.methods;
  if (attempt.method && !permits(methods, *attempt.method)) return attempt.method;
  for (const std::string& method : attempt.field_methods) {
    if (!permits(methods, method)) return method;
  }
  return std::nullopt;
}

// The first refused path, and why.
struct WrongPath {
  Stop stop = Stop::kNowhere;
  std::string_view path;
};
WrongPath wrongPath(const PlanRule& rule, const Attempt& attempt) {
  if (!attempt.path) return {};
  const Stop own = pathStop(rule.entry.paths, *attempt.path);
  if (own != Stop::kNowhere) return {own, *attempt.path};
  for (const std::string& path : attempt.field_paths) {
    const Stop stop = pathStop(rule.entry.paths, path);
    if (stop != Stop::kNowhere) return {stop, path};
  }
  return {};
}

// An attempt passes the checks of its unknown members.
Stop stopOf(const PlanRule& rule, const Attempt& attempt) {
  const model::NetworkEntry& entry = rule.entry;
  if (!rule.anyone && !model::coversName(entry.name, attempt.host)) {
    const bool apex = entry.name.starts_with("*.") && entry.name.substr(2) == attempt.host;
    return apex ? Stop::kApex : Stop::kName;
  }
  if (attempt.port == 0) {
    const std::string_view type = attempt.record_type;
    return lists(kAnswered, type) || lists(entry.dns, type) ? Stop::kNowhere : Stop::kType;
  }
  if (!permits(entry.ports, attempt.port)) return Stop::kPort;
  if (attempt.protocol && !speaks(entry.protocol, *attempt.protocol)) return Stop::kProtocol;
  if (wrongMethod(rule, attempt)) return Stop::kMethod;
  return wrongPath(rule, attempt).stop;
}

std::string shown(std::string_view text) {
  return "\"" + model::safeText(text, kMaxShown) + "\"";
}

template <class List>
std::string listed(const List& list) {
  std::string text;
  for (size_t i = 0; i < list.size() && i < kMaxListed; ++i)
    text += (i == 0 ? "" : ", ") + model::safeText(list[i], kMaxShown);
  const size_t more = list.size() - std::min(list.size(), kMaxListed);
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

std::vector<std::string> asTexts(const std::vector<uint16_t>& ports) {
  std::vector<std::string> texts;
  texts.reserve(ports.size());
  for (const uint16_t port : ports)
    texts.push_back(std::to_string(port));
  return texts;
}

// "evil.test:443", or the name alone of a look-up.
std::string destination(const Attempt& attempt) {
  const std::string name(attempt.host);
  return attempt.port == 0 ? name : name + ":" + std::to_string(attempt.port);
}

std::string asking(const std::string& entry) {
  return "Ask for it: add " + entry +
         " to network_policy.allow. If the policy refuses that, an operator has to grant it in the "
         "`network` of a policy rule.";
}

std::string asEntry(const model::NetworkEntry& entry) {
  return base::toJson(toJsonObject(entry));
}

// The entry to ask for, so that the attempt is allowed: as text if that says enough.
std::string askingFor(const Attempt& attempt) {
  constexpr uint16_t kHttpsPort = 443;
  if (attempt.port == 0) {
    return asking("\"" + std::string(attempt.host) + ":" + std::to_string(kHttpsPort) +
                  "\", or the name with the port that the program needs,");
  }
  const Protocol usual = model::protocolOfPort(attempt.port);
  if (speaks(usual, attempt.protocol.value_or(usual))) {
    return asking("\"" + destination(attempt) + "\"");
  }
  model::NetworkEntry entry;
  entry.name = attempt.host;
  entry.ports = {attempt.port};
  entry.protocol = *attempt.protocol;
  return asking(asEntry(entry));
}

// The entry to ask for where the host is allowed for other requests. An entry of a request cannot
// tell the requests of a TLS host apart.
std::string askingForRequest(const Attempt& attempt) {
  if (attempt.protocol == Protocol::kTls) return askingFor(attempt);
  model::NetworkEntry entry;
  entry.name = attempt.host;
  entry.ports = {attempt.port};
  entry.protocol = Protocol::kHttp;
  if (attempt.method) entry.methods = {std::string(*attempt.method)};
  const bool short_path = attempt.path && attempt.path->size() <= kMaxShown;
  if (short_path && model::isPlainPath(*attempt.path)) entry.paths = {std::string(*attempt.path)};
  if (!model::readNetworkEntry(toJsonObject(entry), "", false)) {
    return "No entry can allow this method: send another one, in upper case.";
  }
  return asking(asEntry(entry));
}

struct Sentences {
  std::string reason;
  std::string remedy;
};

Sentences notThisName(const Attempt& attempt) {
  return {"No rule allows " + destination(attempt) + ".", askingFor(attempt)};
}

Sentences notTheApex(const PlanRule& rule, const Attempt& attempt) {
  return {"Rule " + shown(rule.rule) + " allows the names below " + std::string(attempt.host) +
              ", but not " + std::string(attempt.host) + " itself.",
          askingFor(attempt)};
}

Sentences notThisType(const PlanRule& rule, const Attempt& attempt) {
  return {"Rule " + shown(rule.rule) + " answers look-ups of addresses for " +
              std::string(attempt.host) + ", but not of the type " + shown(attempt.record_type) +
              ".",
          "An operator can add the type TXT, SRV or MX to `dns` in the rule's network entry."};
}

Sentences notThisPort(const PlanRule& rule, const Attempt& attempt) {
  return {"Rule " + shown(rule.rule) + " allows " + std::string(attempt.host) + " on " +
              (rule.entry.ports.size() == 1 ? "port " : "ports ") +
              listed(asTexts(rule.entry.ports)) + ", but not on port " +
              std::to_string(attempt.port) + ".",
          askingFor(attempt)};
}

Sentences notThisProtocol(const PlanRule& rule, const Attempt& attempt) {
  const std::string spoken(model::protocolName(attempt.protocol.value_or(Protocol::kTcp)));
  const std::string allowed(model::protocolName(rule.entry.protocol));
  return {"Rule " + shown(rule.rule) + " allows " + destination(attempt) + " with the protocol " +
              allowed + ", and the program speaks " + spoken + ".",
          "Speak " + allowed + " there. " + askingFor(attempt)};
}

constexpr std::string_view kWithoutField =
    "Send the request without the header field that names another method or path.";

Sentences notThisMethod(const PlanRule& rule, const Attempt& attempt) {
  const std::string_view wrong = wrongMethod(rule, attempt).value_or("");
  const bool own = wrong == attempt.method;
  return {"Rule " + shown(rule.rule) + " allows " + listed(rule.entry.methods) + " requests to " +
              destination(attempt) + ", but not " + shown(wrong) +
              (own ? "." : ", which a header field names."),
          own ? askingForRequest(attempt) : std::string(kWithoutField)};
}

Sentences notThisSpelling(const PlanRule& rule, const Attempt& attempt) {
  return {"Rule " + shown(rule.rule) + " allows certain paths of " + destination(attempt) +
              ", and servers can read the path " + shown(wrongPath(rule, attempt).path) +
              " in different ways.",
          "Send the path in its plain form, without \"..\", \"//\", \";\" and escapes of them."};
}

Sentences notThisPath(const PlanRule& rule, const Attempt& attempt) {
  const std::string_view wrong = wrongPath(rule, attempt).path;
  const bool own = wrong == attempt.path;
  return {"Rule " + shown(rule.rule) + " allows the paths " + listed(rule.entry.paths) + " of " +
              destination(attempt) + ", but not " + shown(wrong) +
              (own ? "." : ", which a header field names."),
          own ? askingForRequest(attempt) : std::string(kWithoutField)};
}

Sentences sentencesOf(Stop stop, const PlanRule& rule, const Attempt& attempt) {
  switch (stop) {
    case Stop::kApex:
      return notTheApex(rule, attempt);
    case Stop::kType:
      return notThisType(rule, attempt);
    case Stop::kPort:
      return notThisPort(rule, attempt);
    case Stop::kProtocol:
      return notThisProtocol(rule, attempt);
    case Stop::kMethod:
      return notThisMethod(rule, attempt);
    case Stop::kSpelling:
      return notThisSpelling(rule, attempt);
    case Stop::kPath:
      return notThisPath(rule, attempt);
    case Stop::kName:
    case Stop::kNowhere:
      break;
  }
  return notThisName(attempt);
}

// No rule covers these, and no approver can allow them.
Verdict refuseHost(const Attempt& attempt) {
  Verdict verdict;
  if (base::Address::parse(attempt.host)) {
    verdict.reason =
        "Rules allow destinations by name, and " + shown(attempt.host) + " is an address.";
    verdict.remedy = "Connect to the name of the host, and ask for that name.";
  } else {
    verdict.reason = shown(attempt.host) + " is not an accepted spelling of a host name.";
    verdict.remedy = "Write the name in lower case, without a dot at its end, and not as a number.";
  }
  return verdict;
}

// "Any name", a pattern or an approval of the name opens no way to this service itself: that is the
// tier `api`.
bool isBeyondTier(const model::NetworkPlan& plan, const Attempt& attempt) {
  return attempt.host == kApiName && plan.tier != "api";
}

Verdict refuseApi() {
  Verdict verdict;
  verdict.reason = std::string(kApiName) + " is this service, and the tier api alone leads there.";
  verdict.remedy = R"(Ask for network_policy {"tier":"api"}.)";
  return verdict;
}

// The package gateway needs no rule of the policy: its own rules decide about each package.
Verdict judgeGateway(const model::NetworkPlan& plan, model::Ecosystem ecosystem,
                     const Attempt& attempt) {
  const PlanRule& rule = gatewayRule(ecosystem);
  const std::string name(model::gatewayName(ecosystem));
  const bool has = plan.packages && std::ranges::find(plan.packages->ecosystems, ecosystem) !=
                                        plan.packages->ecosystems.end();
  if (!has) {
    return {.reason = name + " is the package gateway, which does not answer this sandbox.",
            .remedy = "Ask the operator to configure packages." +
                      std::string(model::ecosystemName(ecosystem)) +
                      ", and for a rule of the policy without `packages: false`."};
  }
  const Stop stop = stopOf(rule, attempt);
  if (stop == Stop::kNowhere) return {.allowed = true, .rule = &rule, .reason = {}, .remedy = {}};
  return {.rule = &rule,
          .reason = name + " answers plain HTTP at port 80 alone.",
          .remedy = "Use http://" + name + "/."};
}

// The policy's answer to a refused attempt. An approver can grant names, ports and
// requests, but neither other record types nor other readings of a path.
OnDenied onDenied(const model::NetworkPlan& plan, Stop stop, const PlanRule* nearest) {
  if (stop == Stop::kType || stop == Stop::kSpelling) return OnDenied::kDeny;
  return nearest == nullptr ? plan.on_denied : nearest->entry.on_denied.value_or(plan.on_denied);
}

}  // namespace

const PlanRule& gatewayRule(model::Ecosystem ecosystem) {
  static const auto rule_for = [](model::Ecosystem of) {
    PlanRule rule;
    rule.entry.name = model::gatewayName(of);
    rule.entry.ports = {80};
    rule.entry.protocol = model::Protocol::kHttp;
    rule.rule = "packages";
    return rule;
  };
  static const PlanRule kPypi = rule_for(model::Ecosystem::kPypi);
  static const PlanRule kNpm = rule_for(model::Ecosystem::kNpm);
  return ecosystem == model::Ecosystem::kPypi ? kPypi : kNpm;
}

Verdict judge(const model::NetworkPlan& plan, const Attempt& attempt) {
  const auto name = model::hostName(attempt.host);
  if (!name || *name != attempt.host) return refuseHost(attempt);
  if (isBeyondTier(plan, attempt)) return refuseApi();
  if (const auto ecosystem = model::ecosystemOfGateway(attempt.host)) {
    return judgeGateway(plan, *ecosystem, attempt);
  }
  Stop furthest = Stop::kName;
  const PlanRule* nearest = nullptr;
  for (const PlanRule& rule : plan.rules) {
    const Stop stop = stopOf(rule, attempt);
    if (stop == Stop::kNowhere) return {.allowed = true, .rule = &rule, .reason = {}, .remedy = {}};
    if (stop > furthest) {
      furthest = stop;
      nearest = &rule;
    }
  }
  Sentences sentences =
      nearest == nullptr ? notThisName(attempt) : sentencesOf(furthest, *nearest, attempt);
  if (furthest == Stop::kApex) nearest = nullptr;  // the rule does not cover the name
  return {.rule = nearest,
          .reason = std::move(sentences.reason),
          .remedy = std::move(sentences.remedy),
          .on_denied = onDenied(plan, furthest, nearest)};
}

Verdict judgeConnection(const model::NetworkPlan& plan, const Attempt& attempt) {
  const Verdict opening = judge(plan, {.host = attempt.host, .port = attempt.port});
  const model::Protocol fixed =
      opening.allowed ? opening.rule->entry.protocol : model::Protocol::kTcp;
  if (!attempt.protocol || fixed == model::Protocol::kTcp || fixed == *attempt.protocol) {
    return judge(plan, attempt);
  }
  Sentences sentences = notThisProtocol(*opening.rule, attempt);
  return {.rule = opening.rule,
          .reason = std::move(sentences.reason),
          .remedy = std::move(sentences.remedy),
          .on_denied = onDenied(plan, Stop::kProtocol, opening.rule)};
}

std::vector<uint16_t> portsOf(const model::NetworkPlan& plan) {
  std::set<uint16_t> ports;
  for (const PlanRule& rule : plan.rules) {
    if (rule.entry.ports.empty()) return {};
    ports.insert(rule.entry.ports.begin(), rule.entry.ports.end());
  }
  return {ports.begin(), ports.end()};
}

}  // namespace cloister::egress
