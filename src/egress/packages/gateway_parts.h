// SPDX-License-Identifier: Apache-2.0
// The answers of the gateway that need no upstream, and its reading of requests. Internal to
// PackageGateway. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/packages/gateway.h"

namespace cloister::egress {

// A request on its way. The gateway's coroutines refer to it.
struct PackageGateway::Asked {
  Request request;
  std::shared_ptr<const model::PlanPackages> packages;
  GatewayUse use;
  std::vector<std::string> segments;  // of the path, decoded
  int64_t now = 0;                    // wall-clock microseconds
  Result<std::shared_ptr<const model::Advisories>> advisories = nullptr;

  [[nodiscard]] PackageJudge judge(std::string_view name) const {
    return {*packages, request.ecosystem, name, now, advisories};
  }
};

// The decoded segments of a path. kInvalid: a malformed escape, a control character, a dot segment,
// too many segments, or a "/" within a segment other than that of a scope ("@scope%2fname").
Result<std::vector<std::string>> segmentsOf(std::string_view path);

// An answer with a sentence, as the tools of the ecosystem show it.
GatewayAnswer sentence(model::Ecosystem ecosystem, int status, const std::string& text);
GatewayAnswer refusedBy(model::Ecosystem ecosystem, const PackageRefusal& refusal);
GatewayAnswer failedBy(model::Ecosystem ecosystem, const Error& error);

}  // namespace cloister::egress
