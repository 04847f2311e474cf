// SPDX-License-Identifier: Apache-2.0
// The configuration of the compatible interfaces (`compat`); docs/CONFIGURATION.md explains each
// setting.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cloister::model {

struct CompatSettings {
  // Name of a template or an image in a request of another service's client → an image of ours; ""
  // is policy's choice, the embedded image.
  std::map<std::string, std::string> images;
  struct E2b {
    std::string listen;  // host:port or unix:/path, with E2B's interface at its root; "": none
  } e2b;
  struct Letta {
    uint32_t tools_per_tenant = 1000;
    uint32_t variables_per_tenant = 1000;  // of sandbox configurations
    uint32_t return_bytes = 256 << 10;     // of the result of a tool
    uint32_t output_bytes = 64 << 10;      // of each output stream of a tool
  } letta;
};

}  // namespace cloister::model
