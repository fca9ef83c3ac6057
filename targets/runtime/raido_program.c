/* Programs on the device of an exported library; raido_program.h says what each function promises.
 *
 * Calls hold `gate` for reading; who opens, changes or gives up the device holds it for writing. So a device is closed when no call
 * uses it. A process that was forked opens a device of its own, and leaves its parent's alone.
 */
#define _GNU_SOURCE
#include "raido_program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raido_runtime.h"

#define FOREVER (~(uint64_t)0)

static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static RdDevice* device;
static pid_t owner;
static uint64_t opened; /* how many devices have been opened */
static char chosen[256];

/* ---------------------------------------------------------------- the device */

static int is_open(void) { return device && owner == getpid(); }

/* Gives up the device; the gate is held for writing. */
static void shut(void) {
  if (is_open()) rd_device_close(device);
  device = NULL;
}

static int32_t open_as(const char* which) {
  RdDevice* found = NULL;
  RD_PASS(rd_library_open(which, &found));
  shut();
  device = found;
  owner = getpid();
  opened++;
  return 0;
}

/* Holds the gate for reading, with a device open behind it; not after a failure. */
static int32_t enter(void) {
  for (;;) {
    pthread_rwlock_rdlock(&gate);
    if (is_open()) return 0;
    pthread_rwlock_unlock(&gate);
    pthread_rwlock_wrlock(&gate);
    int32_t code = is_open() ? 0 : open_as(chosen);
    pthread_rwlock_unlock(&gate);
    if (code) return code;
  }
}

/* Leaves the gate. A lost device is given up, for the next call to open it anew. */
static int32_t leave(int32_t code) {
  uint64_t used = opened;
  pthread_rwlock_unlock(&gate);
  if (code != RD_LOST) return code;
  pthread_rwlock_wrlock(&gate);
  if (opened == used) shut();
  pthread_rwlock_unlock(&gate);
  return code;
}

int32_t rd_library_choose(const char* which) {
  if (strlen(which) >= sizeof chosen) return rd_fail(RD_BAD_DEVICE, "no device has a name as long");
  pthread_rwlock_wrlock(&gate);
  int32_t code = is_open() && !strcmp(which, chosen) ? 0 : open_as(which);
  if (!code) strcpy(chosen, which);
  pthread_rwlock_unlock(&gate);
  return code;
}

int rd_is_called(const char* which, int32_t index, const char* name) {
  char digits[16];
  snprintf(digits, sizeof digits, "%d", (int)index);
  return !strcmp(which, digits) || strcasestr(name, which) != NULL;
}

/* ---------------------------------------------------------------- programs */

static int32_t load_all(const RdProgram* program, RdKernel** kernels, RdBuffer** constants) {
  for (uint32_t i = 0; i < program->kernel_count; i++) {
    int32_t code = rd_kernel_new(device, &program->kernels[i], &kernels[i]);
    if (code) return code == RD_FAILED ? RD_BAD_DEVICE : code; /* the device does not take it */
  }
  for (uint32_t i = 0; i < program->constant_count; i++) {
    const RdConstant* constant = &program->constants[i];
    RD_PASS(rd_buffer_new(device, constant->bytes, &constants[i]));
    RD_PASS(rd_buffer_write(constants[i], 0, constant->data, constant->bytes));
  }
  return 0;
}

/* Kernels and constants on the device, unless they are there; those of a device before went with it. */
static int32_t load(const RdProgram* program, RdLoaded* loaded) {
  if (loaded->opened == opened) return 0;
  RdKernel** kernels = calloc(program->kernel_count + 1, sizeof *kernels);
  RdBuffer** constants = calloc(program->constant_count + 1, sizeof *constants);
  int32_t code = kernels && constants ? load_all(program, kernels, constants) : rd_fail(RD_NO_MEMORY, "no memory");
  if (code) {
    for (uint32_t i = 0; kernels && i < program->kernel_count; i++)
      if (kernels[i]) rd_kernel_free(kernels[i]);
    for (uint32_t i = 0; constants && i < program->constant_count; i++)
      if (constants[i]) rd_buffer_free(constants[i]);
  } else {
    RdKernel** kernels_before = loaded->kernels;
    RdBuffer** constants_before = loaded->constants;
    *loaded = (RdLoaded){opened, kernels, constants};
    kernels = kernels_before;
    constants = constants_before;
  }
  free(kernels);
  free(constants);
  return code;
}

