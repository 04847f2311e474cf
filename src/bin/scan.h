// SPDX-License-Identifier: Apache-2.0
// The scan of artifacts by a command or a URL of the operator: docs/adr/0026.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "model/config.h"
#include "net/blocking_client.h"
#include "orchestrator/storage/scanner.h"

namespace cloister {

// The scanner of the configuration: helpers that run its command, or its server.
struct ScanParts {
  std::vector<Fd> helpers;
  std::optional<net::Endpoint> endpoint;
};

// Starts the helpers of a command. They are copies of this process, so call before reading any key.
// Errors name the key of the configuration.
Result<ScanParts> prepareScan(const model::Config& config);

// nullptr without a scanner; `parts` must outlive the scanner.
std::unique_ptr<orchestrator::Scanner> makeScanner(const boost::asio::any_io_executor& executor,
                                                   const ScanParts& parts,
                                                   const model::Config& config);

}  // namespace cloister
