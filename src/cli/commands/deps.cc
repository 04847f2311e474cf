// SPDX-License-Identifier: Apache-2.0
// `cloister deps …`: dependency layers.
#include "cli/commands/resources.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"

namespace cloister::cli {
namespace {

using base::Flag;

Result<json::object> pruneBody(const base::Flags& flags) {
  json::object body;
  constexpr int64_t kDay = 86'400;
  if (const auto seconds = TRY(secondsFlag(flags, "unused"))) {
    if (*seconds % kDay != 0)
      return fail(Code::kInvalid, "--unused: must be whole days, as 30d", "--unused");
    body["unused_days"] = *seconds / kDay;
  }
  return body;
}

std::string shortDigest(const json::object& object, std::string_view name) {
  constexpr size_t kDigits = 12;
  const std::string digest = textOf(object, name);
  return digest.substr(digest.find(':') + 1, kDigits);
}

constexpr Column kLayers[] = {
    {"DIGEST", "digest", shortDigest}, {"ECOSYSTEM", "ecosystem"},
    {"SIZE", "size_bytes", bytesOf},   {"FILES", "files"},
    {"USED", "used_at", ageOf},        {"DEPS", "deps", joinedOf},
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
    {.name = "unused", .value = "TIME", .help = "those unused for so long, as 30d (default: all)"},
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
                            .examples = "cloister deps prune --unused 30d",
                            .run = carryOut<kPrune>};

}  // namespace cloister::cli
