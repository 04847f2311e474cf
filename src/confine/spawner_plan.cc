// SPDX-License-Identifier: Apache-2.0
#include "confine/spawner_plan.h"

#include "confine/plan_codec.h"

namespace cloister::runtime {

std::string encodeSpawnerPlan(const SpawnerPlan& plan) {
  PlanWriter out;
  out.steps(plan.root);
  out.confinement(plan.confinement, plan.confinement.root);
  out.number(plan.ids.first);
  out.number(plan.ids.count);
  return out.take();
}

Result<SpawnerPlan> decodeSpawnerPlan(std::string_view bytes) {
  wire::Reader r(bytes);
  SpawnerPlan plan;
  plan.root = readSteps(r);
  plan.confinement = readConfinement(r);
  plan.ids.first = r.u32();
  plan.ids.count = r.u32();
  if (!r.done()) return fail(Code::kInternal, "reading a spawner's plan: it is malformed");
  return plan;
}

}  // namespace cloister::runtime
