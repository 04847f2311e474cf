// SPDX-License-Identifier: Apache-2.0
// The trust store of Java programs, which read no PEM bundle: a key store of the form JKS, which
// every Java reads. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cloister::orchestrator {

// All certificates of a PEM bundle. The password of its check sum is kJavaTrustPassword; the store
// has no secret. Malformed parts of the bundle are left out.
std::string javaTrustStore(std::string_view bundle);

inline constexpr std::string_view kJavaTrustPassword = "changeit";  // Java's own

}  // namespace cloister::orchestrator
