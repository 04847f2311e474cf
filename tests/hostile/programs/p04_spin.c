// SPDX-License-Identifier: Apache-2.0
// P04: eight threads that spin.
#include <unistd.h>

#include <pthread.h>

static void* spin(void* unused) {
  for (volatile unsigned long n = 0;; ++n) {
  }
  return unused;
}

int main(void) {
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    pthread_create(&thread, 0, spin, 0);
  }
  for (;;)
    pause();
}
