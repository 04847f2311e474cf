// SPDX-License-Identifier: Apache-2.0
// A broken guest: runs in the place of cloister-guest as pid 1 of a virtual machine, or of
// cloister-runner. The guest greets the node like the original, and answers the start of a program
// with the behaviour below that the program's last argument names. For tests without a start, the
// sandbox's limit of open files names the behaviour: kGreetings and up. Frames are in
// broken_frames.h.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broken_frames.h"
#include "broken_nester.h"

static void waitForever(void) {
  for (;;)
    pause();
}

// --- answers to a start

static void plain(void) {
  started();
  output("fine\n");
  ended(0, 0);
  u32(kCollected, 0);
}

static void exitFirst(void) {
  ended(0, 0);
}
static void outputFirst(void) {
  output("early");
}
static void startedTwice(void) {
  started();
  started();
}
static void endsTwice(void) {
  plain();
  ended(1, 0);
  ended(2, 0);
}
static void greetsAgain(void) {
  started();
  frame(kHello, 0, "\1\0\0\0", 4);
}
static void unknownType(void) {
  started();
  say(999, "x", 1);
}
static void tooLong(void) {
  started();
  header(kMost + 1, kGeneration, kStdout, the_channel);
  put(the_noise, kMost);
}
static void farTooLong(void) {
  started();
  header(UINT32_MAX, kGeneration, kStdout, the_channel);
  put(the_noise, kMost);
}
static void otherGeneration(void) {
  started();
  header(1, 2, kStdout, the_channel);
  put("x", 1);
}
static void noise(void) {
  started();
  put(the_noise, sizeof the_noise);
}
static void shortExit(void) {
  started();
  say(kExited, "\0\0\0\0\0", 5);
}
static void wildExit(void) {
  started();
  ended(256, 0);
}
static void breaksOff(void) {
  started();
  header(100, kGeneration, kStdout, the_channel);
  put("half", 4);
  leave();
}
static void leaves(void) {
  started();
  leave();
}
static void wrongChannel(void) {
  started();
  frame(kStdout, the_channel + 1000, "x", 1);
}
static void noChannel(void) {
  frame(kStdout, 0, "x", 1);
}
static void takesMore(void) {
  started();
  u32(kStdinTaken, 1);
}
static void wildUsage(void) {
  started();
  ended(0, UINT64_MAX);
}
static void says(void) {
  started();
  output("so far\n");
  waitForever();
}

static void drips(void) {
  started();
  header(kMost, kGeneration, kStdout, the_channel);
  for (;;) {
    put("x", 1);
    usleep(20000);
  }
}

static void floods(void) {
  for (started();;)
    say(kStdout, the_noise, sizeof the_noise);
}
static void floodsEmpty(void) {
  for (started();;)
    say(kStdout, "", 0);
}
static void floodsScratch(void) {
  for (started();;)
    scratch(1, 2, 3, 4);
}
static void floodsTaken(void) {
  for (started();;)
    u32(kStdinTaken, 0);
}
static void floodsCounts(void) {
  started();
  for (uint64_t n = 1;; ++n)
    counts(n, 0, 0);
}
// More than the window of a session's program, which the node never refills.
static void overflows(void) {
  started();
  for (int i = 0; i < 1000; ++i)
    say(kStdout, the_noise, sizeof the_noise);
  ended(0, 0);
}
// Frames about a program that has ended, without ever reading the node's answers.
static void haunts(void) {
  for (plain();;)
    say(kStdout, "x", 1);
}

