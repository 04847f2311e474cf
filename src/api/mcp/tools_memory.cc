// SPDX-License-Identifier: Apache-2.0
// set_memory, get_memory, list_memory, delete_memory: a session's values under names. A value is
// text of JSON in both directions: a number in the message would lose digits.
#include "api/mcp/tool.h"
#include "api/rest/requests.h"

namespace cloister::api::mcp {
namespace {

// The names of the arguments in an error, where REST has parts of the path.
std::unexpected<Error> asArgument(Error error) {
  if (error.field == "url.key") {
    error.field = "key";
    constexpr std::string_view kPart = "url.";
    if (error.message.starts_with(kPart)) error.message.erase(0, kPart.size());
  }
  return std::unexpected(std::move(error));
}

struct Place {
  std::string session;
  std::string key;
};

Result<Place> placeOf(base::ObjectReader& reader) {
  Place place;
  place.session = TRY(reader.text("session_id")).value_or("");
  place.key = TRY(reader.text("key")).value_or("");
  return place;
}

json::object factsOf(const Place& place) {
  return {{"status", "ok"}, {"session_id", place.session}, {"key", place.key}};
}

}  // namespace

Task<Outcome> setMemoryTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const Place place = CO_TRY(placeOf(reader));
  const auto value = CO_TRY(reader.text("value"));
  CO_TRY(reader.finish());
  if (!value) {
    co_return fail(Code::kInvalid, "value: give it as JSON; a text is written in double quotes",
                   "value");
  }
  const auto kept =
      co_await server.rest().memory().set(call.principal, place.session, place.key, *value);
  if (!kept) co_return asArgument(kept.error());
  Answer answer;
  answer.structured = factsOf(place);
  answer.structured["size"] = kept->size;
  answer.text = place.key + ": kept, " + std::to_string(kept->size) + " bytes";
  co_return answer;
}

Task<Outcome> getMemoryTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const Place place = CO_TRY(placeOf(reader));
  CO_TRY(reader.finish());
  const auto value = server.rest().memory().get(call.principal, place.session, place.key);
  if (!value) co_return asArgument(value.error());
  Answer answer;
  answer.structured = factsOf(place);
  answer.structured["size"] = value->item.size;
  answer.structured["value"] = value->json;
  answer.text = value->json;
  co_return answer;
}

Task<Outcome> listMemoryTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  store::MemoryQuery query{.session = CO_TRY(reader.text("session_id")).value_or(""),
                           .limit = static_cast<uint32_t>(kMaxList)};
  query.after_key = CO_TRY(reader.text("after_key")).value_or("");
  CO_TRY(reader.finish());
  const auto items = CO_TRY(server.rest().memory().list(call.principal, query));
  Answer answer;
  json::array keys;
  for (const model::MemoryItem& item : items) {
    keys.push_back({{"key", item.key}, {"size", item.size}});
    answer.text += item.key + " (" + std::to_string(item.size) + " bytes)\n";
  }
  answer.structured = {{"status", "ok"}, {"session_id", query.session}, {"keys", std::move(keys)}};
  if (items.empty()) answer.text = "no keys; set_memory keeps a value\n";
  if (items.size() == query.limit) {
    answer.structured["next_after_key"] = items.back().key;
    answer.text += "there may be more: call again with after_key " + items.back().key + "\n";
  }
  co_return answer;
}

Task<Outcome> deleteMemoryTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const Place place = CO_TRY(placeOf(reader));
  CO_TRY(reader.finish());
  const auto removed =
      co_await server.rest().memory().remove(call.principal, place.session, place.key);
  if (!removed) co_return asArgument(removed.error());
  Answer answer;
  answer.structured = factsOf(place);
  answer.text = place.key + ": deleted";
  co_return answer;
}

}  // namespace cloister::api::mcp
