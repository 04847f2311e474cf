// SPDX-License-Identifier: Apache-2.0
// PolicyService::explainEgress: whether a run could reach a URL. The answer comes from the same
// plan and the same evaluator as those of cloister-egress.
#include <algorithm>
#include <array>
#include <charconv>

#include "egress/plan/judge.h"
#include "egress/plan/star.h"
#include "orchestrator/governance/policy_service.h"
#include "orchestrator/guard/agent_guard.h"
#include "policy/explain.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
using model::Protocol;

constexpr size_t kMaxUrl = 8192;
constexpr size_t kMaxMethod = 64;

// The parts of a URL that an attempt has.
struct Target {
  std::string host;
  uint16_t port = 0;
  Protocol protocol = Protocol::kTcp;
  std::string path;  // without the query
};

struct Scheme {
  std::string_view name;
  Protocol protocol;
  uint16_t port;  // 0: the URL has to name the port
};
constexpr std::array<Scheme, 6> kSchemes = {{
    {"https", Protocol::kTls, 443},
    {"wss", Protocol::kTls, 443},
    {"http", Protocol::kHttp, 80},
    {"ws", Protocol::kHttp, 80},
    {"ssh", Protocol::kTcp, 22},
    {"tcp", Protocol::kTcp, 0},
}};

std::unexpected<Error> wrongUrl() {
  return fail(Code::kInvalid,
              "url: must be as https://api.example.com/path, tcp://db.example.com:5432, or "
              "api.example.com:443",
              "url");
}

// "host", "host:port" or "[address]:port"; without a port, `port` stays.
Result<> readAuthority(std::string_view text, Target& target) {
  if (text.empty() || text.find('@') != std::string_view::npos) return wrongUrl();
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  if (text.starts_with('[') && bracket == std::string_view::npos) return wrongUrl();
  const size_t from = bracket == std::string_view::npos ? 0 : bracket;
  const size_t colon = text.find(':', from);
  target.host = text.substr(0, colon);
  if (bracket != std::string_view::npos) target.host = text.substr(1, bracket - 1);
  // Names have no case: look-ups, TLS and Host are compared in lower case.
  for (char& c : target.host)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (colon == std::string_view::npos) return {};
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), target.port);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && target.port != 0 ? Result<>() : wrongUrl();
}

Result<Target> readUrl(std::string_view url) {
  if (url.size() > kMaxUrl) return wrongUrl();
  Target target;
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) {
    TRY(readAuthority(url, target));
    if (target.port == 0) return wrongUrl();
    target.protocol = model::protocolOfPort(target.port);
    target.path = target.protocol == Protocol::kTcp ? "" : "/";
    return target;
  }
  const auto* scheme = std::ranges::find(kSchemes, url.substr(0, scheme_end), &Scheme::name);
  if (scheme == kSchemes.end()) return wrongUrl();
  const std::string_view rest = url.substr(scheme_end + 3);
  const size_t path = std::min(rest.find_first_of("/?#"), rest.size());
  target.port = scheme->port;
  target.protocol = scheme->protocol;
  TRY(readAuthority(rest.substr(0, path), target));
  if (target.port == 0) return wrongUrl();
  const std::string_view asked = rest.substr(path);
  target.path = asked.substr(0, asked.find_first_of("?#"));
  if (target.path.empty()) target.path = "/";
  return target;
}

Result<std::string> readMethod(base::ObjectReader& reader) {
  std::string method = TRY(reader.text("method")).value_or("GET");
  const bool token =
      !method.empty() && method.size() <= kMaxMethod && std::ranges::all_of(method, [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-';
      });
  if (token) return method;
  return fail(Code::kInvalid, "method: must be the name of an HTTP method", "method");
}

// The run whose network the question is about, as a supposed request (policy/explain.h).
Result<json::object> supposedRun(base::ObjectReader& reader) {
  const std::string tier = TRY(reader.text("network")).value_or("restricted");
  const std::string language = TRY(reader.text("language")).value_or("python");
  json::object request{{"network_policy", json::object{{"tier", tier}}}};
  if (language == "command") {  // as in conditions of rules
    request["command"] = "true";
  } else {
    request["language"] = language;
    request["code"] = "";
  }
  json::object supposed{{"request", std::move(request)}};
  if (const json::object* principal = TRY(reader.object("principal")))
    supposed["principal"] = *principal;
  return supposed;
}

json::value orNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(json::string(text));
}

json::object refusal(const policy::Denied& denied) {
  return {{"allowed", false},        {"rule", orNull(denied.rule)},
          {"reason", denied.reason}, {"remedy", orNull(denied.remedy)},
          {"entry", nullptr},        {"on_denied", nullptr}};
}

