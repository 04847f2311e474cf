// SPDX-License-Identifier: Apache-2.0
// The configured policy decision point.
#pragma once

#include <memory>

#include <boost/asio/any_io_executor.hpp>

#include "model/config.h"
#include "orchestrator/core/policy_engine.h"
#include "policy/current.h"

namespace cloister {

struct Deciding {
  policy::Current current;  // the document in force, whatever engine decides
  std::unique_ptr<orchestrator::PolicyEngine> engine;
};

// Reads the engine's files now, while still permitted. kInvalid names the key.
Result<std::unique_ptr<Deciding>> openDeciding(const boost::asio::any_io_executor& executor,
                                               const model::Config& config);

}  // namespace cloister
