// SPDX-License-Identifier: Apache-2.0
// The exporter sends ended spans to a collector by OTLP/HTTP as JSON, in batches. A collector that
// is away or slow holds up nothing: spans wait in a bounded queue, and those beyond the bound are
// dropped and counted. On the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "model/config.h"
#include "trace/tracer.h"

namespace cloister::trace::otlp {

// Told of each batch: how many spans the collector took, and how many were lost.
using Counted = std::function<void(uint64_t exported, uint64_t dropped)>;

// Reads the authorities and the headers now; kInvalid names the key of `traces`. Null without
// `traces.otlp`. `version`: of the service.
class Exporter;
Result<std::shared_ptr<Exporter>> openExporter(const model::TraceSettings& settings,
                                               std::string_view version);

class Exporter final : public Tracer {
 public:
  ~Exporter() override;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Call once, before the first span. `counted` is called on `executor`.
  void start(const boost::asio::any_io_executor& executor, Counted counted);
  // Sends the rest of the spans, with one attempt, and waits at most for `patience`.
  boost::asio::awaitable<void> drain(Millis patience);

  model::TraceContext admit(std::string_view traceparent) override;
  void ended(Span span) override;

 private:
  friend Result<std::shared_ptr<Exporter>> openExporter(const model::TraceSettings&,
                                                        std::string_view);
  struct Impl;
  explicit Exporter(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::trace::otlp
