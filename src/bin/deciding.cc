// SPDX-License-Identifier: Apache-2.0
#include "bin/deciding.h"

#include "opa/engine.h"

namespace cloister {

Result<std::unique_ptr<Deciding>> openDeciding(const boost::asio::any_io_executor& executor,
                                               const model::Config& config) {
  const std::string& engine = config.policies.engine;
  const model::Config::Policies::Opa& from = config.policies.opa;
  auto made = std::make_unique<Deciding>();
  if (engine == "embedded") {
    if (!from.url.empty()) {
      return fail(Code::kInvalid, "policies.opa.url: only with policies.engine: opa",
                  "policies.opa.url");
    }
    made->engine = std::make_unique<orchestrator::EmbeddedEngine>(made->current);
    return made;
  }
  if (engine != "opa") {
    return fail(Code::kInvalid, "policies.engine: must be embedded or opa", "policies.engine");
  }
  if (from.url.empty()) {
    return fail(Code::kInvalid, "policies.opa.url: is required with policies.engine: opa",
                "policies.opa.url");
  }
  made->engine = TRY(opa::openEngine(executor, {.url = from.url,
                                                .timeout = Millis(from.timeout_ms),
                                                .answer_bytes = from.answer_bytes,
                                                .token_file = from.token_file,
                                                .ca_file = from.ca_file,
                                                .most = config.limits,
                                                .allow_weaker = config.policy.allow_weaker}));
  return made;
}

}  // namespace cloister
