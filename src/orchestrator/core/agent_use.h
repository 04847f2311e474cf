// SPDX-License-Identifier: Apache-2.0
// AgentUse: granted and used resources of the running sandboxes, of an agent or of everybody.
#pragma once

#include "model/limits.h"
#include "model/outcome.h"
#include "model/principal.h"
#include "policy/agent/operation.h"

namespace cloister::orchestrator {

struct AgentUse {
  policy::Resources reserved;
  policy::Resources measured;

  static bool isOf(const model::Principal& whose, const model::Principal* of) {
    return of == nullptr || (whose.tenant == of->tenant && whose.agent == of->agent);
  }

  void add(const model::Limits& limits, const model::Usage& usage) {
    reserved.memory_bytes += limits.memory_bytes;
    reserved.cpu_millis += limits.cpu_millis;
    reserved.running++;
    measured.memory_bytes += usage.memory_bytes;
    measured.cpu_millis += usage.cpu_millis;
    measured.running++;
  }
};

}  // namespace cloister::orchestrator
