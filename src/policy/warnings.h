// SPDX-License-Identifier: Apache-2.0
// Warnings for the author of a policy document: rules that can never match, limits that are too
// small for any program, roles that cannot approve, and names that this service does not know. No
// warning makes a document invalid. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "policy/document.h"
#include "policy/explain.h"

namespace cloister::policy {

// A sentence for each warning, in the order of the rules. Names of images are judged only if
// `parts.runtimes` shows a connected node.
std::vector<std::string> warningsOf(const Policy& policy, const ReaderParts& parts);

}  // namespace cloister::policy
