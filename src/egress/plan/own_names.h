// SPDX-License-Identifier: Apache-2.0
// Names that cloister-egress answers itself. No rule of a plan is needed to look up the proxy: it
// judges each destination by the plan.
#pragma once

#include <cstdint>
#include <string_view>

namespace cloister::egress {

inline constexpr std::string_view kProxyName = "proxy.cloister.internal";
inline constexpr uint16_t kProxyPort = 3128;
// This service's own API, for the tier api.
inline constexpr std::string_view kApiName = "api.cloister.internal";

// The package gateway (model/packages.h has its names).
inline constexpr uint16_t kGatewayPort = 80;

}  // namespace cloister::egress
