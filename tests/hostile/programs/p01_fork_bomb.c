// SPDX-License-Identifier: Apache-2.0
// P01: forks for ever in every process.
#include <unistd.h>

int main(void) {
  for (;;)
    fork();
}
