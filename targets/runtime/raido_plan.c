/* Plans: what the CPU does around launches, as words, on any device; raido_device.h says what each word means.
 *
 * A plan may come from a file, so every operand is checked against the plan's sizes before it is used.
 */
#define _GNU_SOURCE
#include "raido_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_ARGUMENTS 1024
#define ARGUMENT_BYTES (8 * MOST_ARGUMENTS)
#define MOST_TURNS 16 /* of a repetition that is recorded */
#define PART 8192     /* times of a repetition in one step */

typedef struct Reader {
  RdPlan* plan;
  uint64_t at;
  int damaged;
} Reader;

static int64_t next_word(Reader* reader) {
  if (reader->at < reader->plan->word_count) return reader->plan->words[reader->at++];
  reader->damaged = 1;
  return 0;
}

/* An operand below a limit; 0 in a damaged plan. */
static uint32_t operand(Reader* reader, uint64_t limit) {
  int64_t word = next_word(reader);
  if (word >= 0 && (uint64_t)word < limit) return (uint32_t)word;
  reader->damaged = 1;
  return 0;
}

static int32_t damaged(const Reader* reader) {
  return rd_fail(RD_FAILED, "a plan is damaged before word %llu", (unsigned long long)reader->at);
}

static int32_t unsized(int64_t size, const char* of) {
  return rd_fail(RD_FAILED, "%s of %lld", of, (long long)size);
}

static int64_t nanoseconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- numbers */

static int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;
  return a / b - ((a % b != 0) & ((a < 0) != (b < 0)));
}

static int32_t compute(Reader* reader) {
  RdPlan* plan = reader->plan;
  uint32_t operation = operand(reader, RD_UNEQUAL + 1), to = operand(reader, plan->register_count);
  uint32_t left = operand(reader, plan->register_count), right = operand(reader, plan->register_count);
  if (reader->damaged) return damaged(reader);
  int64_t a = plan->registers[left], b = plan->registers[right], result = 0;
  int beyond = 0;
  switch (operation) {
    case RD_ADD: beyond = __builtin_add_overflow(a, b, &result); break;
    case RD_SUBTRACT: beyond = __builtin_sub_overflow(a, b, &result); break;
    case RD_MULTIPLY: beyond = __builtin_mul_overflow(a, b, &result); break;
    case RD_DIVIDE:
      beyond = b == -1 && a == INT64_MIN;
      result = floor_divide(a, b);
      break;
    case RD_REMAINDER: result = b == 0 || b == -1 ? 0 : a - floor_divide(a, b) * b; break;
    case RD_MINIMUM: result = a < b ? a : b; break;
    case RD_MAXIMUM: result = a > b ? a : b; break;
    case RD_LESS: result = a < b; break;
    case RD_LESS_EQUAL: result = a <= b; break;
    case RD_EQUAL: result = a == b; break;
    case RD_UNEQUAL: result = a != b; break;
  }
  if (beyond) return rd_fail(RD_FAILED, "a size is beyond 64 bits");
  plan->registers[to] = result;
  return 0;
}

/* --- arrays */

/* The array in a slot; NULL in a damaged plan, which one that uses an empty slot is. */
static RdBuffer* array_in(Reader* reader) {
  uint32_t slot = operand(reader, reader->plan->slot_count);
  if (reader->damaged || !reader->plan->slots[slot]) {
    reader->damaged = 1;
    return NULL;
  }
  return reader->plan->slots[slot];
}

static int64_t number_in(Reader* reader) {
  uint32_t which = operand(reader, reader->plan->register_count);
  return reader->damaged ? 0 : reader->plan->registers[which];
}

static int32_t allocate(Reader* reader) {
  uint32_t slot = operand(reader, reader->plan->slot_count);
  int64_t bytes = number_in(reader);
  if (reader->damaged || reader->plan->slots[slot]) return damaged(reader);
  if (bytes < 0) return unsized(bytes, "an array has a size");
  return rd_buffer_new(reader->plan->device, (uint64_t)bytes, &reader->plan->slots[slot]);
}

static int32_t free_slot(Reader* reader) {
  uint32_t slot = operand(reader, reader->plan->slot_count);
  if (reader->damaged) return damaged(reader);
  RdBuffer* buffer = reader->plan->slots[slot];
  reader->plan->slots[slot] = NULL;
  if (buffer) rd_buffer_free(buffer); /* its memory may have gone to a result */
  return 0;
}

static int32_t upload(Reader* reader) {
  RdBuffer* buffer = array_in(reader);
  uint32_t array = operand(reader, reader->plan->array_count);
  int64_t bytes = number_in(reader);
  if (reader->damaged) return damaged(reader);
  if (!bytes) return 0; /* the caller's array may be NULL */
  return bytes < 0 ? unsized(bytes, "a copy") : rd_buffer_write(buffer, 0, reader->plan->arrays[array], (uint64_t)bytes);
}

