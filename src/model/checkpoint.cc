// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <limits>

namespace cloister::model {
namespace {

Result<Checkpoint> parse(std::string_view line) {
  const base::json::value value = TRY(base::parseJson(line));
  if (!value.is_object()) return fail(Code::kInvalid, "not an object");
  base::ObjectReader reader(value.get_object(), "");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Checkpoint out;
  out.seq = static_cast<uint64_t>(TRY(reader.integer("seq", 1, kMax)).value_or(0));
  out.hash = TRY(reader.text("hash")).value_or("");
  out.at = TRY(reader.integer("at", 0, kMax)).value_or(0);
  out.key_id = TRY(reader.text("key")).value_or("");
  out.signature = TRY(reader.text("signature")).value_or("");
  TRY(reader.finish());
  return out;
}

}  // namespace

std::string checkpointText(const Checkpoint& checkpoint) {
  return "cloister-audit-checkpoint v1\n" + std::to_string(checkpoint.seq) + "\n" +
         checkpoint.hash + "\n" + std::to_string(checkpoint.at) + "\n";
}

base::json::object toJsonObject(const Checkpoint& checkpoint) {
  return {{"seq", checkpoint.seq},
          {"hash", checkpoint.hash},
          {"at", checkpoint.at},
          {"key", checkpoint.key_id},
          {"signature", checkpoint.signature}};
}

Result<std::vector<Checkpoint>> parseCheckpoints(std::string_view text, const std::string& name) {
  std::vector<Checkpoint> out;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string_view::npos;
       start = end + 1) {
    auto line = parse(text.substr(start, end - start));
    if (!line) {
      return fail(Code::kInternal, name + ": line " + std::to_string(out.size() + 1) +
                                       " is not a checkpoint: " + line.error().message);
    }
    out.push_back(*std::move(line));
  }
  return out;
}

Result<> verifySignature(const Checkpoint& checkpoint, const base::VerifyKey& key,
                         const std::string& what) {
  if (checkpoint.key_id != key.id()) {
    return fail(Code::kInvalid, what + " is signed by another key, " + checkpoint.key_id);
  }
  const auto signature = base::fromBase64(checkpoint.signature);
  if (!signature || !key.verify(checkpointText(checkpoint), *signature)) {
    return fail(Code::kInvalid, what + " has a signature that is not valid");
  }
  return {};
}

}  // namespace cloister::model
