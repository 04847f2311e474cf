// SPDX-License-Identifier: Apache-2.0
// Bounds that runs and sessions have in common, and how they are told.
#pragma once

#include <cstdint>

namespace cloister::orchestrator {

// Error::field of the bound of what one agent may have waiting.
inline constexpr char kPendingOfAgent[] = "escalation.pending_per_agent";
// What helps then, whether something waits for the escalations or they were asked for by hand.
inline constexpr char kDecideOne[] =
    "have one of them decided (cloister escalation pending), or end an execution or session that "
    "waits for one";

// Looks at rules that cannot be read, after which what they held is ended.
inline constexpr uint32_t kMostUnreadable = 20;

}  // namespace cloister::orchestrator