static int32_t download(Reader* reader, uint64_t wait) {
  uint32_t array = operand(reader, reader->plan->array_count);
  RdBuffer* buffer = array_in(reader);
  int64_t bytes = number_in(reader);
  if (reader->damaged) return damaged(reader);
  if (bytes < 0) return unsized(bytes, "a copy");
  if (!bytes) return 0;
  int32_t code = rd_device_finish(reader->plan->device, wait);
  return code ? code : rd_buffer_read(buffer, 0, reader->plan->arrays[array], (uint64_t)bytes);
}

static int32_t copy(Reader* reader) {
  RdBuffer* to = array_in(reader);
  int64_t at = number_in(reader);
  RdBuffer* from = array_in(reader);
  int64_t offset = number_in(reader), bytes = number_in(reader);
  if (reader->damaged) return damaged(reader);
  int64_t least = at < offset ? at : offset;
  if (least < 0 || bytes < 0) return unsized(least < bytes ? least : bytes, "a copy");
  return rd_buffer_copy(to, (uint64_t)at, from, (uint64_t)offset, (uint64_t)bytes);
}

static int32_t read_back(Reader* reader, uint64_t wait) {
  uint32_t to = operand(reader, reader->plan->register_count);
  RdBuffer* buffer = array_in(reader);
  int64_t offset = number_in(reader);
  uint32_t width = operand(reader, 9), is_signed = operand(reader, 2);
  if (reader->damaged || (width != 1 && width != 2 && width != 4 && width != 8)) return damaged(reader);
  if (offset < 0) return unsized(offset, "an element at an offset");
  int32_t code = rd_device_finish(reader->plan->device, wait);
  uint64_t bits = 0;
  if (!code) code = rd_buffer_read(buffer, (uint64_t)offset, &bits, width); /* little-endian, as are the devices */
  if (code) return code;
  uint32_t unused = 64 - 8 * width;
  reader->plan->registers[to] = is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
  return 0;
}

static int32_t swap(Reader* reader) {
  RdPlan* plan = reader->plan;
  uint32_t first = operand(reader, plan->slot_count), second = operand(reader, plan->slot_count);
  if (reader->damaged) return damaged(reader);
  RdBuffer* kept = plan->slots[first];
  plan->slots[first] = plan->slots[second];
  plan->slots[second] = kept;
  return 0;
}

/* --- launches */

static int32_t launch(Reader* reader) {
  RdPlan* plan = reader->plan;
  uint32_t kernel = operand(reader, plan->kernel_count), grid[3];
  int beyond = 0;
  int64_t asked = 0;
  for (int axis = 0; axis < 3; axis++) {
    int64_t blocks = number_in(reader);
    grid[axis] = (uint32_t)blocks;
    if (blocks < 0 || blocks > UINT32_MAX) beyond = 1, asked = blocks;
  }
  char block[ARGUMENT_BYTES] = {0};
  uint32_t scalars = operand(reader, MOST_ARGUMENTS + 1);
  for (uint32_t i = 0; i < scalars && !reader->damaged; i++) {
    uint32_t place = operand(reader, ARGUMENT_BYTES - 7), width = operand(reader, 9);
    int64_t value = number_in(reader);
    memcpy(block + place, &value, width);
  }
  RdBuffer* buffers[MOST_ARGUMENTS];
  uint32_t arrays = operand(reader, MOST_ARGUMENTS + 1);
  for (uint32_t i = 0; i < arrays && !reader->damaged; i++) buffers[i] = array_in(reader);
  if (reader->damaged || !rd_kernel_takes(plan->kernels[kernel], arrays, ARGUMENT_BYTES)) return damaged(reader);
  if (beyond) return unsized(asked, "a launch has a number of blocks");
  return rd_kernel_launch(plan->kernels[kernel], grid, block, buffers);
}

/* --- control */

static int32_t jump(Reader* reader, int only_if_zero) {
  int64_t value = only_if_zero ? number_in(reader) : 0;
  uint64_t target = operand(reader, reader->plan->word_count + 1);
  if (reader->damaged) return damaged(reader);
  if (!value) reader->at = target;
  return 0;
}

static int32_t set(Reader* reader) {
  uint32_t to = operand(reader, reader->plan->register_count);
  int64_t value = next_word(reader);
  if (reader->damaged) return damaged(reader);
  reader->plan->registers[to] = value;
  return 0;
}

static int32_t repeat(Reader* reader);

