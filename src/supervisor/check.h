// SPDX-License-Identifier: Apache-2.0
// `cloister serve --check`: whether the service would accept its configuration. Starts nothing,
// binds nothing, and changes no file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "supervisor/serve.h"

namespace cloister::supervisor {

// Warnings about a valid configuration, each a sentence. An error names the key, in `field` too
// where the key is known. The daemons read the files that the configuration names, with the
// privileges of the caller.
Result<std::vector<std::string>> checkConfiguration(const ServeOptions& options);

// The warning about clients on other machines that send their keys over plain HTTP; "" for an
// address of this machine alone, and with TLS.
std::string plainHttpWarning(const std::string& address, bool tls);

}  // namespace cloister::supervisor
