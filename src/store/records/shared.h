// SPDX-License-Identifier: Apache-2.0
// Descriptions shared by the records of executions, sessions and escalations.
#pragma once

#include <concepts>
#include <type_traits>

#include "model/execution.h"
#include "model/principal.h"
#include "store/records/archive.h"

namespace cloister::store {

template <class T, class Value>
concept Of = std::same_as<std::remove_const_t<T>, Value>;

template <class A, Of<model::ProvenanceLayer> T>
void describe(A& a, T& v) {
  a.text("place", v.place);
  a.text("digest", v.digest);
  a.text("sbom_sha256", v.sbom_sha256);
}

template <class A, Of<model::Provenance> T>
void describe(A& a, T& v) {
  a.text("runtime", v.runtime);
  a.text("node", v.node);
  a.since().text("image", v.image);
  a.text("image_digest", v.image_digest);
  a.text("policy_id", v.policy_id);
  a.text("permit_id", v.permit_id);
  a.text("code_sha256", v.code_sha256);
  a.text("output_sha256", v.output_sha256);
  a.text("stdout_sha256", v.stdout_sha256);
  a.text("stderr_sha256", v.stderr_sha256);
  a.texts("weakened", v.weakened);
  a.when(v.nested).flag("nested", v.nested);
  a.when(v.fresh).flag("fresh", v.fresh);
  a.when(!v.approval.empty()).text("approval", v.approval);
  a.when(!v.layers.empty()).list("layers", v.layers);
}

template <class A, Of<model::RunError> T>
void describe(A& a, T& v) {
  a.text("type", v.type);
  a.bytes("message", v.message);
  a.object("details", v.details);
  a.flag("retryable", v.retryable);
}

// Records before roles have only `admin`; later records still have `admin`, too.
template <class A, Of<model::Principal> T>
void describe(A& a, T& v) {
  a.text("tenant", v.tenant);
  a.text("app", v.app);
  a.text("agent", v.agent);
  a.text("user", v.user);
  a.roles(v.roles);
  a.text("key", v.key_id);
}

}  // namespace cloister::store
