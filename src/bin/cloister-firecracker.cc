// SPDX-License-Identifier: Apache-2.0
// cloister-firecracker FIRECRACKER SOCKETS KERNEL INITRD DISK CPUS MEBIBYTES BOOT
//     [linked INTERFACE ETHERNET] [to-be-kept|as-kept MEMORY STATE SOCKET]
// is the driver of Firecracker in a virtual machine's sandbox; SOCKET is a descriptor's number.
// Started by the node's spawner, never by hand.
#include <stdlib.h>
#include <string.h>

#include "vmm/driver.h"

int main(int argc, char** argv) {
  if (argc < 9) return 64;
  cloister::vmm::Orders orders{argv[1], argv[2], argv[3], argv[4],
                               argv[5], argv[6], argv[7], argv[8]};
  char** more = argv + 9;
  if (*more != nullptr && strcmp(*more, "linked") == 0 && argc >= 12) {
    orders.interface = more[1];
    orders.ethernet = more[2];
    more += 3;
  }
  const long left = argv + argc - more;
  if (left != 0 && left != 4) return 64;
  if (left == 4) {
    const bool keeps = strcmp(more[0], "to-be-kept") == 0;
    orders.begins = keeps ? cloister::vmm::Begins::kToBeKept : cloister::vmm::Begins::kAsKept;
    orders.memory = more[1];
    orders.state = more[2];
    orders.socket = atoi(more[3]);
  }
  cloister::vmm::drive(orders);
}
