// SPDX-License-Identifier: Apache-2.0
// The pool's statistics.
#include <algorithm>
#include <utility>

#include "sandbox/pool/pool.h"

namespace cloister::runtime {
namespace {

// Kinds beyond the reporting bound are summed up as a single kind.
void addTo(model::PoolKind& rest, const model::PoolKind& kind) {
  rest.language = model::PoolStats::kOther;
  rest.default_limits = false;
  rest.scratch_bytes = 0;
  rest.ready += kind.ready;
  rest.wanted += kind.wanted;
  rest.making += kind.making;
  rest.waiting += kind.waiting;
}

}  // namespace

model::PoolStats Pool::stats() const {
  model::PoolStats stats = counts_;
  stats.zygotes = zygotes_->standing();
  stats.dying = host_->dying();
  if (!hampered()) stats.held = model::PoolStats::Held::kNo;
  for (const Kind& kind : kinds_) {
    model::PoolKind one = describe(kind);
    if (stats.kinds.size() < model::PoolStats::kMaxKinds) {
      stats.kinds.push_back(std::move(one));
    } else {
      addTo(stats.kinds.back(), one);
    }
  }
  return stats;
}

model::PoolKind Pool::describe(const Kind& kind) const {
  const auto& languages = host_->config().languages;
  std::string language(kind.alike.key.empty() ? model::PoolStats::kAny : model::PoolStats::kOther);
  if (kind.prestart) {
    const auto known = std::ranges::find(languages, kind.prestart->argv, &LanguageCommand::argv);
    if (known != languages.end()) language = known->language;
  }
  return {.language = std::move(language),
          .default_limits = kind.default_limits,
          .scratch_bytes = kind.spec.scratch_bytes,
          .ready = static_cast<uint32_t>(kind.ready.size()),
          .wanted = target(kind),
          .making = kind.making,
          .waiting = kind.waiting};
}

}  // namespace cloister::runtime
