// SPDX-License-Identifier: Apache-2.0
// The JSON of OTLP/HTTP: an ExportTraceServiceRequest (opentelemetry-proto 1.x; "JSON Protobuf
// Encoding" of the OTLP specification): ids as hex, 64-bit numbers as text.
#pragma once

#include <span>
#include <string>

#include "trace/tracer.h"

namespace cloister::trace::otlp {

// The source of the spans.
struct Resource {
  std::string version;   // service.version
  std::string instance;  // service.instance.id
};

std::string toRequest(const Resource& resource, std::span<const Span> spans);
// The number of spans that an ExportTraceServiceResponse says were rejected; 0 for any other text.
uint64_t rejectedIn(std::string_view answer);

}  // namespace cloister::trace::otlp