static int32_t step(Reader* reader, uint64_t wait) {
  switch (next_word(reader)) {
    case RD_SET: return set(reader);
    case RD_COMPUTE: return compute(reader);
    case RD_ALLOCATE: return allocate(reader);
    case RD_FREE: return free_slot(reader);
    case RD_UPLOAD: return upload(reader);
    case RD_DOWNLOAD: return download(reader, wait);
    case RD_COPY: return copy(reader);
    case RD_LAUNCH: return launch(reader);
    case RD_READ_BACK: return read_back(reader, wait);
    case RD_SWAP: return swap(reader);
    case RD_JUMP: return jump(reader, 0);
    case RD_JUMP_UNLESS: return jump(reader, 1);
    case RD_REPEAT: return repeat(reader);
    default: return damaged(reader);
  }
}

/* --- repetition */

/* The words that are repeated, from `begin` to `end` of a plan. */
typedef struct Repetition {
  RdPlan* plan;
  uint64_t begin, end;
  uint64_t turns; /* times after which all slots have again what they had */
} Repetition;

/* Runs the words; `order` (or NULL) follows their swaps: which slot had what each slot has now. */
static int32_t run_once(const Repetition* words, uint32_t* order) {
  RdPlan* plan = words->plan;
  Reader reader = {plan, words->begin, 0};
  while (reader.at != words->end) {
    if (reader.at < words->begin || reader.at > words->end) return damaged(&reader);
    const int64_t* word = plan->words + reader.at;
    if (*word == RD_UPLOAD || *word == RD_DOWNLOAD || *word == RD_READ_BACK || *word == RD_REPEAT) return damaged(&reader);
    RD_PASS(step(&reader, 0));
    if (order && *word == RD_SWAP) {
      uint32_t kept = order[word[1]];
      order[word[1]] = order[word[2]];
      order[word[2]] = kept;
    }
  }
  return 0;
}

static int32_t run_turns(void* repetition) {
  const Repetition* words = repetition;
  for (uint64_t k = 0; k < words->turns; k++) RD_PASS(run_once(words, NULL));
  return 0;
}

/* The number of times after which an order is that at the beginning: the least common multiple of its cycles; 0: more than MOST_TURNS. */
static uint64_t count_turns(const uint32_t* order, uint32_t slots) {
  uint64_t all = 1;
  for (uint32_t first = 0; first < slots; first++) {
    uint64_t cycle = 1, both = all;
    for (uint32_t at = order[first]; at != first && cycle <= MOST_TURNS; at = order[at]) cycle++;
    while (both % cycle && both <= MOST_TURNS) both += all;
    if (cycle > MOST_TURNS || both > MOST_TURNS) return 0;
    all = both;
  }
  return all;
}

/* Runs the words by themselves, to see how they swap slots. */
static int32_t run_first(Repetition* words) {
  uint32_t slots = words->plan->slot_count;
  uint32_t* order = malloc((slots + 1) * sizeof *order);
  if (!order) return rd_fail(RD_NO_MEMORY, "no memory");
  for (uint32_t slot = 0; slot < slots; slot++) order[slot] = slot;
  int32_t code = run_once(words, order);
  if (!code) words->turns = count_turns(order, slots);
  free(order);
  return code;
}

/* Runs a part of the repetition, in turns as far as they go; the register counts down. */
static int32_t repeat(Reader* reader) {
  RdPlan* plan = reader->plan;
  uint64_t self = reader->at - 1;
  uint32_t left = operand(reader, plan->register_count);
  uint64_t count = operand(reader, plan->word_count);
  Repetition words = {plan, reader->at, reader->at + count, 0};
  if (reader->damaged || words.end > plan->word_count) return damaged(reader);
  int64_t* times = &plan->registers[left];
  reader->at = words.end;
  if (*times <= 0) return 0;
  uint64_t part = (uint64_t)*times < PART ? (uint64_t)*times : PART, done = 1;
  RD_PASS(run_first(&words));
  if (words.turns && part > words.turns) {
    uint64_t turns = (part - 1) / words.turns;
    RD_PASS(rd_device_repeat(plan->device, run_turns, &words, turns));
    done += turns * words.turns;
  }
  for (; done < part; done++) RD_PASS(run_once(&words, NULL));
  *times -= (int64_t)part;
  if (*times) reader->at = self;
  return 0;
}

int32_t rd_plan_run(RdPlan* plan, uint64_t nanoseconds) {
  int64_t begun = nanoseconds_now();
  while (plan->at < plan->word_count) {
    Reader reader = {plan, plan->at, 0};
    int32_t code = step(&reader, nanoseconds);
    if (code) return code; /* also RD_BUSY: the step is taken again */
    plan->at = reader.at;
    if ((uint64_t)(nanoseconds_now() - begun) > nanoseconds) return RD_BUSY;
  }
  return 0;
}
