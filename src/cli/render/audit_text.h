// SPDX-License-Identifier: Apache-2.0
// An entry of the audit log as a line for people, from the API's answer. Pure; safe for a terminal.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// "1027  2026-01-31T10:42:07Z  security-lead approved ESC-2026-003 (file_write /srv/data) for agent
// junior-agent": number, time (UTC), actor, action and subject. The number is the entry's place in
// the whole log if the reader may see the place, else its number within the tenant: the one that
// `audit proof`, `audit redact`, --after and --before take. Without a newline. With `names_tenant`
// the line ends with the entry's tenant.
std::string auditLine(const base::json::object& entry, bool names_tenant = false);

// For an empty answer to a search for actions by the glob `action`, "" for any: with the action
// that was meant, if the glob matches none.
std::string noEntriesText(const std::string& action);

// The lines about a verified log: "ok: …" with the notes, or "BROKEN: …". `published`: held against
// published checkpoints, which names the entry in its problem.
std::string auditReport(const base::json::object& report, bool published);

}  // namespace cloister::cli
