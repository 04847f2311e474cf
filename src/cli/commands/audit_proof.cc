// SPDX-License-Identifier: Apache-2.0
// `cloister audit roots`, `proof`, `verify-proof`: proofs of single entries of the audit log.
#include <unistd.h>

#include "base/file.h"
#include "cli/commands/audit_key.h"
#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "model/inclusion_proof.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr size_t kMostProof = size_t{16} << 20;
constexpr size_t kMostRoots = size_t{256} << 20;

// A line for each record, for a file that grows.
Result<int> roots(const Invocation& invocation) {
  std::string after =
      std::to_string(TRY(invocation.flags.integer("after", 0, INT64_MAX)).value_or(0));
  net::BlockingClient client = TRY(connect(invocation.globals));
  while (!after.empty()) {
    const json::object answer =
        TRY(call(client, "GET", "/v1/audit/roots?limit=1000&after=" + after));
    std::string text;
    for (const json::value& each : arrayOf(answer, "roots"))
      text += base::toJson(each) + "\n";
    if (!writeTo(STDOUT_FILENO, text)) return failErrno("writing the roots");
    after = textOf(answer, "next_after");
  }
  return 0;
}

Result<int> proof(const Invocation& invocation) {
  constexpr Verb kProof = {
      .path = "/v1/audit/entries/{}/proof",
      .missing =
          "which entry: give the number of its line in `audit list` (its seq, for "
          "administrators its position)"};
  const std::string target = TRY(requestTarget(kProof, invocation.flags));
  net::BlockingClient client = TRY(connect(invocation.globals));
  printJson(TRY(call(client, "GET", target)));
  return 0;
}

struct File {
  std::string path;
  std::string text;
};

Result<File> readInput(const std::string& path, size_t most) {
  return File{.path = path, .text = TRY(base::readFile(path, most))};
}

// Content that is no proof is a proof that does not hold. `object`: the proof, as far as it is one.
Result<> check(const File& proof, const base::VerifyKey& key, const std::optional<File>& kept,
               json::object& object) {
  object = TRY(readObject(proof.text, proof.path, kMostProof));
  const model::InclusionProof given = TRY(model::parseInclusionProof(object));
  TRY(model::verifyInclusion(given, key));
  if (!kept) return {};
  const auto roots = TRY(model::parseRoots(kept->text, kept->path));
  TRY(model::verifyRoots(roots, key));
  return model::verifyKept(given, roots);
}

void printVerdict(const Invocation& invocation, const json::object& object,
                  const Result<>& verdict) {
  if (invocation.globals.json) {
    printJson(json::object{{"ok", verdict.has_value()},
                           {"field", verdict ? "" : verdict.error().field},
                           {"problem", verdict ? "" : verdict.error().message}});
  } else if (!verdict) {
    writeTo(STDOUT_FILENO, "BROKEN: " + printable(verdict.error().message) + "\n");
  } else {
    const json::object& entry = objectOf(object, "entry");
    const json::object& record = objectOf(object, "record");
    writeTo(STDOUT_FILENO, "ok: entry " + printable(textOf(entry, "seq")) + " of tenant " +
                               printable(textOf(entry, "tenant")) + " (" +
                               printable(textOf(entry, "action")) + ") is in root " +
                               printable(textOf(record, "number")) + ", signed by " +
                               printable(textOf(record, "key")) + "\n");
  }
}

// Asks nobody: files, and a public key.
Result<int> verifyProof(const Invocation& invocation) {
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which proof: give its file (`cloister audit proof`)");
  }
  const base::VerifyKey key = TRY(namedPublicKey(invocation));
  const File file = TRY(readInput(invocation.flags.operands()[0], kMostProof));
  std::optional<File> kept;
  if (const auto path = invocation.flags.text("roots")) kept = TRY(readInput(*path, kMostRoots));
  json::object object;
  const Result<> verdict = check(file, key, kept, object);
  printVerdict(invocation, object, verdict);
  return verdict ? 0 : 1;
}

constexpr Flag kRootsFlags[] = {
    {.name = "after", .value = "N", .help = "only roots after this number"},
};
constexpr Flag kVerifyProofFlags[] = {
    {.name = "key", .value = "FILE", .help = "the public key of the audit log"},
    {.name = "roots", .value = "FILE", .help = "kept roots, which must have the proof's root"},
};

}  // namespace

const Command kAuditRoots = {
    .name = "audit roots",
    .summary = "print the signed roots of the audit log as JSON lines",
    .details =
        "A root is over all entries of a period, and each carries the digest of the one before.\n"
        "Keep a copy where the server cannot change it.",
    .flags = kRootsFlags,
    .examples =
        "cloister audit roots > roots.jsonl\n"
        "cloister audit roots --after 1440 >> roots.jsonl",
    .run = roots};
const Command kAuditProof = {
    .name = "audit proof",
    .operands = "ENTRY",
    .max_operands = 1,
    .summary = "print the proof that an entry is in the audit log",
    .details =
        "ENTRY is the number of the entry's line in `audit list`: its seq, for administrators\n"
        "its position. The proof tells nothing of other entries, and is there one period\n"
        "(audit.roots.every_seconds) after the entry.",
    .examples = "cloister audit proof 17 > proof.json",
    .run = proof};
const Command kAuditVerifyProof = {
    .name = "audit verify-proof",
    .operands = "FILE",
    .max_operands = 1,
    .summary = "verify the proof of an entry, without a server",
    .details =
        "Exits 1 and names the first defect. With --roots the proof must also fit the roots that\n"
        "were kept: so a server that signs another log shows as well.\n"
        "Other statuses say that nothing was verified: 2 a wrong command line, 4 no such file.",
    .flags = kVerifyProofFlags,
    .examples = "cloister audit verify-proof proof.json --key audit.pub --roots roots.jsonl",
    .run = verifyProof};

}  // namespace cloister::cli
