// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/vmm.h"

#include "base/file.h"
#include "linux/message.h"
#include "sandbox/microvm/firecracker.h"
#include "sandbox/microvm/libkrun.h"
#include "sandbox/microvm/qemu.h"

namespace cloister::runtime::microvm {

Result<std::shared_ptr<const Fd>> openDriver(const MicrovmConfig& config, const std::string& name) {
  const std::string bytes = TRY(base::readFile(config.programs + "/" + name));
  return std::make_shared<const Fd>(TRY(linux::sealedData(bytes)));
}

const std::vector<const VmmKind*>& vmmKinds() {
  static const std::vector<const VmmKind*> kinds = {&kFirecracker, &kQemu, &kLibkrun};
  return kinds;
}

}  // namespace cloister::runtime::microvm
