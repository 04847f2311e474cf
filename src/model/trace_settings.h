// SPDX-License-Identifier: Apache-2.0
// The configuration's `traces`: the export of spans (docs/TRACES.md).
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct TraceSettings {
  std::string otlp;               // of the collector, OTLP/HTTP. "": nothing is traced
  std::string ca_file;            // "" = the system's authorities
  std::string headers_file;       // "Name: value" a line, for the collector; "": none
  bool programs = false;          // get TRACEPARENT
  uint32_t sample_percent = 100;  // of requests without `traceparent`
  uint32_t queue = 8192;          // spans that wait for the collector
};

}  // namespace cloister::model
