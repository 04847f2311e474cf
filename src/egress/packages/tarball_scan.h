// SPDX-License-Identifier: Apache-2.0
// TarballScan: looks for install scripts in a package of npm while the package streams by: in its
// package.json, in those of the packages bundled with it, and a binding.gyp beside either. A
// registry's document may say less than the package has, and npm runs what the package has.
//
// The bytes are hostile. The archive is read as npm reads it (gzip with several members, ustar, pax
// and GNU long names), and an archive that two readers could understand differently is refused:
// else one of them sees a harmless file where the other finds a script. A decompression bomb ends
// the scan. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::egress {

class TarballScan {
 public:
  // Bounds of the unpacked bytes: all together, and as a multiple of the packed ones beyond the
  // first MiB.
  static constexpr uint64_t kMostUnpacked = uint64_t{2} << 30;
  static constexpr uint64_t kMostRatio = 250;
  static constexpr size_t kMostManifest = size_t{1} << 20;

  TarballScan();
  ~TarballScan();
  TarballScan(const TarballScan&) = delete;
  TarballScan& operator=(const TarballScan&) = delete;

  // The next packed bytes; at most some KiB at once, since they may unpack to a thousand times as
  // many. kInvalid: the archive cannot be read; the message is a sentence's end.
  Result<> feed(std::string_view packed);
  // No more bytes come.
  Result<> end();

  // The code that would run at the install, as a sentence's end; "": nothing was found so far.
  [[nodiscard]] const std::string& scripts() const;
  // The text of the package's last package.json; "": none was found so far.
  [[nodiscard]] const std::string& manifest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::egress
