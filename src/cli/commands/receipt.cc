// SPDX-License-Identifier: Apache-2.0
// `cloister audit receipt`, `verify-receipt`, `public-key`: proof of runs, for verification without
// the server.
#include "model/receipt.h"

#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "cli/commands/audit_key.h"
#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "model/image_state.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr size_t kMostReceipt = size_t{16} << 20;

Result<int> receipt(const Invocation& invocation) {
  constexpr Verb kReceipt = {
      .path = "/v1/executions/{}/receipt",
      .missing = "which execution: give its id, as exec_… (see `execution list`)"};
  const std::string target = TRY(requestTarget(kReceipt, invocation.flags));
  net::BlockingClient client = TRY(connect(invocation.globals));
  printJson(TRY(call(client, "GET", target)));
  return 0;
}

constexpr Verb kPublicKey = {.path = "/v1/audit/public-key", .said = "{public_key}\n"};

// ", image sha256:…" with the audit entry of a later binding, ", image not verified", or "" without
// an image.
std::string imageOf(const json::object& receipt) {
  const json::object& sandbox = objectOf(receipt, "sandbox");
  const std::string digest = textOf(sandbox, "image_digest");
  if (!digest.empty()) {
    const std::string entry = textOf(objectOf(objectOf(receipt, "audit"), "image_verified"), "seq");
    return ", image " + digest + (entry.empty() ? "" : " (recorded by audit entry " + entry + ")");
  }
  const bool unverified =
      std::ranges::any_of(arrayOf(sandbox, "weakened"), [](const json::value& each) {
        return each.is_string() && each.get_string() == model::kWeakerUnverified;
      });
  return unverified ? ", image not verified" : "";
}

void printVerdict(const Invocation& invocation, const json::object& receipt,
                  const Result<>& verdict) {
  if (invocation.globals.json) {
    printJson(json::object{{"ok", verdict.has_value()},
                           {"field", verdict ? "" : verdict.error().field},
                           {"problem", verdict ? "" : verdict.error().message}});
  } else if (!verdict) {
    writeTo(STDOUT_FILENO, "BROKEN: " + printable(verdict.error().message) + "\n");
  } else {
    const json::object& ended = objectOf(objectOf(receipt, "audit"), "ended");
    writeTo(STDOUT_FILENO,
            "ok: " + printable(textOf(receipt, "execution_id")) + " " +
                printable(textOf(objectOf(receipt, "result"), "status")) + ", signed by " +
                printable(textOf(objectOf(receipt, "signature"), "key")) + ", audit entry " +
                printable(textOf(ended, "seq")) + printable(imageOf(receipt)) + "\n");
  }
}

// Asks nobody: a file, and a public key.
Result<int> verifyReceipt(const Invocation& invocation) {
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which receipt: give its file");
  }
  const std::string& path = invocation.flags.operands()[0];
  const base::VerifyKey key = TRY(namedPublicKey(invocation));
  const std::string text = TRY(base::readFile(path, kMostReceipt));
  // Any other content is a receipt that does not hold; a file that is not there is none.
  const auto object = readObject(text, path, kMostReceipt);
  const Result<> verdict =
      object ? model::verifyReceipt(*object, key)
             : fail(Code::kInvalid, "this is not a receipt: " + object.error().message);
  printVerdict(invocation, object ? *object : json::object(), verdict);
  return verdict ? 0 : 1;
}

constexpr Flag kVerifyFlags[] = {
    {.name = "key", .value = "FILE", .help = "the public key of the audit log"},
};

}  // namespace

const Command kAuditReceipt = {
    .name = "audit receipt",
    .operands = "EXECUTION",
    .max_operands = 1,
    .summary = "print the signed receipt of an execution",
    .details =
        "What was asked, what allowed it and who approved, what came of it, and where the\n"
        "audit log has it. The receipt stays the same, with one exception: it gets the image's\n"
        "digest when the node has verified the image after the end of the execution.",
    .examples = "cloister audit receipt exec_01… > receipt.json",
    .run = receipt};
const Command kAuditVerifyReceipt = {
    .name = "audit verify-receipt",
    .operands = "FILE",
    .max_operands = 1,
    .summary = "prove a receipt, without a server",
    .details =
        "Exits 1 and names each field that was changed, removed or added. Else it prints the\n"
        "digest of the image that the execution used, or that this image is not verified.\n"
        "Other statuses say that nothing was verified: 2 a wrong command line, 4 no such file.",
    .flags = kVerifyFlags,
    .examples = "cloister audit verify-receipt receipt.json --key audit.pub",
    .run = verifyReceipt};
const Command kAuditPublicKey = {
    .name = "audit public-key",
    .summary = "print the key that receipts and checkpoints are verified with",
    .details = "Keep it where the server cannot change it: a receipt proves as much as the key.",
    .examples = "cloister audit public-key > audit.pub",
    .run = carryOut<kPublicKey>};

}  // namespace cloister::cli
