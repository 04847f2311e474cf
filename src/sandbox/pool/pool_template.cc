// SPDX-License-Identifier: Apache-2.0
// How the pool has templates (template.h) made, and sandboxes made from templates. A template is
// made in place of a ready sandbox, and this sandbox is the first to begin from the template. So no
// request waits longer than for a boot.
#include <utility>

#include "base/log.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

// Walls of an agent are its tenant's, and in no template.
std::shared_ptr<Templates> Pool::templatesFor(const Kind& kind) const {
  return guest_ && kind.alike.walls.empty() ? guest_->templates() : nullptr;
}

Templates::Shape Pool::shapeOf(const Kind& kind) const {
  return {guest_.get(), spawner_->root().spawner(), kind.spec};
}

void Pool::forgetTemplates() {
  const auto templates = guest_ ? guest_->templates() : nullptr;
  if (templates) templates->forget(*guest_);
}

// A template that fails to resume is dropped, and the sandbox boots.
Task<Result<std::shared_ptr<Live>>> Pool::resume(const Kind& kind, model::Limits limits) {
  const auto templates = templatesFor(kind);
  How how{.begins = Beginning::kResumes};
  if (templates) how.from = templates->find(shapeOf(kind));
  if (!how.from) co_return nullptr;
  auto live = co_await make(limits, kind.alike, how);
  if (live || live.error().code == Code::kUnavailable) co_return live;
  base::log(base::Level::kWarn, "nothing begun from a template",
            {{"reason", live.error().message}});
  templates->forget(*how.from);
  co_return nullptr;
}

// Tries once for each kind, and never again after a failure.
Task<void> Pool::keepTemplate(Kind& kind) {
  const auto templates = templatesFor(kind);
  const auto shape = shapeOf(kind);
  if (!templates || kind.not_kept || templates->find(shape)) co_return;
  const auto begun = base::monotonicNow();
  auto made = co_await makeTemplate(kind);
  const auto took = std::chrono::duration_cast<Millis>(base::monotonicNow() - begun).count();
  if (made) {
    templates->keep(shape, *std::move(made));
    base::log(base::Level::kInfo, "template made", {{"runtime", guest_->name()}, {"ms", took}});
  } else if (made.error().code != Code::kUnavailable) {
    base::log(base::Level::kWarn, "no template made", {{"reason", made.error().message}});
    kind.not_kept = true;
  }
}

// The template is sealed after its machine has ended.
Task<Result<std::shared_ptr<Template>>> Pool::makeTemplate(const Kind& kind) {
  auto kept = CO_TRY(Template::make(guest_->machineBytes(kind.spec)));
  How how{.begins = Beginning::kKept, .from = kept};
  const auto live = CO_TRY(co_await boot(kind.limits, kind.alike, how));
  auto saved = co_await guest_->save(executor_, std::move(how.orders), *kept);
  if (!saved) saved = fail(saved.error().code, live->lost(saved.error().message));
  auto buried = co_await live->bury();
  CO_TRY(std::move(saved));
  CO_TRY(std::move(buried));
  CO_TRY(kept->seal());
  co_return kept;
}

}  // namespace cloister::runtime
