// SPDX-License-Identifier: Apache-2.0
// The scan of artifacts by a command of the operator: docs/adr/0026.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "model/config.h"
#include "orchestrator/storage/scanner.h"

namespace cloister {

// Starts the helpers that run its command. The helpers are copies of this process, so start before
// reading any key.
Result<std::vector<Fd>> startScanHelpers(const model::Config& config);

// nullptr without a scanner; `helpers` must outlive the scanner.
std::unique_ptr<orchestrator::Scanner> makeScanner(const boost::asio::any_io_executor& executor,
                                                   const std::vector<Fd>& helpers,
                                                   const model::Config& config);

}  // namespace cloister
