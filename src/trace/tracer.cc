// SPDX-License-Identifier: Apache-2.0
#include "trace/tracer.h"

#include <sys/random.h>

#include <algorithm>

#include "base/clock.h"

namespace cloister::trace {

model::TraceContext beneath(const model::TraceContext& parent) {
  model::TraceContext context = parent;
  do {
    if (::getrandom(context.span.data(), context.span.size(), 0) !=
        static_cast<ssize_t>(context.span.size())) {
      return {};  // nothing is recorded
    }
  } while (context.span == model::SpanId{});
  return context;
}

Step::Step(Tracer* tracer, const model::TraceContext& parent, std::string name, Kind kind)
    : tracer_(parent ? tracer : nullptr) {
  if (tracer_ == nullptr) return;
  span_.at = beneath(parent);
  span_.parent = parent.span;
  span_.name = std::move(name);
  span_.kind = kind;
  span_.start_us = base::wallMicros();
}

Step::Step(Tracer* tracer, const model::TraceContext& parent, std::string name, int64_t start_us)
    : Step(tracer, parent, std::move(name)) {
  span_.start_us = start_us;
}

Step::Step(Step&& other) noexcept
    : tracer_(std::exchange(other.tracer_, nullptr)), span_(std::move(other.span_)) {}

Step& Step::operator=(Step&& other) noexcept {
  if (this == &other) return *this;
  end();
  tracer_ = std::exchange(other.tracer_, nullptr);
  span_ = std::move(other.span_);
  return *this;
}

void Step::set(std::string_view name, Value value) {
  if (tracer_ != nullptr) span_.attributes.emplace_back(name, std::move(value));
}

void Step::fail(std::string_view kind) {
  if (tracer_ != nullptr) span_.error = kind;
}

void Step::end() {
  Tracer* const tracer = std::exchange(tracer_, nullptr);
  if (tracer == nullptr) return;
  span_.end_us = std::max(base::wallMicros(), span_.start_us);
  tracer->ended(std::move(span_));
}

}  // namespace cloister::trace