static void countsDown(void) {
  started();
  counts(10, 0, 0);
  counts(9, 0, 0);
}
static void countsWild(void) {
  started();
  counts(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  ended(0, 0);
}
static void countsMemory(void) {
  started();
  counts(UINT64_MAX, 0, 0);
  ended(0, 0);
}
static void countsShort(void) {
  started();
  frame(kCounts, 0, "x", 1);
}
static void scratchWild(void) {
  started();
  scratch(UINT64_MAX, 1, UINT64_MAX, 1);
  ended(0, 0);
}

static void startFails(void) {
  failed(kStartFailed, the_noise, 60000);
}
static void filesFail(void) {
  failed(kFileFailed, the_noise, 60000);
}
static void startFailsWide(void) {
  uint32_t lie[2] = {EIO, UINT32_MAX};
  say(kStartFailed, lie, sizeof lie);
}

// Files, sent after an exit.
static void filesEarly(void) {
  started();
  file("early");
}
static void filesUnasked(void) {
  started();
  ended(0, 0);
  file("unasked");
}
static void filesClimb(void) {
  started();
  ended(0, 0);
  for (const char* const* path =
           (const char* const[]){"good", "../../climbs", "/etc/absolute", "a/../../b", ".", "a//b",
                                 "line\nbreak\x1b[31m", "\xff\xfe", ".cloister/stdout", NULL};
       *path != NULL; ++path)
    file(*path);
  fileBegin("with\0nul", 8, 0);
  u32(kCollected, 0);
}
static void filesNameless(void) {
  started();
  ended(0, 0);
  fileBegin("", 0, 0);
  u32(kCollected, 0);
}
static void filesLong(void) {
  started();
  ended(0, 0);
  fileBegin(the_noise, 60000, 0);
  u32(kCollected, 0);
}
static void filesMany(void) {
  started();
  ended(0, 0);
  for (int i = 0; i < 100000; ++i)
    file("again");
  u32(kCollected, 0);
}
static void filesBig(void) {
  started();
  ended(0, 0);
  fileBegin("big", 3, UINT64_MAX);
  u32(kCollected, 0);
}
static void filesShort(void) {
  started();
  ended(0, 0);
  fileBegin("short", 5, 100);
  say(kFileContent, "x", 1);
  u32(kCollected, 0);
}
static void filesOver(void) {
  started();
  ended(0, 0);
  fileBegin("over", 4, 1);
  say(kFileContent, "xx", 2);
  u32(kCollected, 0);
}
static void filesNever(void) {
  started();
  ended(0, 0);
  waitForever();
}

// The program has ended, and its input is never read, which by then blocks the sender.
static void deaf(void) {
  started();
  sleep(1);
  ended(0, 0);
  waitForever();
}

static void asksWithin(void) {
  started();
  int stands = isServed();
  askWildly(the_noise, sizeof the_noise);
  stands = stands && isServed();
  const int unbounded = askForMany(WITHIN(NO_MEMORY));
  stands = stands && isServed();
  const int most = askForMany(WITHIN(FINE));
  stands = stands && isServed();
  char said[64];
  snprintf(said, sizeof said, "%d and %d stood, served: %d\n", unbounded, most, stands);
  const int bounded = stands && unbounded <= kWithin && most > 0 && most <= kWithin;
  output(bounded ? "bounded\n" : said);
  ended(0, 0);
  u32(kCollected, 0);
}

static const struct {
  const char* name;
  void (*act)(void);
} kAnswers[] = {
    {"plain", plain},
    {"silent", waitForever},
    {"exit_first", exitFirst},
    {"output_first", outputFirst},
    {"started_twice", startedTwice},
    {"ends_twice", endsTwice},
    {"greets_again", greetsAgain},
    {"unknown_type", unknownType},
    {"too_long", tooLong},
    {"far_too_long", farTooLong},
    {"other_generation", otherGeneration},
    {"noise", noise},
    {"short_exit", shortExit},
    {"wild_exit", wildExit},
    {"breaks_off", breaksOff},
    {"leaves", leaves},
    {"wrong_channel", wrongChannel},
    {"no_channel", noChannel},
    {"takes_more", takesMore},
    {"wild_usage", wildUsage},
    {"says", says},
    {"drips", drips},
    {"floods", floods},
    {"floods_empty", floodsEmpty},
    {"floods_scratch", floodsScratch},
    {"floods_taken", floodsTaken},
    {"floods_counts", floodsCounts},
    {"overflows", overflows},
    {"haunts", haunts},
    {"counts_down", countsDown},
    {"counts_wild", countsWild},
    {"counts_memory", countsMemory},
    {"counts_short", countsShort},
    {"scratch_wild", scratchWild},
    {"start_fails", startFails},
    {"files_fail", filesFail},
    {"start_fails_wide", startFailsWide},
    {"files_early", filesEarly},
    {"files_unasked", filesUnasked},
    {"files_climb", filesClimb},
    {"files_nameless", filesNameless},
    {"files_long", filesLong},
    {"files_many", filesMany},
    {"files_big", filesBig},
    {"files_short", filesShort},
    {"files_over", filesOver},
    {"files_never", filesNever},
    {"deaf", deaf},
    {"asks_within", asksWithin},
};

// --- greetings

static void hello(void) {
  frame(kHello, 0, "\1\0\0\0", 4);
}
static void greetNoise(void) {
  put(the_noise, sizeof the_noise);
}
static void greetEnd(void) {
  the_channel = 1;
  ended(0, 0);
}
static void greetAsTwo(void) {
  frame(kHello, 0, "\2\0\0\0", 4);
}
static void greetFailed(void) {
  failed(kStartFailed, the_noise, 60000);
  waitForever();
}
static void greetTwice(void) {
  hello();
  hello();
}
static void greetAndStop(void) {
  hello();
  waitForever();
}  // the files of a program are not read
static void greetAndLeave(void) {
  hello();
  leave();
}
static void greetWithCounts(void) {
  for (uint64_t n = 1;; ++n)
    counts(n, 0, 0);
}
static void greetSlowly(void) {
  for (int i = 0; i < kHeader - 1; ++i) {
    put(i == 0 ? "\4" : i == 4 ? "\1" : "\0", 1);
    sleep(1);
  }
  waitForever();
}

static void (*const kGreets[])(void) = {greetNoise,  greetEnd,       greetAsTwo,    greetFailed,
                                        greetTwice,  greetAndStop,   greetAndLeave, waitForever,
                                        greetSlowly, greetWithCounts};

static void greet(uint64_t open_files) {
  const uint64_t which = open_files - kGreetings;
  if (open_files >= kGreetings && which < sizeof kGreets / sizeof kGreets[0])
    return kGreets[which]();
  hello();
}

// --- the conversation

static int makes_within;

static void (*answerTo(const char* argument, size_t size))(void) {
  for (size_t at = size; at > 0; --at) {
    if (argument[at - 1] != '/') continue;
    argument += at;
    size -= at;
    break;
  }
  for (size_t i = 0; i < sizeof kAnswers / sizeof kAnswers[0]; ++i) {
    if (strlen(kAnswers[i].name) == size && memcmp(kAnswers[i].name, argument, size) == 0)
      return kAnswers[i].act;
  }
  return NULL;
}

static void converse(void) {
  static char payload[kMost];
  void (*answer)(void) = NULL;
  for (;;) {
    struct Header head;
    take(&head, sizeof head);
    if (head.length > sizeof payload) leave();
    take(payload, head.length);
    if (head.type == kText && head.length > 2 && payload[0] == 0) {
      void (*const named)(void) = answerTo(payload + 2, head.length - 2);
      if (named != NULL) answer = named;
    } else if (head.type == kStart) {
      the_channel = head.channel;
      if (answer == NULL && makes_within) continue;  // the listener for tool calls
      (answer != NULL ? answer : noise)();
      answer = NULL;
    }
  }
}

// --- a machine's beginning

static uint64_t openFilesOf(const char* limits) {
  for (const char* at = limits; at != NULL && *at != '\0'; at = strchr(at, ',')) {
    if (*at == ',') ++at;
    char* end = NULL;
    const long resource = strtol(at, &end, 10);
    if (resource == RLIMIT_NOFILE && *end == ':') return strtoull(end + 1, NULL, 10);
  }
  return 0;
}

static int openPort(void) {
  for (;;) {
    DIR* listing = opendir("/dev");
    for (const struct dirent* entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
      char path[300];
      snprintf(path, sizeof path, "/dev/%s", entry->d_name);
      const int port =
          strncmp(entry->d_name, "vport", 5) == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
      if (port >= 0) return port;
    }
    if (listing != NULL) closedir(listing);
    usleep(2000);
  }
}

static void startMachine(void) {
  struct dirent** names;
  if (chdir("/") != 0 || (mkdir("dev", 0755) != 0 && errno != EEXIST)) leave();
  if (mount("devtmpfs", "dev", "devtmpfs", 0, NULL) != 0) leave();
  const int count = scandir("modules", &names, NULL, alphasort);
  for (int i = 0; i < count; ++i) {
    char path[300];
    snprintf(path, sizeof path, "modules/%s", names[i]->d_name);
    if (names[i]->d_name[0] == '.') continue;
    const int module = open(path, O_RDONLY | O_CLOEXEC);
    if (module < 0 || syscall(SYS_finit_module, module, "", 0) != 0) leave();
  }
  the_port = openPort();
}

int main(int argc, char** argv) {
  struct rlimit files = {0, 0};
  makeNoise();
  if (argc > 1 && strcmp(argv[1], "--at-stdin") == 0) the_port = 0;
  makes_within = argc > 1 && strcmp(argv[1], "--nester") == 0;
  is_machine = getpid() == 1 && getenv("cloister_limits") != NULL;
  if (is_machine) startMachine();
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) leave();
  greet(is_machine ? openFilesOf(getenv("cloister_limits")) : files.rlim_cur);
  converse();
}
