// SPDX-License-Identifier: Apache-2.0
// A kernel for tests of the runtime microvm with KVM, on machines whose KVM boots no Linux: the
// kernel needs only a 32-bit processor, no paging and no interrupts. The VMM starts the kernel by
// its PVH entry (the "x86/HVM direct boot ABI" of Xen). The kernel finds the virtio port of the
// runner's frames, and speaks for a runner. A start is answered with a line, and with the behaviour
// that the request's last argument names:
//
//   internal-error   an instruction unknown to KVM's emulator, if any: QEMU stops
//   reset            ends the machine by a triple fault
//   hang             sends nothing any more
//
// The devices are those of QEMU's machine type `microvm`: virtio over MMIO, version 1 or 2 (the
// virtio specification, 4.2), and a serial port that is written.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define MMIO_FIRST 0xfeb00000u
#define MMIO_SIZE 0x200u
#define MMIO_COUNT 24
#define QUEUE 8
#define BUFFER 4096

enum {
  MAGIC = 0x000,
  VERSION = 0x004,
  DEVICE = 0x008,
  FEATURES_SELECT = 0x024,
  FEATURES = 0x020,
  PAGE_SIZE = 0x028,
  QUEUE_SELECT = 0x030,
  QUEUE_MAX = 0x034,
  QUEUE_NUM = 0x038,
  QUEUE_ALIGN = 0x03c,
  QUEUE_PFN = 0x040,
  QUEUE_READY = 0x044,
  NOTIFY = 0x050,
  STATUS = 0x070,
  QUEUE_DESC = 0x080,
  QUEUE_DRIVER = 0x090,
  QUEUE_DEVICE = 0x0a0
};
enum { CONTROL_IN = 2, CONTROL_OUT = 3, PORT_IN = 4, PORT_OUT = 5, QUEUES = 6 };
enum { DEVICE_READY = 0, PORT_ADD = 1, PORT_READY = 3, PORT_OPEN = 6 };
enum {
  TEXT = 3,
  START = 4,
  COLLECT = 7,
  HELLO = 65,
  STARTED = 66,
  STDOUT = 68,
  EXITED = 70,
  COLLECTED = 72
};

struct desc {
  u64 address;
  u32 length;
  u16 flags, next;
};
struct avail {
  u16 flags, index, ring[QUEUE];
};
struct used {
  u16 flags, index;
  struct {
    u32 id, length;
  } ring[QUEUE];
};
struct control {
  u32 id;
  u16 event, value;
};

// Version 1's layout: descriptors and the available ring in a page, the used ring in the next.
struct queue {
  struct desc desc[QUEUE];
  struct avail avail;
  u8 gap[4096 - QUEUE * sizeof(struct desc) - sizeof(struct avail)];
  struct used used;
  u8 rest[4096 - sizeof(struct used)];
};

static struct queue queues[QUEUES] __attribute__((aligned(4096)));
static u8 buffers[QUEUES][QUEUE][BUFFER] __attribute__((aligned(4096)));
static u16 seen[QUEUES];
static volatile u8* device;

static void say(const char* text) {
  for (; *text != 0; ++text)
    __asm__ volatile("outb %%al, %%dx" : : "a"(*text), "d"(0x3f8));
}

static void stop(const char* why) {
  say("kernel: ");
  say(why);
  say("\n");
  static const struct {
    u16 limit;
    u32 base;
  } __attribute__((packed)) none = {0, 0};
  __asm__ volatile("lidt %0; ud2" : : "m"(none));
  for (;;)
    __asm__ volatile("hlt");
}

static void copy(void* to, const void* from, u32 size) {
  for (u32 i = 0; i < size; ++i)
    ((u8*)to)[i] = ((const u8*)from)[i];
}

static u32 get(u32 at) {
  return *(volatile u32*)(device + at);
}
static void set(u32 at, u32 value) {
  *(volatile u32*)(device + at) = value;
}
#define BARRIER() __asm__ volatile("" : : : "memory")

static void set_up(u32 number, int in) {
  struct queue* queue = &queues[number];
  set(QUEUE_SELECT, number);
  if (get(QUEUE_MAX) < QUEUE) stop("a queue is too small");
  set(QUEUE_NUM, QUEUE);
  if (get(VERSION) == 1) {
    set(QUEUE_ALIGN, 4096);
    set(QUEUE_PFN, (u32)queue / 4096);
  } else {
    set(QUEUE_DESC, (u32)queue->desc);
    set(QUEUE_DESC + 4, 0);
    set(QUEUE_DRIVER, (u32)&queue->avail);
    set(QUEUE_DRIVER + 4, 0);
    set(QUEUE_DEVICE, (u32)&queue->used);
    set(QUEUE_DEVICE + 4, 0);
    set(QUEUE_READY, 1);
  }
  for (u16 i = 0; i < QUEUE; ++i) {
    queue->desc[i] = (struct desc){(u32)buffers[number][i], BUFFER, in ? 2 : 0, 0};
    queue->avail.ring[i] = i;
  }
  queue->avail.index = in ? QUEUE : 0;
}