json::object toJsonObject(const egress::Verdict& verdict) {
  const model::PlanRule* rule = verdict.rule;
  std::string reason = verdict.reason;
  if (verdict.allowed) {
    reason = rule->entry.why.empty() ? "Rule \"" + rule->rule + "\" grants " +
                                           policy::destinationText(rule->entry) + "."
                                     : rule->entry.why;
  }
  return {{"allowed", verdict.allowed},
          {"rule", rule == nullptr ? json::value(nullptr) : json::value(json::string(rule->rule))},
          {"reason", reason},
          {"remedy", orNull(verdict.remedy)},
          {"entry",
           rule == nullptr ? json::value(nullptr) : json::value(model::toJsonObject(rule->entry))},
          {"on_denied", verdict.allowed
                            ? json::value(nullptr)
                            : json::value(json::string(model::onDeniedName(verdict.on_denied)))}};
}

// As cloister-egress judges: the request of HTTP, and of TLS whose rule inspects. A name that a
// pattern allows must carry no data.
egress::Verdict verdictOn(const model::NetworkPlan& plan, const Target& target,
                          const std::string& method) {
  egress::Attempt attempt{.host = target.host, .port = target.port, .protocol = target.protocol};
  const auto withRequest = [&] {
    attempt.method = method;
    attempt.path = target.path;
    return egress::judgeConnection(plan, attempt);
  };
  egress::Verdict verdict =
      target.protocol == Protocol::kHttp ? withRequest() : egress::judgeConnection(plan, attempt);
  const bool inspected = verdict.allowed && target.protocol == Protocol::kTls &&
                         verdict.rule != nullptr && verdict.rule->entry.inspect;
  if (inspected) verdict = withRequest();
  if (!verdict.allowed) return verdict;
  if (std::string data = egress::dataIn(plan, verdict, target.host); !data.empty()) {
    return {.rule = verdict.rule,
            .reason = std::move(data),
            .remedy = std::string(egress::kNameTheHost)};
  }
  return verdict;
}

json::object judged(const policy::Policy& policy, const policy::Question& question,
                    const Target& target, const std::string& method) {
  const policy::Evaluation made = policy::evaluate(policy, question);
  if (made.denied) return refusal(*made.denied);
  if (!made.network) {
    return refusal({.rule = made.rule->name,
                    .reason = "the run has no network",
                    .remedy = R"(ask for another network tier, such as "restricted")"});
  }
  if (made.wanted != nullptr) {
    const policy::Decision decision = policy::decide(policy, question);
    return refusal(policy::refusalOf(decision).value());
  }
  return toJsonObject(verdictOn(*made.network, target, method));
}

}  // namespace

Task<Result<json::object>> PolicyService::explainEgress(model::Principal asker, json::object body) {
  const json::value* document = body.if_contains("document");
  const bool own = document != nullptr && document->is_string();
  const bool sees = own || asker.may(model::Permission::kPolicyApply);
  base::ObjectReader reader(body, "");
  const policy::Policy chosen = CO_TRY(choose(reader, "version"));
  const auto url = CO_TRY(reader.text("url"));
  if (!url) co_return fail(Code::kInvalid, "url: is required", "url");
  const Target target = CO_TRY(readUrl(*url));
  const std::string method = CO_TRY(readMethod(reader));
  const json::object run = CO_TRY(supposedRun(reader));
  CO_TRY(reader.finish());
  base::ObjectReader run_reader(run, "");
  policy::Supposed supposed = CO_TRY(policy::readSupposed(run_reader, readerParts(), asker));
  if (!sees && (body.contains("version") || supposed.principal.tenant != asker.tenant)) {
    co_return fail(Code::kDenied,
                   "principal.tenant: to ask for another tenant or about a version needs the "
                   "permission policy.apply",
                   "principal.tenant");
  }
  if (parts_.agents != nullptr) {
    const Held held = CO_TRY(parts_.agents->heldFor(supposed.principal));
    if (held) supposed.agent_network = held->network;
  }
  const policy::Question question = supposed.question();
  const Ruling ruling =
      own || body.contains("version") ? Ruling{} : co_await parts_.engine.rule(question);
  const policy::Policy& deciding = ruling.policy ? *ruling.policy : chosen;
  json::object answer = judged(deciding, question, target, method);
  answer["tier"] = supposed.request.network.tier;
  answer["policy_id"] = deciding.id;
  co_return answer;
}

}  // namespace cloister::orchestrator
