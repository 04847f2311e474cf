// SPDX-License-Identifier: Apache-2.0
// P02: a daemon that tries to survive the run: double fork, setsid, closed descriptors, a
// heartbeat.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void beat(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7001)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int udp = socket(AF_INET, SOCK_DGRAM, 0);
  for (;;) {
    const int log = open("/workspace/heartbeat", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (log >= 0) {
      (void)!write(log, "beat\n", 5);
      close(log);
    }
    sendto(udp, "beat", 4, 0, (struct sockaddr*)&to, sizeof to);
    usleep(100000);
  }
}

int main(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      for (int fd = 0; fd < 64; ++fd)
        close(fd);
      beat();
    }
    _exit(0);
  }
  usleep(300000);
  puts("main is done");
  return 0;
}
