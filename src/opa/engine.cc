// SPDX-License-Identifier: Apache-2.0
#include "opa/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "async/signal.h"
#include "async/spawn.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/log.h"
#include "net/fetch.h"
#include "net/service.h"
#include "net/trust.h"
#include "net/url.h"
#include "policy/answer.h"

namespace cloister::opa {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using orchestrator::Ruling;

constexpr std::string_view kName = "opa";
constexpr std::string_view kPath = "/v1/data/cloister/decision";
constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kMending =
    "have an administrator look at the policy engine (policies.opa.url), or try again later";
constexpr size_t kMaxToken = 8192;
constexpr size_t kMaxId = 128;
constexpr size_t kMostAtOnce = 256;
constexpr size_t kMaxSocket = 107;  // sockaddr_un

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

// OPA's answer.
struct Answer {
  std::string decision_id;
  json::object decision;
};

// OPA's own members beside the decision do not matter.
Result<Answer> readEnvelope(std::string_view body) {
  const json::value value = TRY(base::parseJson(body, {.max_bytes = body.size(), .max_depth = 16}));
  if (!value.is_object()) return fail(Code::kInvalid, "the answer is no object");
  const json::object& envelope = value.get_object();
  const json::value* result = envelope.if_contains("result");
  if (result == nullptr) {
    return fail(Code::kInvalid, "the decision is undefined (data.cloister.decision)");
  }
  if (!result->is_object()) return fail(Code::kInvalid, "result: must be an object");
  Answer answer{.decision_id = {}, .decision = result->get_object()};
  if (const json::value* id = envelope.if_contains("decision_id")) {
    if (!id->is_string() || id->get_string().size() > kMaxId) {
      return fail(Code::kInvalid, "decision_id: must be a short text");
    }
    answer.decision_id = id->get_string();
  }
  return answer;
}

Result<net::Url> readUrl(const std::string& text) {
  const std::string key = "policies.opa.url";
  net::Url url;
  if (text.starts_with(kUnix)) {
    url = {.tls = false, .host = "localhost", .port = "", .target = "", .socket = text};
    url.socket.erase(0, kUnix.size());
    if (url.socket.starts_with("//")) url.socket.erase(0, 2);
    if (!url.socket.starts_with('/') || url.socket.size() > kMaxSocket) {
      return wrong(key, "must name a UNIX socket by its absolute path, of at most 107 bytes");
    }
  } else {
    auto parsed = net::parseUrl(text);
    if (!parsed) return wrong(key, parsed.error().message + ", or unix:/path");
    url = *std::move(parsed);
  }
  if (url.target.contains('?')) return wrong(key, "must have no query");
  while (url.target.ends_with('/'))
    url.target.pop_back();
  url.target += kPath;
  return url;
}

Result<std::string> readToken(const std::string& path) {
  const std::string key = "policies.opa.token_file";
  if (path.empty()) return std::string();
  auto text = base::readFile(path, kMaxToken);
  if (!text) return std::unexpected(std::move(text).error().within(key));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  const auto odd = [](char c) { return c <= ' ' || c > '~'; };
  if (text->empty() || std::ranges::any_of(*text, odd)) {
    return wrong(key, "must hold one token, printable and without spaces");
  }
  return *std::move(text);
}

// State shared with an exchange that may outlive its deadline.
struct Asking {
  explicit Asking(const asio::any_io_executor& executor) : done(executor) {}
  std::optional<Result<std::string>> body;
  async::Signal done;
};

class OpaEngine final : public orchestrator::PolicyEngine {
 public:
  OpaEngine(asio::any_io_executor executor, Settings settings, std::string token,
            std::shared_ptr<net::Service> service)
      : executor_(std::move(executor)),
        settings_(std::move(settings)),
        token_(std::move(token)),
        service_(std::move(service)) {}

  [[nodiscard]] std::string_view name() const override { return kName; }
  [[nodiscard]] std::string policyId() const override { return last_id_; }
  // Only a question shows whether OPA answers; each denial says so.
  [[nodiscard]] Result<> ready() const override { return {}; }

  asio::awaitable<Ruling> rule(const policy::Question& question) override {
    const json::object input = policy::questionJson(question, settings_.most);
    Ruling ruling;
    ruling.trace = {{"engine", kName}, {"input_sha256", base::sha256Hex(base::toJson(input))}};
    auto policy = co_await ask(input, question, ruling.trace);
    if (policy) {
      last_id_ = policy->id;
    } else {
      ruling.trace["failure"] = policy.error().message;
      policy = policy::brokenPolicy(kName, policy.error().message);
      policy->mending = kMending;
    }
    logDecision(*policy, ruling.trace);
    ruling.policy = std::make_shared<const policy::Policy>(*std::move(policy));
    co_return ruling;
  }

