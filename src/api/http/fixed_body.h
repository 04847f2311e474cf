// SPDX-License-Identifier: Apache-2.0
// Bodies that the service holds once for all clients.
#pragma once

#include <string_view>

#include "api/http/http.h"

namespace cloister::api {

// Sends `bytes`, which outlive the service's connections, without a copy for each client: readers
// without a credential may be many, and slow.
void sendFixed(Response& response, std::string_view bytes);

}  // namespace cloister::api
