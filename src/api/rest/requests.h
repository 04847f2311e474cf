// SPDX-License-Identifier: Apache-2.0
// Shared by resources: reading a request, and answering with an execution.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/rest/rest.h"
#include "async/awaiting.h"
#include "base/crypto.h"

namespace cloister::api {

inline constexpr int64_t kMaxWaitSeconds = 300;
inline constexpr int64_t kMaxList = 500;
inline constexpr size_t kLargeBody = size_t{256} << 10;

// The header's value, "" without the header; kInvalid for a bad value.
Result<std::string> idempotencyKey(const Request& request);

// kInvalid, for `field`, if the key is malformed.
Result<> checkIdempotencyKey(std::string_view key, const std::string& field);

// Parses a body that must be an object.
Result<base::json::object> parseObject(std::string_view body, const model::RequestBounds& bounds);

// The result of `parse` for the body. A large body takes long enough to delay others on the io
// thread; `parse` then runs on another thread, and must not share mutable state.
template <class T>
Task<Result<T>> readBody(RestParts& parts, Request& request,
                         std::function<Result<T>(const base::json::object&)> parse) {
  const auto whole = [&parts, parse = std::move(parse)](std::string_view text) -> Result<T> {
    return parse(TRY(parseObject(text, parts.bounds)));
  };
  auto body = std::make_shared<const std::string>(std::exchange(request.body, {}));
  auto read = body->size() < kLargeBody
                  ? whole(*body)
                  : co_await async::inBackground<Result<T>>(
                        parts.background, [body, whole] { return whole(*body); });
  body.reset();
  request.body_read();
  co_return read;
}

inline constexpr int64_t kMicrosPerSecond = 1'000'000;

// The end of a link made with `credential` for so many seconds (Unix seconds): at most the
// credential's own end, unless the credential is a key.
int64_t linkEnd(const auth::Credential& credential, int64_t seconds);
// The request came with a good link: its answer ends with the link, and with the credential that
// made the link.
void answerForLink(Request& request, const std::string& made_with, int64_t expires_at);

// Cursors of a list, for a reader. Lists are read newest first: the next page is before the last
// item's `seq`. The ledger counts `seq` over all tenants, and a cursor therefore hides the number.
struct ListCursor {
  const orchestrator::Cursors& cursors;
  std::string tenant;
  std::string list;  // "executions": no other list takes its cursors

  // kInvalid, for `query.cursor`, if the cursor did not come from before().
  [[nodiscard]] Result<uint64_t> read(const std::string& cursor) const;
  [[nodiscard]] Result<base::json::value> before(uint64_t seq) const;
};
ListCursor cursorOf(const RestParts& parts, const model::Principal& reader, std::string list);

// Reads the parameters of every list: `agent`, `limit` and `cursor`.
template <class Query>
Result<> readPage(const Request& request, const ListCursor& cursors, Query& query) {
  query.agent = queryText(request, "agent").value_or("");
  const auto limit = TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor")) {
    query.before_seq = TRY(cursors.read(*cursor));
  }
  return {};
}

// A page of a list, for display.
struct Page {
  base::json::array items;
  base::json::value next = nullptr;  // its cursor, where there may be more
};

// At most `query.limit` items from `read`, and about kPageBytes: records may be megabytes each, and
// only a few are held at a time. `behind` changes `query` to the items behind an item, and gives
// the cursor for them.
template <class Query, class Read, class Show, class Behind>
Result<Page> readPagesBehind(Query query, Read read, Show show, Behind behind) {
  constexpr size_t kPageBytes = size_t{8} << 20;
  constexpr uint32_t kAtOnce = 16;
  Page page;
  size_t bytes = 0;
  for (uint32_t left = query.limit; left > 0 && bytes < kPageBytes;) {
    query.limit = std::min(left, kAtOnce);
    const auto some = TRY(read(query));
    for (const auto& each : some) {
      page.items.push_back(show(each));
      bytes += base::toJson(page.items.back()).size();
    }
    left -= query.limit;
    const bool last = some.size() < query.limit;
    page.next = nullptr;
    if (last) break;
    page.next = TRY(behind(some.back(), query));
  }
  return page;
}

// For a list whose rows are found by number.
template <class Query, class Read, class Show>
Result<Page> readPages(Query query, Read read, Show show, const ListCursor& cursors) {
  return readPagesBehind(std::move(query), read, show, [&](const auto& last, Query& next) {
    next.before_seq = last.seq;
    return cursors.before(last.seq);
  });
}

// For a list whose cursor is the id or key of the last item, known to the reader.
template <class Query, class Read, class Show>
Result<Page> readPages(Query query, Read read, Show show) {
  const auto behind = [](const auto& last, Query& next) -> Result<base::json::value> {
    if constexpr (requires { next.before_id; }) {
      next.before_id = last.id;
      return base::json::string(base::toBase64(next.before_id));
    } else {
      next.after_key = last.key;
      return base::json::string(base::toBase64(next.after_key));
    }
  };
  return readPagesBehind(std::move(query), read, show, behind);
}

// 204
Response noContent();
Response executionResponse(int status, const model::Execution& execution);
// With `wait`, the execution after its end or after so many seconds: 200, or 202 while still
// running; otherwise 201 at once.
Task<Result<Response>> answerRun(RestParts& parts, Request& request, model::Execution execution,
                                 std::optional<int64_t> wait);

}  // namespace cloister::api
