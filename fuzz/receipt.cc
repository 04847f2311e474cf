// SPDX-License-Identifier: Apache-2.0
// An auditor's inputs: receipts, files of checkpoints, and the log itself.
#include "model/receipt.h"

#include <algorithm>

#include "base/json.h"
#include "cli/chain_walk.h"
#include "model/checkpoint.h"

#include "require.h"

using namespace cloister;

namespace {

const base::SigningKey& signer() {
  static const base::SigningKey key =
      *base::SigningKey::fromBase64("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
  return key;
}

bool hasFraction(const base::json::value& value) {
  if (value.is_array()) return std::ranges::any_of(value.get_array(), hasFraction);
  if (value.is_object()) {
    return std::ranges::any_of(value.get_object(),
                               [](const auto& member) { return hasFraction(member.value()); });
  }
  return value.is_double();
}

// Without the key no input is a valid receipt. A sealed receipt is whole, and an added member
// breaks the seal.
void receipt(std::string_view text) {
  const auto value = base::parseJson(text);
  if (!value || !value->is_object()) return;
  const auto verdict = model::verifyReceipt(value->get_object(), signer().verifyKey());
  REQUIRE(!verdict);
  REQUIRE(!verdict.error().message.empty());
  base::json::object facts = value->get_object();
  facts.erase("fields");
  facts.erase("signature");
  if (hasFraction(facts)) return;
  base::json::object sealed = model::sealReceipt(facts, signer());
  REQUIRE(model::verifyReceipt(sealed, signer().verifyKey()));
  sealed["added by the test"] = 1;
  REQUIRE(!model::verifyReceipt(sealed, signer().verifyKey()));
}

// The cuts between the pieces make no difference.
void log(std::string_view text) {
  model::Checkpoint first;
  first.seq = 1;
  first.hash = std::string(64, '0');
  first.key_id = signer().verifyKey().id();
  first.signature = base::toBase64(signer().sign(model::checkpointText(first)));
  auto whole = cli::ChainWalk::against({first}, signer().verifyKey());
  auto pieces = cli::ChainWalk::against({first}, signer().verifyKey());
  REQUIRE(whole && pieces);
  const size_t half = text.size() / 2;
  const bool at_once = whole->feed(text) && whole->finish();
  const bool in_two =
      pieces->feed(text.substr(0, half)) && pieces->feed(text.substr(half)) && pieces->finish();
  REQUIRE(at_once == in_two);
  REQUIRE(!at_once);  // no entry has that hash
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      receipt(text);
      break;
    case 1:
      log(text);
      break;
    default: {
      const auto lines = model::parseCheckpoints(text, "file");
      REQUIRE(lines || !lines.error().message.empty());
    }
  }
  return 0;
}
