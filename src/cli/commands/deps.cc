// SPDX-License-Identifier: Apache-2.0
// `cloister deps …`: dependency layers.
#include "cli/commands/resources.h"
#include "cli/render/outline.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kMostDays = 36'500;

Result<json::object> pruneBody(const base::Flags& flags) {
  json::object body;
  if (const auto days = TRY(flags.integer("unused-days", 1, kMostDays)))
    body["unused_days"] = *days;
  return body;
}

std::string shortDigest(const json::object& object, std::string_view name) {
  constexpr size_t kDigits = 12;
  const std::string digest = textOf(object, name);
  return digest.substr(digest.find(':') + 1, kDigits);
}

constexpr Column kLayers[] = {
    {"DIGEST", "digest", shortDigest},
    {"ECOSYSTEM", "ecosystem"},
    {"SIZE", "size_bytes", bytesOf},
    {"FILES", "files"},
    {"USED", "used_at"},
    {"DEPS", "deps", joinedOf},
};
constexpr Verb kList = {.path = "/v1/deps",
                        .items = "layers",
                        .columns = kLayers,
                        .empty = "There are no dependency layers.\n"};
constexpr Verb kShow = {.path = "/v1/deps/{}",
                        .missing = "which layer: give its digest (see `cloister deps list`)",
                        .text = outline};
constexpr Verb kPrune = {.method = "POST",
                         .path = "/v1/deps:prune",
                         .body = pruneBody,
                         .items = "layers",
                         .columns = kLayers,
                         .empty = "There was nothing to forget.\n"};
constexpr Flag kPruneFlags[] = {
    {.name = "unused-days", .value = "N", .help = "those unused for N days (default: all)"},
};

}  // namespace

const Command kDepsList = {.name = "deps list",
                           .summary = "list dependency layers, most recently used first",
                           .details =
                               "A layer has the packages that runs and sessions asked for with "
                               "--dep. It is made once, and later requests share it.",
                           .run = carryOut<kList>};
const Command kDepsShow = {.name = "deps show",
                           .operands = "DIGEST",
                           .max_operands = 1,
                           .summary = "show a dependency layer, with its packages",
                           .run = carryOut<kShow>};
const Command kDepsPrune = {.name = "deps prune",
                            .summary = "forget dependency layers: the next request makes them anew",
                            .flags = kPruneFlags,
                            .examples = "cloister deps prune --unused-days 30",
                            .run = carryOut<kPrune>};

}  // namespace cloister::cli
