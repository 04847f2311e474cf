// SPDX-License-Identifier: Apache-2.0
// Names what differs between the approved request and a request that the approval does not cover,
// for the message of `approval_mismatch`. The digest alone decides; the text explains. Reads the
// ledger.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/escalation.h"
#include "orchestrator/guard/approval.h"
#include "policy/approval.h"
#include "store/store.h"

namespace cloister::orchestrator {

// The first member that differs, as `artifacts differs: approved ["**"], now none`, in safe text
// without values of variables, input, code or files; "" if both are bound alike.
std::string firstDifference(const base::json::object& approved, const base::json::object& now);

// `refusal` with the reason for its mismatch, if another program or image is the cause of
// `refusal`. `use`: the refused use; `bound`, `image`: the parts of its digest; `request_json`: the
// request that was refused, "" for the stored request itself.
Error withDifference(store::Store& store, const model::Escalation& escalation, Error refusal,
                     const policy::Use& use, const Bound& bound, const std::string& image,
                     const std::string& request_json);

}  // namespace cloister::orchestrator
