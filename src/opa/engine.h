// SPDX-License-Identifier: Apache-2.0
// The Open Policy Agent as the deciding engine: POST {url}/v1/data/cloister/decision with {"input":
// …}, over kept connections. policy/answer.h defines the documents. Anything except a whole, strict
// answer in time denies: an undefined decision, an unknown member, another status than 200, limits
// above the ceilings. Each decision is a line of the log, with the digest of its input; so is each
// failure.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "model/limits.h"
#include "orchestrator/core/policy_engine.h"

namespace cloister::opa {

struct Settings {
  std::string url;  // https://…, http:// of loopback, or unix:/path
  Millis timeout{250};
  size_t answer_bytes = size_t{64} << 10;
  std::string token_file;     // sent as `Authorization: Bearer`; "": none
  std::string ca_file;        // "" = the system's authorities
  model::Limits most;         // ceiling of every answer
  bool allow_weaker = false;  // policy::Policy
};

// Reads the token and the authorities now; kInvalid names the key of the configuration.
Result<std::unique_ptr<orchestrator::PolicyEngine>> openEngine(
    boost::asio::any_io_executor executor, const Settings& settings);

}  // namespace cloister::opa
