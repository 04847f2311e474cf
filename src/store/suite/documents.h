// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: documents of tenants and agents.
#pragma once

#include <string>
#include <vector>

#include "store/document_store.h"
#include "store/rows/documents.h"
#include "store/suite/fixture.h"

namespace cloister::store {

namespace document_rows {

inline model::AuditEvent event(const std::string& action) {
  return {.action = action, .subject = {}, .principal = admin(), .details = {}};
}

inline NewDocument of(const std::string& id, const std::string& agent, const std::string& name,
                      const std::string& json = "{}") {
  return {.id = id,
          .tenant = "acme",
          .agent = agent,
          .kind = "tool",
          .name = name,
          .json = json,
          .at = 10};
}

inline Result<Document> create(Store& store, const NewDocument& document, uint64_t most = 100) {
  return commit(store, createDocument, document, most, event("tool.created"));
}

inline std::vector<std::string> ids(Store& store, const DocumentReader& reader,
                                    DocumentQuery query = {}) {
  query.kind = "tool";
  std::vector<std::string> all;
  for (const Document& each : documents(store).list(reader, query).value())
    all.push_back(each.id);
  return all;
}

}  // namespace document_rows

TEST_P(StoreSuite, DocumentsHaveVersionsAndUniqueNames) {
  using namespace document_rows;
  const auto first = create(*store_, of("one", "bot", "roll", R"({"a":1})"));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->json, R"({"a":1})");
  EXPECT_EQ(first->version, 1U);
  EXPECT_EQ(create(*store_, of("two", "bot", "roll")).error().code, Code::kConflict);
  ASSERT_TRUE(create(*store_, of("two", "other", "roll")));
  const auto put = commit(*store_, putDocument, of("ignored", "bot", "roll", R"({"a":2})"),
                          uint64_t{2}, event("tool.changed"));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->id, "one");
  EXPECT_EQ(put->version, 2U);
  EXPECT_EQ(documents(*store_).get({.tenant = "acme"}, "tool", "one")->json, R"({"a":2})");
  EXPECT_EQ(create(*store_, of("three", "bot", "more"), 2).error().code, Code::kQuota);
  const auto renamed = commit(*store_, changeDocument,
                              DocumentChange{.by = {.tenant = "acme", .agent = "bot"},
                                             .kind = "tool",
                                             .id = "one",
                                             .name = "other-name",
                                             .json = "{}",
                                             .at = 20},
                              event("tool.changed"));
  ASSERT_TRUE(renamed) << renamed.error().message;
  EXPECT_EQ(renamed->name, "other-name");
  EXPECT_EQ(renamed->updated_at, 20);
}

TEST_P(StoreSuite, DocumentsAreSeenByTheirAgentAndTheTenantsByAll) {
  using namespace document_rows;
  ASSERT_TRUE(create(*store_, of("tenant", "", "roll")));
  ASSERT_TRUE(create(*store_, of("bot", "bot", "roll")));
  ASSERT_TRUE(create(*store_, of("other", "other", "roll")));
  const DocumentReader bot{.tenant = "acme", .agent = "bot", .own = "bot"};
  EXPECT_EQ(ids(*store_, bot), (std::vector<std::string>{"tenant", "bot"}));
  EXPECT_EQ(ids(*store_, {.tenant = "acme"}).size(), 3U);
  EXPECT_TRUE(ids(*store_, {.tenant = "globex"}).empty());
  EXPECT_EQ(documents(*store_).named(bot, "tool", "roll")->id, "bot");
  EXPECT_EQ(documents(*store_).named({.tenant = "acme"}, "tool", "roll")->id, "tenant");
  EXPECT_EQ(documents(*store_).get(bot, "tool", "other").error().code, Code::kNotFound);
  const auto remove = [&](const std::string& id) {
    return commit(*store_, removeDocument, DocumentKey{.by = bot, .kind = "tool", .id = id},
                  event("tool.deleted"));
  };
  EXPECT_EQ(remove("tenant").error().code, Code::kNotFound);
  EXPECT_EQ(remove("other").error().code, Code::kNotFound);
  EXPECT_TRUE(remove("bot"));
  EXPECT_EQ(ids(*store_, bot), (std::vector<std::string>{"tenant"}));
}

TEST_P(StoreSuite, DocumentsArePagedInBothOrders) {
  using namespace document_rows;
  for (const char* id : {"a", "b", "c", "d"})
    ASSERT_TRUE(create(*store_, of(id, "", id)));
  const DocumentReader all{.tenant = "acme"};
  EXPECT_EQ(ids(*store_, all, {.limit = 2}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ids(*store_, all, {.limit = 2, .after = "b"}), (std::vector<std::string>{"c", "d"}));
  EXPECT_EQ(ids(*store_, all, {.limit = 2, .newest_first = true}),
            (std::vector<std::string>{"d", "c"}));
  EXPECT_EQ(ids(*store_, all, {.before = "c", .newest_first = true}),
            (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(ids(*store_, all, {.after = "d"}).empty());
  EXPECT_EQ(documents(*store_).list(all, {.kind = "tool", .after = "none"}).error().code,
            Code::kNotFound);
}

}  // namespace cloister::store
