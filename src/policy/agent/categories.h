// SPDX-License-Identifier: Apache-2.0
// The kinds of paths and hosts: tables, for the words of levels.yaml. Pure and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/agent/operation.h"

namespace cloister::policy {

// For absolute, plain paths.
bool isTemporaryPath(std::string_view path);
bool isSystemPath(std::string_view path);  // outside of the workspace, homes and temporary places
bool isConfigPath(std::string_view path);  // configures programs, builds or hosts

// In lower case, without brackets; nullopt unless a URL with a host.
std::optional<std::string> hostOf(std::string_view url);
// Whether a permission for `pattern` covers the URL. The pattern is a host (pypi.org, *.pypi.org),
// a host with its port (pypi.org:443), or a URL; * stands for any characters. A host without a
// port covers all ports, a URL without a path all paths. Case does not count in a host.
bool coversUrl(std::string_view pattern, std::string_view url);
// Whether a loopback or private address, a name without a dot, or a name under internal, local,
// lan, home.arpa.
bool isInternalHost(std::string_view host);

// Whether an entry of `kinds` (require_human_approval of a level) applies to the operation. An
// unknown kind applies to all operations.
bool needsHuman(const std::vector<std::string>& kinds, const Operation& operation,
                std::string_view target);

}  // namespace cloister::policy
