// SPDX-License-Identifier: Apache-2.0
#include "supervisor/check.h"

#include "base/file.h"
#include "base/json.h"
#include "model/config.h"
#include "supervisor/capture.h"
#include "supervisor/listener.h"

namespace cloister::supervisor {
namespace {

// The daemons that read more than the configuration file, and know whether the content is right.
constexpr const char* kCheckers[] = {"cloisterd", "cloister-egress"};

std::string memberOf(const base::json::value& answer, std::string_view name) {
  const auto* object = answer.if_object();
  const auto* member = object != nullptr ? object->if_contains(name) : nullptr;
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : "";
}

// A daemon answers with an error of the configuration as {"error":…,"key":…} and status 1.
Result<> askDaemon(const std::string& name, const ServeOptions& options) {
  constexpr Millis kPatience{20'000};
  Program program;
  program.argv = {base::programDir() + "/" + name, "--check"};
  if (options.state) program.argv.insert(program.argv.end(), {"--state", *options.state});
  if (options.config) program.argv.insert(program.argv.end(), {"--config", *options.config});
  program.env = environmentWithout({});
  const Captured captured = TRY(capture(program, kPatience));
  if (captured.wait_status == 0) return {};
  const auto answer = base::parseJson(captured.out);
  const std::string error = answer ? memberOf(*answer, "error") : "";
  if (!error.empty()) return fail(Code::kInvalid, error, memberOf(*answer, "key"));
  return fail(Code::kInternal, "checking with " + name + ": the program " +
                                   describeExit(captured.wait_status) + ": " + captured.err);
}

}  // namespace

std::string plainHttpWarning(const std::string& address, bool tls) {
  if (tls || address.empty() || isLoopback(address)) return {};
  return "plain HTTP on " + address +
         ": other machines reach this address, and send their API keys without encryption; set "
         "tls.certificate and tls.key, or listen on 127.0.0.1 behind a proxy with TLS";
}

Result<std::vector<std::string>> checkConfiguration(const ServeOptions& options) {
  model::Config config;
  if (options.config) {
    auto loaded = model::loadConfig(*options.config);
    // A file that cannot be read is a wrong configuration, whatever the reason.
    if (!loaded) return fail(Code::kInvalid, loaded.error().message, loaded.error().field);
    config = *std::move(loaded);
  }
  const std::string address = options.listen.value_or(config.listen);
  const std::string key = options.listen ? "--listen" : "listen";
  if (auto good = checkAddress(address); !good) {
    return fail(Code::kInvalid, key + ": " + good.error().message, key);
  }
  for (const char* name : kCheckers)
    TRY(askDaemon(name, options));
  std::vector<std::string> warnings;
  std::string plain = plainHttpWarning(address, !config.tls.certificate.empty());
  if (!plain.empty()) warnings.push_back(std::move(plain));
  return warnings;
}

}  // namespace cloister::supervisor
