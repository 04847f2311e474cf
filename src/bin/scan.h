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

// The helpers that run its command. They are copies of this process, so before it has read a key.
Result<std::vector<Fd>> startScanHelpers(const model::Config& config);

// nullptr where nothing is scanned; `helpers` outlive it.
std::unique_ptr<orchestrator::Scanner> makeScanner(const boost::asio::any_io_executor& executor,
                                                   const std::vector<Fd>& helpers,
                                                   const model::Config& config);

}  // namespace cloister
