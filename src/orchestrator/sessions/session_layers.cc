// SPDX-License-Identifier: Apache-2.0
// The dependency layers of a session, which its sandbox and so its programs have.
#include <utility>

#include "model/image_name.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

LayerRequest Sessions::Impl::layerRequestOf(const LiveSession& session) const {
  const model::OfferedImage* image = control->permits.image(session.ruling, subjectOf(session));
  return {.principal = session.record.principal,
          .language = session.record.language,
          .deps = session.request.deps,
          .image = image == nullptr ? toText(model::ImageRef{})
                                    : toText(model::ImageRef{image->name, image->digest})};
}

// The error of dependencies that can never be had.
Result<> Sessions::Impl::checkDeps(const LiveSession& session) const {
  if (session.request.deps.empty()) return {};
  if (control->layers != nullptr) return control->layers->check(layerRequestOf(session));
  return fail(Code::kUnsupported,
              "deps: this service has no index of packages; have packages.pypi.index or "
              "packages.npm.registry configured, or leave deps empty",
              "deps");
}

// Before the session takes its place on the node, since the making of a layer needs a place, too.
Task<Result<>> Sessions::Impl::haveLayers(LiveSession& session) {
  if (session.request.deps.empty() || !session.layers.empty()) co_return Result<>{};
  CO_TRY(checkDeps(session));
  Layered layered = CO_TRY(co_await control->layers->make(layerRequestOf(session)));
  session.layers = std::move(layered.layers);
  session.record.provenance.layers = std::move(layered.shown);
  co_return Result<>{};
}

}  // namespace cloister::orchestrator
