// SPDX-License-Identifier: Apache-2.0
// `cloister image list` and `image show`: the images available to sandboxes.
#include <unistd.h>

#include <algorithm>

#include "cli/commands/resources.h"
#include "cli/image_store.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

constexpr base::Flag kListFlags[] = {
    {.name = "local", .value = "", .help = "list the store of this machine; needs no server"},
    kImageStoreFlags[0],
    kImageStoreFlags[1],
};

Result<json::array> allImages(net::BlockingClient& client) {
  json::object answer = TRY(call(client, "GET", "/v1/images"));
  json::value* images = answer.if_contains("images");
  if (images != nullptr && images->is_array()) return std::move(images->get_array());
  return fail(Code::kInternal, "listing images: the server's answer has none");
}

std::string sizeOf(const json::object& image, std::string_view) {
  const json::value* size = image.if_contains("size_bytes");
  if (size == nullptr || !size->is_number()) return "";
  return bytesOf(image, "size_bytes");
}

std::string languagesOf(const json::object& image, std::string_view) {
  std::string text;
  for (const json::value& each : arrayOf(image, "languages")) {
    if (each.is_string()) text += (text.empty() ? "" : ",") + std::string(each.get_string());
  }
  return text;
}

std::string digestOf(const json::object& image, std::string_view name) {
  constexpr size_t kShown = 19;  // "sha256:" and twelve digits
  return textOf(image, name).substr(0, kShown);
}

constexpr Column kImages[] = {
    {"NAME", "name"},     {"DIGEST", "digest", digestOf}, {"SIZE", "", sizeOf},
    {"SOURCE", "source"}, {"LANGUAGES", "", languagesOf}, {"CREATED", "created", ageOf},
};

Result<int> list(const Invocation& invocation) {
  const bool local = std::ranges::any_of(
      kListFlags, [&](const base::Flag& flag) { return invocation.flags.has(flag.name); });
  if (local) return onImageStore("list", kImageStoreFlags, invocation);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer{{"images", TRY(allImages(client))}};
  return showAnswer({.items = "images", .columns = kImages}, invocation, answer);
}

Result<int> showOne(const Invocation& invocation) {
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which image: give its name (see `cloister image list`)");
  }
  const std::string& name = invocation.flags.operands()[0];
  net::BlockingClient client = TRY(connect(invocation.globals));
  for (const json::value& item : TRY(allImages(client))) {
    const json::object& image = item.get_object();
    if (textOf(image, "name") != name) continue;
    return showAnswer({.text = outline}, invocation, image);
  }
  return fail(Code::kNotFound,
              "image \"" + name + "\": the node has none of that name (see `cloister image list`)");
}

}  // namespace

const Command kImageList = {
    .name = "image list",
    .summary = "list the images that sandboxes can have",
    .details =
        "Asks the server. With --local, --images or --config it reads the store of this\n"
        "machine instead, and names damaged images too.",
    .flags = kListFlags,
    .examples =
        "cloister image list\n"
        "cloister image list --local",
    .run = list};
const Command kImageShow = {.name = "image show",
                            .operands = "NAME",
                            .max_operands = 1,
                            .summary = "show one",
                            .examples = "cloister image show data",
                            .run = showOne};

}  // namespace cloister::cli
