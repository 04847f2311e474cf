// SPDX-License-Identifier: Apache-2.0
// cloister-firecracker FIRECRACKER SOCKETS KERNEL INITRD DISK CPUS MEBIBYTES BOOT: the driver of
// Firecracker in a virtual machine's sandbox. Started by the node's spawner, never by hand.
#include "vmm/driver.h"

int main(int argc, char** argv) {
  if (argc != 9) return 64;
  cloister::vmm::drive({argv[1], argv[2], argv[3], argv[4], argv[5], argv[6], argv[7], argv[8]});
}