static int32_t run_plan(RdPlan* plan, const RdWords* words) {
  plan->words = words->words;
  plan->word_count = words->count;
  plan->at = 0;
  int32_t code;
  do code = rd_plan_run(plan, FOREVER);
  while (code == RD_BUSY);
  return code;
}

/* The arrays that the plan has allocated, for the caller to own: all of them or none. */
static int32_t take_made(const RdProgram* program, const RdPlan* plan, void** const* made) {
  int32_t code = 0;
  for (uint32_t i = 0; i < program->made_count && !code; i++) {
    RdBuffer* buffer = plan->slots[program->made[i].slot];
    int64_t bytes = plan->registers[program->made[i].bytes];
    if (!buffer) continue; /* a check has failed before it was made */
    *made[i] = bytes < 0 ? NULL : rd_alloc(bytes ? (uint64_t)bytes : 1);
    code = *made[i] ? rd_buffer_read(buffer, 0, *made[i], (uint64_t)bytes)
                    : rd_fail(RD_NO_MEMORY, "cannot allocate %lld bytes for a result", (long long)bytes);
  }
  for (uint32_t i = 0; code && i < program->made_count; i++) {
    rd_free(*made[i]);
    *made[i] = NULL;
  }
  return code;
}

static int is_constant(const RdProgram* program, const RdLoaded* loaded, const RdBuffer* buffer) {
  for (uint32_t i = 0; i < program->constant_count; i++)
    if (loaded->constants[i] == buffer) return 1;
  return 0;
}

static int32_t run(const RdProgram* program, const RdLoaded* loaded, RdPlan* plan, const int64_t* sizes, void** const* made,
                   int64_t* const* counts) {
  for (uint32_t i = 0; i < program->constant_count; i++) plan->slots[program->constants[i].slot] = loaded->constants[i];
  for (uint32_t i = 0; i < program->size_count; i++) plan->registers[program->sizes[i]] = sizes[i];
  int32_t code = run_plan(plan, &program->plans[0]);
  if (!code) {
    int32_t ran = run_plan(plan, &program->plans[1]);
    code = ran == RD_LOST ? ran : run_plan(plan, &program->plans[2]); /* after a failure too: a fault may be the cause */
    if (!code) code = ran;
  }
  if (!code) code = take_made(program, plan, made);
  for (uint32_t i = 0; i < program->count_count && !code; i++) *counts[i] = plan->registers[program->counts[i]];
  for (uint32_t i = 0; i < program->slot_count; i++)
    if (plan->slots[i] && !is_constant(program, loaded, plan->slots[i])) rd_buffer_free(plan->slots[i]);
  return code;
}

int32_t rd_program_run(const RdProgram* program, RdLoaded* loaded, void* const* arrays, const int64_t* sizes, void** const* made,
                       int64_t* const* counts) {
  RD_PASS(enter());
  pthread_mutex_lock(&loading);
  int32_t code = load(program, loaded);
  RdLoaded mine = *loaded;
  pthread_mutex_unlock(&loading);
  if (code) return leave(code);
  RdPlan plan = {.device = device, .arrays = arrays, .kernels = mine.kernels};
  plan.register_count = program->register_count;
  plan.slot_count = program->slot_count;
  plan.array_count = program->array_count;
  plan.kernel_count = program->kernel_count;
  plan.registers = calloc(program->register_count + 1, sizeof *plan.registers);
  plan.slots = calloc(program->slot_count + 1, sizeof *plan.slots);
  code = plan.registers && plan.slots ? run(program, &mine, &plan, sizes, made, counts) : rd_fail(RD_NO_MEMORY, "no memory");
  if (!code && !pthread_mutex_trylock(&loading)) { /* else another thread is at it, or will be */
    rd_library_keep(device);
    pthread_mutex_unlock(&loading);
  }
  free(plan.registers);
  free(plan.slots);
  return leave(code);
}
