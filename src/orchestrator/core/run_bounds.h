// SPDX-License-Identifier: Apache-2.0
// Bounds shared by runs and sessions, and their messages.
#pragma once

#include <cstdint>

namespace cloister::orchestrator {

// Error::field of the bound on an agent's pending escalations.
inline constexpr char kPendingOfAgent[] = "escalation.pending_per_agent";
// The remedy at the bound, for blocked work and for manual escalations.
inline constexpr char kDecideOne[] =
    "have one of them decided (cloister escalation pending), or end an execution or session that "
    "waits for one";

// Failed reads of the rules before executions under the rules are ended.
inline constexpr uint32_t kMostUnreadable = 20;

}  // namespace cloister::orchestrator
