// SPDX-License-Identifier: Apache-2.0
// The connection of a sandbox to the package gateway: HTTP/1.1 requests, which the gateway of this
// process answers. Nothing is dialled for the connection itself.
#pragma once

#include <memory>

#include "egress/relay/guard.h"
#include "egress/service/hub.h"
#include "egress/service/permit_state.h"
#include "model/packages.h"

namespace cloister::egress {

// Serves requests until one side ends. `hub` has a gateway and outlives the connection.
Task<void> packages(Inside inside, model::Ecosystem ecosystem, std::shared_ptr<Guard> guard,
                    Hub& hub, std::shared_ptr<PermitState> permit, const RelayLimits& limits);

}  // namespace cloister::egress