 private:
  asio::awaitable<Result<policy::Policy>> ask(const json::object& input,
                                              const policy::Question& question,
                                              json::object& trace) {
    const std::string body =
        CO_TRY(co_await exchange(base::toJson(json::object{{"input", input}})));
    auto answer = readEnvelope(body);
    if (!answer) co_return std::unexpected(std::move(answer).error().within("OPA's answer"));
    if (!answer->decision_id.empty()) trace["decision_id"] = answer->decision_id;
    auto policy = policy::readAnswer(answer->decision, question, settings_.most, kName);
    if (!policy) co_return std::unexpected(std::move(policy).error().within("OPA's decision"));
    policy->allow_weaker = settings_.allow_weaker;
    co_return policy;
  }

  // A name's look-up cannot be cancelled, so the caller stops waiting at the deadline of the whole
  // exchange.
  asio::awaitable<Result<std::string>> exchange(std::string body) {
    if (*asking_ >= kMostAtOnce) {
      co_return fail(Code::kUnavailable, "too many decisions are being asked for");
    }
    const auto asking = std::make_shared<Asking>(executor_);
    const auto until = base::monotonicNow() + settings_.timeout;
    async::spawn(executor_, send(service_, asking, asking_, posted(std::move(body)),
                                 {.timeout = settings_.timeout, .bytes = settings_.answer_bytes}));
    while (!asking->body && base::monotonicNow() < until)
      co_await asking->done.wait(until);
    const std::optional<Result<std::string>> answer = std::move(asking->body);
    if (answer && (answer->has_value() || base::monotonicNow() < until)) co_return *answer;
    co_return fail(Code::kUnavailable, "OPA did not answer within " +
                                           std::to_string(settings_.timeout.count()) +
                                           " ms (policies.opa.timeout_ms)");
  }

  // Keeps no reference to the engine, which may be gone before the end.
  static asio::awaitable<void> send(std::shared_ptr<net::Service> service,
                                    std::shared_ptr<Asking> asking, std::shared_ptr<size_t> count,
                                    net::Posted posted, net::FetchLimits limits) {
    ++*count;
    asking->body = co_await service->post(std::move(posted), limits);
    --*count;
    asking->done.notify();
  }

  [[nodiscard]] net::Posted posted(std::string body) const {
    net::Posted made{.body = std::move(body), .headers = {}};
    if (!token_.empty()) made.headers.emplace_back("Authorization", "Bearer " + token_);
    return made;
  }

  static void logDecision(const policy::Policy& policy, const json::object& trace) {
    const auto text = [&](std::string_view member) {
      const json::value* value = trace.if_contains(member);
      return value == nullptr ? std::string() : std::string(value->get_string());
    };
    if (!policy.broken.empty()) {
      return base::log(base::Level::kError, "policy engine gave no decision; the request is denied",
                       {{"engine", kName},
                        {"input_sha256", text("input_sha256")},
                        {"decision_id", text("decision_id")},
                        {"reason", policy.broken}});
    }
    const policy::Rule& rule = policy.rules[0];
    base::log(base::Level::kInfo, "policy decision",
              {{"engine", kName},
               {"policy", policy.id},
               {"outcome", policy::effectName(rule.effect)},
               {"rule", rule.name},
               {"score", static_cast<int64_t>(policy.score.value_or(0))},
               {"decision_id", text("decision_id")},
               {"input_sha256", text("input_sha256")}});
  }

  asio::any_io_executor executor_;
  Settings settings_;
  std::string token_;
  std::shared_ptr<net::Service> service_;
  std::shared_ptr<size_t> asking_ = std::make_shared<size_t>(0);  // exchanges under way
  std::string last_id_ = std::string(kName) + "@unversioned";
};

}  // namespace

Result<std::unique_ptr<orchestrator::PolicyEngine>> openEngine(asio::any_io_executor executor,
                                                               const Settings& settings) {
  net::Url url = TRY(readUrl(settings.url));
  std::string token = TRY(readToken(settings.token_file));
  auto tls = TRY(net::clientTls(settings.ca_file, "policies.opa.ca_file"));
  auto service = std::make_shared<net::Service>(std::move(url), std::move(tls));
  return std::make_unique<OpaEngine>(std::move(executor), settings, std::move(token),
                                     std::move(service));
}

}  // namespace cloister::opa
