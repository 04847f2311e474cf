// SPDX-License-Identifier: Apache-2.0
// `cloister image import|pull|remove|verify`, on the store of this machine.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "cli/image_store.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr char kProgram[] = "cloister-image";

constexpr Flag kImportFlags[] = {
    kImageStoreFlags[0],
    kImageStoreFlags[1],
    {.name = "replace", .value = "", .help = "put it in the place of the image with that name"},
};

constexpr Flag kPullFlags[] = {
    kImageStoreFlags[0],
    kImageStoreFlags[1],
    {.name = "name",
     .value = "NAME",
     .help = "the image's name in the store (default: the last part of REF's path)"},
    kImportFlags[2],
};

Result<int> import(const Invocation& invocation) {
  return onImageStore("import", kImportFlags, invocation);
}

Result<int> pull(const Invocation& invocation) {
  return onImageStore("pull", kPullFlags, invocation);
}

Result<int> remove(const Invocation& invocation) {
  return onImageStore("remove", kImageStoreFlags, invocation);
}

Result<int> verify(const Invocation& invocation) {
  return onImageStore("verify", kImageStoreFlags, invocation);
}

}  // namespace

Result<int> onImageStore(const std::string& command, std::span<const Flag> own,
                         const Invocation& invocation) {
  std::vector<std::string> argv = {base::programDir() + "/" + kProgram, command};
  const auto add = [&](const Flag& flag) {
    if (!invocation.flags.has(flag.name)) return;
    argv.push_back("--" + std::string(flag.name));
    if (!flag.value.empty()) argv.push_back(*invocation.flags.text(flag.name));
  };
  std::ranges::for_each(own, add);
  if (invocation.globals.json) argv.emplace_back("--json");  // also a document of YAML
  argv.emplace_back("--");
  for (const std::string& operand : invocation.flags.operands())
    argv.push_back(operand);
  std::vector<char*> pointers;
  for (std::string& argument : argv)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  return failErrno("executing " + argv[0] + ", which is installed beside this program");
}

const Command kImageImport = {
    .name = "image import",
    .operands = "NAME PATH",
    .max_operands = 2,
    .summary = "make an image for sandboxes of an archive or a directory",
    .details =
        "PATH is an OCI archive (skopeo, buildah, podman), what `docker save` writes, a directory\n"
        "in OCI layout, or a root file system: a directory, or a tar of one as `docker export`\n"
        "writes it. Works on this machine's store, not over the API.",
    .flags = kImportFlags,
    .examples =
        "docker save python:3.12-slim | zstd > python.tar.zst\n"
        "cloister image import python-3.12 python.tar.zst\n"
        "skopeo copy docker://debian:12 oci-archive:debian.tar\n"
        "cloister image import --replace debian debian.tar\n"
        "cloister image import tools /srv/chroots/tools",
    .run = import};
const Command kImagePull = {
    .name = "image pull",
    .operands = "REF@sha256:DIGEST",
    .max_operands = 1,
    .summary = "fetch an image from a registry, and verify it before use",
    .details =
        "REF is [HOST[:PORT]/]PATH; without HOST the registry is docker.io, and a :TAG is "
        "ignored.\n"
        "`images` of the configuration has logins, mirrors, authorities, and what is verified. "
        "Give\n"
        "the server's configuration as --config: without it only digests are verified.\n"
        "Works on this machine's store, not over the API. An interrupted pull leaves nothing.",
    .flags = kPullFlags,
    .examples =
        "cloister image pull --config /etc/cloister.yaml --name py "
        "python:3.12-slim@sha256:a2ae…\n"
        "cloister image pull --replace registry.example/team/app@sha256:7b1c…",
    .run = pull};
const Command kImageRemove = {.name = "image remove",
                              .operands = "NAME",
                              .max_operands = 1,
                              .summary = "remove an image that no sandbox uses",
                              .flags = kImageStoreFlags,
                              .examples = "cloister image remove debian",
                              .run = remove};
const Command kImageVerify = {
    .name = "image verify",
    .operands = "NAME",
    .max_operands = 1,
    .summary = "read an image whole, and compare it with its digest; exit status 1 if it differs",
    .flags = kImageStoreFlags,
    .examples = "cloister image verify debian",
    .run = verify};

}  // namespace cloister::cli
