// SPDX-License-Identifier: Apache-2.0
// An entry of the audit log as a line for people, from the API's answer. Pure; safe for a terminal.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// "2026-01-31T10:42:07Z  security-lead approved ESC-2026-003 (file_write /srv/data) for agent
// junior-agent": time (UTC), actor, action and subject. Without a newline. With `names_tenant` the
// line ends with the entry's tenant.
std::string auditLine(const base::json::object& entry, bool names_tenant = false);

// The lines about a verified log: "ok: …" with the notes, or "BROKEN: …". `published`: held against
// published checkpoints, which names the entry in its problem.
std::string auditReport(const base::json::object& report, bool published);

}  // namespace cloister::cli