static void start_device(void) {
  for (u32 i = 0; i < MMIO_COUNT; ++i) {
    device = (volatile u8*)(MMIO_FIRST + i * MMIO_SIZE);
    if (get(MAGIC) == 0x74726976 && get(DEVICE) == 3) break;
    if (i + 1 == MMIO_COUNT) stop("no port");
  }
  const u32 modern = get(VERSION) == 2;
  set(STATUS, 0);
  set(STATUS, 3);
  set(FEATURES_SELECT, 0);
  set(FEATURES, 1 << 1);  // several ports
  set(FEATURES_SELECT, 1);
  set(FEATURES, modern);  // virtio 1
  if (modern) set(STATUS, 3 | 8);
  if (!modern) set(PAGE_SIZE, 4096);
  for (u32 number = 0; number < QUEUES; ++number)
    set_up(number, number % 2 == 0);
  set(STATUS, modern ? 3 | 8 | 4 : 3 | 4);
  for (u32 number = 0; number < QUEUES; number += 2)
    set(NOTIFY, number);
}

static void send(u32 number, const void* bytes, u32 size) {
  struct queue* queue = &queues[number];
  const u16 slot = queue->avail.index % QUEUE;
  copy(buffers[number][slot], bytes, size);
  queue->desc[slot].length = size;
  BARRIER();
  queue->avail.index++;
  BARRIER();
  set(NOTIFY, number);
  while (*(volatile u16*)&queue->used.index != queue->avail.index) {
  }
}

// Waits for the next filled buffer, valid until give_back(); gives its size.
static u32 receive(u32 number, u8** bytes) {
  struct queue* queue = &queues[number];
  while (*(volatile u16*)&queue->used.index == seen[number]) {
  }
  BARRIER();
  *bytes = buffers[number][queue->used.ring[seen[number] % QUEUE].id];
  return queue->used.ring[seen[number] % QUEUE].length;
}

static void give_back(u32 number) {
  struct queue* queue = &queues[number];
  queue->avail.ring[queue->avail.index % QUEUE] = (u16)queue->used.ring[seen[number] % QUEUE].id;
  seen[number]++;
  BARRIER();
  queue->avail.index++;
  BARRIER();
  set(NOTIFY, number);
}

static void control(u32 id, u16 event, u16 value) {
  const struct control message = {id, event, value};
  send(CONTROL_OUT, &message, sizeof message);
}

static void open_port(void) {
  control(0, DEVICE_READY, 1);
  for (struct control said = {0, 0xffff, 0}; said.event != PORT_ADD;) {
    u8* bytes;
    receive(CONTROL_IN, &bytes);
    copy(&said, bytes, sizeof said);
    give_back(CONTROL_IN);
  }
  control(1, PORT_READY, 1);
  control(1, PORT_OPEN, 1);
}

// wire/frame.h
struct header {
  u32 length;
  u8 generation, reserved;
  u16 type;
  u32 channel;
} __attribute__((packed));

static void say_frame(u16 type, u32 channel, const void* payload, u32 size) {
  static u8 frame[256];
  const struct header header = {size, 1, 0, type, channel};
  copy(frame, &header, sizeof header);
  copy(frame + sizeof header, payload, size);
  send(PORT_OUT, frame, sizeof header + size);
}

// Reads from the port's stream, across buffers.
static void read_bytes(void* to, u32 size) {
  static u8* bytes;
  static u32 left, at;
  for (u32 i = 0; i < size; ++i) {
    while (left == 0) {
      if (bytes != 0) give_back(PORT_IN);
      left = receive(PORT_IN, &bytes);
      at = 0;
    }
    ((u8*)to)[i] = bytes[at++];
    left--;
  }
}

static int is(const char* text, const char* word) {
  while (*text != 0 && *text == *word)
    text++, word++;
  return *text == *word;
}

static void run(u32 channel, const char* argument) {
  static const char line[] = "a kernel for tests\n";
  static const u8 exited[37] = {0};
  say_frame(STARTED, channel, 0, 0);
  say_frame(STDOUT, channel, line, sizeof line - 1);
  if (is(argument, "internal-error")) __asm__ volatile("int $0x30");
  if (is(argument, "reset")) stop("reset");
  if (is(argument, "hang")) {
    for (;;)
      __asm__ volatile("hlt");
  }
  say_frame(EXITED, channel, exited, 1 + 4 + 8 + 8 + 8 + 4);
}

static void serve(void) {
  static char argument[128];
  static const u32 one = 1, none = 0;
  say_frame(HELLO, 0, &one, sizeof one);
  for (;;) {
    struct header header;
    u8 byte;
    read_bytes(&header, sizeof header);
    u8 text[128];
    for (u32 i = 0; i < header.length; ++i) {
      read_bytes(&byte, 1);
      if (i < sizeof text - 1) text[i] = byte;
    }
    if (header.type == TEXT && text[0] == 0 && header.length < sizeof text) {
      copy(argument, text + 2, header.length - 2);
      argument[header.length - 2] = 0;
    }
    if (header.type == START) run(header.channel, argument);
    if (header.type == COLLECT) say_frame(COLLECTED, header.channel, &none, sizeof none);
  }
}

__attribute__((used)) static void begin(void) {
  say("kernel: begins\n");
  start_device();
  open_port();
  serve();
}

__asm__(
    ".section .note.Xen, \"a\", @note\n"
    ".align 4\n"
    ".long 4, 4, 18\n"  // XEN_ELFNOTE_PHYS32_ENTRY
    ".asciz \"Xen\"\n"
    ".long entry\n"
    ".text\n"
    ".globl entry\n"
    "entry:\n"
    "  mov $stack_end, %esp\n"
    "  call begin\n"
    ".bss\n"
    ".align 16\n"
    ".skip 16384\n"
    "stack_end:\n");
