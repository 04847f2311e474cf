// SPDX-License-Identifier: Apache-2.0
// cloister-firecracker FIRECRACKER SOCKETS KERNEL INITRD DISK CPUS MEBIBYTES BOOT
//     [to-be-kept|as-kept MEMORY STATE SOCKET]
// is the driver of Firecracker in a virtual machine's sandbox; SOCKET is a descriptor's number.
// Started by the node's spawner, never by hand.
#include <stdlib.h>
#include <string.h>

#include "vmm/driver.h"

int main(int argc, char** argv) {
  if (argc != 9 && argc != 13) return 64;
  cloister::vmm::Orders orders{argv[1], argv[2], argv[3], argv[4],
                               argv[5], argv[6], argv[7], argv[8]};
  if (argc == 13) {
    const bool keeps = strcmp(argv[9], "to-be-kept") == 0;
    orders.begins = keeps ? cloister::vmm::Begins::kToBeKept : cloister::vmm::Begins::kAsKept;
    orders.memory = argv[10];
    orders.state = argv[11];
    orders.socket = atoi(argv[12]);
  }
  cloister::vmm::drive(orders);
}
