// SPDX-License-Identifier: Apache-2.0
#include "store/rows/layers.h"

#include "base/json.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kPut[] =
    "INSERT INTO layers(key, body) VALUES (?,?) ON CONFLICT(key) DO UPDATE SET body=excluded.body";
constexpr char kUse[] = "UPDATE layers SET body=? WHERE key=?";
constexpr char kDrop[] = "DELETE FROM layers WHERE key=?";
constexpr char kAll[] = "SELECT body FROM layers";
constexpr char kPutBill[] = "INSERT OR IGNORE INTO bills(sha256, body) VALUES (?,?)";
constexpr char kBill[] = "SELECT body FROM bills WHERE sha256=?";

}  // namespace

Result<void> putLayer(Transaction tx, const model::DependencyLayer& layer,
                      const model::AuditEvent& event) {
  Statement put = TRY(tx.db.use(kPut));
  TRY(put.bind(layer.key, base::toJson(model::toJsonObject(layer))).run());
  Statement bill = TRY(tx.db.use(kPutBill));
  TRY(bill.bind(model::billDigest(layer), base::toJson(model::billOfMaterials(layer))).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> noteLayerUse(Transaction tx, const model::DependencyLayer& layer) {
  Statement use = TRY(tx.db.use(kUse));
  return use.bind(base::toJson(model::toJsonObject(layer)), layer.key).run();
}

Result<void> dropLayer(Transaction tx, const model::DependencyLayer& layer,
                       const model::AuditEvent& event) {
  Statement drop = TRY(tx.db.use(kDrop));
  TRY(drop.bind(layer.key).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::vector<model::DependencyLayer>> readLayers(Database& db) {
  Statement all = TRY(db.use(kAll));
  std::vector<model::DependencyLayer> layers;
  while (TRY(all.step()))
    layers.push_back(TRY(model::parseDependencyLayer(all.text(0))));
  return layers;
}

Result<std::optional<std::string>> readBill(Database& db, const std::string& sha256) {
  Statement row = TRY(db.use(kBill));
  if (!TRY(row.bind(sha256).step())) return std::nullopt;
  return std::string(row.text(0));
}

}  // namespace cloister::store
