// SPDX-License-Identifier: Apache-2.0
// Spans are the timed steps of a traced request, as in OpenTelemetry. A Tracer takes ended spans; a
// Step makes one. On the services' executor (one thread).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/trace_context.h"

namespace cloister::trace {

// The numbers of OTLP.
enum class Kind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };

using Value = std::variant<std::string, int64_t, bool>;

struct Span {
  model::TraceContext at;  // its own
  model::SpanId parent{};  // zeros: none
  std::string name;
  Kind kind = Kind::kInternal;
  int64_t start_us = 0;  // since the Unix epoch
  int64_t end_us = 0;
  std::vector<std::pair<std::string_view, Value>> attributes;  // names are constants
  std::string error;                                           // "": no error
};

class Tracer {
 public:
  virtual ~Tracer() = default;
  // The parent of a request's first span, by its header `traceparent` ("": it has none). The trace
  // of the header is continued, recorded or not as the header says; otherwise a trace begins,
  // recorded or not as configured.
  virtual model::TraceContext admit(std::string_view traceparent) = 0;
  // Takes a span of a sampled trace. Never blocks; without room the span is dropped, and counted.
  virtual void ended(Span span) = 0;
};

// The context of a new span within the trace of `parent`.
model::TraceContext beneath(const model::TraceContext& parent);

// One step: begins now, and ends at end() or with the object. Records nothing without a tracer, or
// in a trace that is not sampled.
class Step {
 public:
  Step() = default;
  Step(Tracer* tracer, const model::TraceContext& parent, std::string name,
       Kind kind = Kind::kInternal);
  // Began earlier, at `start_us` of the wall clock.
  Step(Tracer* tracer, const model::TraceContext& parent, std::string name, int64_t start_us);
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  Step(Step&& other) noexcept;
  Step& operator=(Step&& other) noexcept;
  ~Step() { end(); }

  // The parent of steps within; unset if nothing is recorded.
  [[nodiscard]] const model::TraceContext& context() const { return span_.at; }
  [[nodiscard]] bool recorded() const { return tracer_ != nullptr; }
  // A step within this step, before the end of this step.
  [[nodiscard]] Step within(std::string name) const { return {tracer_, span_.at, std::move(name)}; }
  void set(std::string_view name, Value value);
  // `kind` is a fixed word. A message could hold text of a request.
  void fail(std::string_view kind);
  // Ends the step, failed if the result has an error. Gives the result on.
  template <class T>
  Result<T> endedBy(Result<T> result) {
    if (!result) fail(base::codeName(result.error().code));
    end();
    return result;
  }
  void end();

 private:
  Tracer* tracer_ = nullptr;
  Span span_;
};

}  // namespace cloister::trace
