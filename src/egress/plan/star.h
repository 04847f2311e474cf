// SPDX-License-Identifier: Apache-2.0
// Bounds of the labels that stand for the star of an allowed "*.example.org". A program could send
// data out in them, since the name is resolved when it is dialled. A rule with the name itself
// lifts the bounds. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "egress/plan/judge.h"

namespace cloister::egress {

inline constexpr size_t kMaxStarLabels = 4;
inline constexpr size_t kMaxStarLabel = 40;  // bytes of one label
inline constexpr double kMaxStarBits = 160;  // Shannon: a SHA-1 in hexadecimal passes

// Why a name could carry data in place of the star of the allowing rule, as a sentence; "": the
// name could not, or a rule has the name itself. For each resolved name.
std::string dataIn(const model::NetworkPlan& plan, const Verdict& verdict, std::string_view host);
// The remedy of such a refusal.
inline constexpr std::string_view kNameTheHost = "Ask for a rule with the name of the host itself.";

}  // namespace cloister::egress
