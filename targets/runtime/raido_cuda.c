/* CUDA devices at work; raido_device.h and raido_cuda.h say what each function promises.
 *
 * Memory.  Freed arrays are kept by size and handed out again: the stream runs in order, so a later command may use one at once.  What is kept
 * goes back to the driver when memory is short, and on request.  Those whose address another library has had may still be used in its streams:
 * they wait, apart, until the whole device has been waited for.
 * Code.  Kernels that come with the same bytes share one module of the driver; of code for several architectures the device's is taken.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "raido_cuda_inside.h"

#define OLDEST_DRIVER 12000 /* whose functions raido_cuda_api.h declares */
#define CODE_DRIVER 13000   /* machine code comes from NVRTC 13.0 */
#define ALIGNMENT ((uint64_t)256)
#define SHARED_PART 8 /* of a device's memory, what others may still use: then all of it is waited for */
#define NARROW "raido_narrow_" /* before the name of a kernel: the one with indices of 32 bits */
#define SPIN ((int64_t)50000) /* nanoseconds of a wait that do not sleep: most kernels are shorter */
#define NAP 20000
#define LAST_WAIT ((uint64_t)5000000000) /* nanoseconds, when a device is closed: a kernel may never end */

RdCudaDriver cu;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int started;

struct RdKernel {
  RdDevice* device;
  Module* module;
  CUfunction function, narrow; /* narrow: NULL where there is none */
  uint32_t pointers, numbers, argument_bytes, block[3], narrow_grid[3], dynamic;
  RdKernel *next, *before;
  char name[256];
  uint32_t offsets[]; /* of pointers, then of numbers, then these' limits, then the widths of the pointers' elements */
};

/* ---------------------------------------------------------------- the driver */

static const char* text_of(CUresult result) {
  const char* text = NULL;
  if (!cu.GetErrorString || cu.GetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "the driver failed";
  return text;
}

static int32_t start(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays: the driver has threads of its own */
  if (!library) return rd_fail(RD_FAILED, "there is no CUDA driver on this machine: %s", dlerror());
#define FIND(name, symbol, parameters)                       \
  cu.name = (CUresult(*) parameters)dlsym(library, symbol); \
  if (!cu.name) missing = symbol;
  const char* missing = NULL;
  CUDA_FUNCTIONS(FIND)
  if (cu.DriverGetVersion) cu.DriverGetVersion(&cu.driver);
  if (missing || cu.driver < OLDEST_DRIVER)
    return rd_fail(RD_FAILED, "the CUDA driver is of version %d.%d, and raido needs 12.0 or newer", cu.driver / 1000, cu.driver % 1000 / 10);
  CUresult result = cu.Init(0);
  if (result == CUDA_SUCCESS) result = cu.DeviceGetCount(&cu.count);
  if (result == CUDA_ERROR_NO_DEVICE) return rd_fail(RD_FAILED, "there is a CUDA driver on this machine, and no device");
  if (result != CUDA_SUCCESS) return rd_fail(RD_FAILED, "the CUDA driver does not start: %s (%d)", text_of(result), result);
  return 0;
}

int32_t rd_cuda_start(void) {
  pthread_mutex_lock(&starting);
  int32_t code = started ? 0 : start();
  if (!code) started = 1;
  pthread_mutex_unlock(&starting);
  return code;
}

int32_t rd_cuda_count(void) { return started ? cu.count : 0; }

static uint32_t attribute(CUdevice device, int which) {
  int value = 0;
  cu.DeviceGetAttribute(&value, which, device);
  return (uint32_t)value;
}

int32_t rd_cuda_describe(int32_t index, RdCudaInfo* out) {
  CUdevice device;
  CUuuid identity;
  size_t memory = 0;
  memset(out, 0, sizeof *out);
  CUresult result = cu.DeviceGet(&device, index);
  if (result == CUDA_SUCCESS) result = cu.DeviceGetName(out->name, sizeof out->name - 1, device);
  if (result == CUDA_SUCCESS) result = cu.DeviceTotalMem(&memory, device);
  if (result == CUDA_SUCCESS) result = cu.DeviceGetUuid(&identity, device);
  if (result != CUDA_SUCCESS) return rd_fail(RD_FAILED, "CUDA device %d: %s (%d)", index, text_of(result), result);
  memcpy(out->identity, identity.bytes, sizeof out->identity);
  out->memory = memory;
  out->driver = (uint32_t)cu.driver;
  out->capability = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                    attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out->processors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out->warp = attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->threads = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->shared = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  for (int axis = 0; axis < 3; axis++) {
    out->grid[axis] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis);
    out->block[axis] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis);
  }
  return 0;
}

/* ---------------------------------------------------------------- errors */

static int ends_context(CUresult result) {
  return result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
         result == CUDA_ERROR_ASSERT ||
         (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED);
}

int32_t rd_cuda_failed(RdDevice* d, CUresult result, const char* doing) {
  if (ends_context(result)) {
    d->lost = 1;
    return rd_fail(RD_LOST, "%s was lost while %s: %s (%d); CUDA gives it back to a new process only", d->info.name, doing,
                   text_of(result), result);
  }
  return rd_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? RD_NO_MEMORY : RD_FAILED, "%s: %s while %s (%d)", d->info.name,
                 text_of(result), doing, result);
}

int32_t rd_cuda_usable(RdDevice* d) {
  if (!d->lost) return 0;
  return rd_fail(RD_LOST, "%s was lost by an earlier call; CUDA gives it back to a new process only", d->info.name);
}

/* ---------------------------------------------------------------- waiting */

static int64_t nanoseconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int32_t finish(RdDevice* d, uint64_t nanoseconds) {
  RD_PASS(rd_cuda_usable(d));
  int64_t begun = nanoseconds_now();
  for (;;) {
    CUresult result = cu.StreamQuery(d->stream);
    if (result == CUDA_SUCCESS) {
      rd_cuda_drop_recordings(d);
      return 0;
    }
    if (result != CUDA_ERROR_NOT_READY) return rd_cuda_failed(d, result, "running a kernel");
    int64_t waited = nanoseconds_now() - begun;
    if ((uint64_t)waited > nanoseconds) return RD_BUSY;
    if (waited > SPIN) nanosleep(&(struct timespec){0, NAP}, NULL);
  }
}

int32_t rd_cuda_finish_all(RdDevice* d) {
  RD_PASS(rd_cuda_usable(d));
  TRY(d, cu.StreamSynchronize(d->stream), "running a kernel");
  rd_cuda_drop_recordings(d);
  return 0;
}

/* ---------------------------------------------------------------- memory */

/* The next size of arrays that is not below `bytes`, and its number: 2^k times 16/16, 17/16, … or 31/16. */
static uint32_t size_of(uint64_t bytes, uint64_t* room) {
  uint64_t size = bytes < ALIGNMENT ? ALIGNMENT : bytes;
  uint32_t power = 63 - (uint32_t)__builtin_clzll(size);
  uint64_t step = (uint64_t)1 << (power - 4), steps = (size + step - 1) >> (power - 4); /* 16 to 32 */
  *room = steps * step;
  return (power - 8) * 16 + (uint32_t)steps - 16;
}

void rd_cuda_link_buffer(RdBuffer** list, RdBuffer* buffer) {
  buffer->before = NULL;
  buffer->next = *list;
  if (*list) (*list)->before = buffer;
  *list = buffer;
}

static void unlink_buffer(RdBuffer** list, RdBuffer* buffer) {
  if (buffer->before) buffer->before->next = buffer->next;
  else *list = buffer->next;
  if (buffer->next) buffer->next->before = buffer->before;
}

/* Gives back what is kept; everything has run. */
static void trim(RdDevice* d) {
  for (int size = 0; size < RD_CUDA_SIZES; size++)
    while (d->free[size]) {
      RdBuffer* buffer = d->free[size];
      unlink_buffer(&d->free[size], buffer);
      cu.MemFree(buffer->address);
      d->taken -= buffer->room;
      free(buffer);
    }
}

static void keep(RdBuffer* buffer) {
  uint64_t room;
  rd_cuda_link_buffer(&buffer->device->free[size_of(buffer->room, &room)], buffer);
}

/* Waits for every stream of the device, so that what others have used may be used again. */
static int32_t settle(RdDevice* d) {
  if (!d->shared) return 0;
  TRY(d, cu.CtxSynchronize(), "waiting for it");
  while (d->shared) {
    RdBuffer* buffer = d->shared;
    unlink_buffer(&d->shared, buffer);
    buffer->shared = 0;
    keep(buffer);
  }
  d->unsettled = 0;
  return 0;
}

static CUresult take(RdDevice* d, uint64_t room, CUdeviceptr* out) {
  return d->taken + room > d->limit ? CUDA_ERROR_OUT_OF_MEMORY : cu.MemAlloc(out, room);
}

static int32_t new_buffer(RdDevice* d, uint64_t bytes, RdBuffer** out) {
  RD_PASS(rd_cuda_usable(d));
  if (bytes > d->info.memory)
    return rd_fail(RD_NO_MEMORY, "%s cannot hold an array of %llu bytes: it has %llu", d->info.name, (unsigned long long)bytes,
                   (unsigned long long)d->info.memory);
  uint64_t room;
  uint32_t size = size_of(bytes, &room);
  if (!d->free[size] && d->unsettled > d->limit / SHARED_PART) RD_PASS(settle(d));
  RdBuffer* buffer = d->free[size];
  if (buffer) {
    unlink_buffer(&d->free[size], buffer);
  } else {
    CUdeviceptr address = 0;
    CUresult result = take(d, room, &address);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      RD_PASS(rd_cuda_finish_all(d));
      RD_PASS(settle(d));
      trim(d);
      result = take(d, room, &address);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      return rd_fail(RD_NO_MEMORY, "%s has no %llu bytes left: %llu of %llu are taken", d->info.name, (unsigned long long)bytes,
                     (unsigned long long)d->taken, (unsigned long long)d->limit);
    if (result != CUDA_SUCCESS) return rd_cuda_failed(d, result, "allocating memory");
    buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
      cu.MemFree(address);
      return rd_fail(RD_NO_MEMORY, "no memory");
    }
    buffer->device = d;
    buffer->address = address;
    buffer->room = room;
    d->taken += room;
  }
  buffer->bytes = bytes;
  rd_cuda_link_buffer(&d->live, buffer);
  *out = buffer;
  return 0;
}

static void release_buffer(RdBuffer* buffer) {
  RdDevice* d = buffer->device;
  unlink_buffer(&d->live, buffer);
  if (buffer->foreign) {
    free(buffer);
  } else if (buffer->shared) {
    rd_cuda_link_buffer(&d->shared, buffer);
    d->unsettled += buffer->room;
  } else {
    keep(buffer);
  }
}

static int32_t check_range(RdBuffer* buffer, uint64_t offset, uint64_t bytes) {
  RD_PASS(rd_cuda_usable(buffer->device));
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return 0;
  return rd_fail(RD_FAILED, "%llu bytes at %llu are not inside of an array of %llu bytes", (unsigned long long)bytes,
                 (unsigned long long)offset, (unsigned long long)buffer->bytes);
}

/* Waits, since the caller's memory may be pinned, and then the driver reads it later. */
static int32_t write_buffer(RdBuffer* buffer, uint64_t offset, const void* from, uint64_t bytes) {
  RdDevice* d = buffer->device;
  RD_PASS(check_range(buffer, offset, bytes));
  if (!bytes) return 0;
  TRY(d, cu.MemcpyHtoD(buffer->address + offset, from, bytes, d->stream), "copying to it");
  TRY(d, cu.StreamSynchronize(d->stream), "copying to it");
  return 0;
}

static int32_t read_buffer(RdBuffer* buffer, uint64_t offset, void* to, uint64_t bytes) {
  RdDevice* d = buffer->device;
  RD_PASS(check_range(buffer, offset, bytes));
  if (!bytes) return 0;
  TRY(d, cu.MemcpyDtoH(to, buffer->address + offset, bytes, d->stream), "copying from it");
  TRY(d, cu.StreamSynchronize(d->stream), "copying from it");
  return 0;
}

static int32_t copy_buffer(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes) {
  RdDevice* d = to->device;
  if (from->device != d) return rd_fail(RD_FAILED, "a copy is between arrays of one device");
  RD_PASS(check_range(to, at, bytes));
  RD_PASS(check_range(from, offset, bytes));
  if (bytes) TRY(d, cu.MemcpyDtoD(to->address + at, from->address + offset, bytes, d->stream), "copying on it");
  return 0;
}

/* ---------------------------------------------------------------- kernels */

static uint64_t hash_of(const uint8_t* bytes, uint64_t count) { /* FNV-1a */
  uint64_t hash = 14695981039346656037u;
  for (uint64_t i = 0; i < count; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  return hash;
}

static int32_t refused(RdDevice* d, const char* name, CUresult result) {
  const RdCudaInfo* info = &d->info;
  int foreign = result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (foreign && cu.driver < CODE_DRIVER)
    return rd_fail(RD_FAILED, "kernel %s: the driver of %s, of CUDA %d.%d, does not take its code: it needs 13.0 or newer", name,
                   info->name, cu.driver / 1000, cu.driver % 1000 / 10);
  if (foreign)
    return rd_fail(RD_FAILED, "kernel %s: its code is for another architecture than that of %s, sm_%u", name, info->name, info->capability);
  return rd_cuda_failed(d, result, "loading a kernel");
}

/* Whether a device of this capability runs a code, and runs it rather than `best`. */
static int is_better(const RdCudaCode* code, const RdCudaCode* best, uint32_t capability) {
  int ptx = code->kind == RD_CUDA_PTX, exact = code->kind == RD_CUDA_EXACT;
  if (exact ? code->capability != capability : code->capability > capability) return 0;
  if (!ptx && code->capability / 10 != capability / 10) return 0;
  if (!best->bytes || ptx != (best->kind == RD_CUDA_PTX)) return !best->bytes || !ptx;
  return code->capability > best->capability || (code->capability == best->capability && exact);
}

/* The code that a device gets: what the kernel has, or one of its table. */
static int32_t choose_code(RdDevice* d, const RdKernelInfo* info, const char** code, uint64_t* bytes) {
  const char* all = info->code;
  RdCudaTable table;
  RdCudaCode best = {0, 0, 0, 0}, row;
  *code = all;
  *bytes = info->bytes;
  if (info->bytes < sizeof table || memcmp(all, RD_CUDA_TABLE, sizeof table.magic)) return 0;
  memcpy(&table, all, sizeof table);
  for (uint64_t i = 0; i < table.count && (i + 1) * sizeof row <= info->bytes - sizeof table; i++) {
    memcpy(&row, all + sizeof table + i * sizeof row, sizeof row);
    if (row.bytes && row.offset <= info->bytes && row.bytes <= info->bytes - row.offset && is_better(&row, &best, d->info.capability))
      best = row;
  }
  *code = all + best.offset;
  *bytes = best.bytes;
  if (best.bytes) return 0;
  return rd_fail(RD_FAILED, "kernel %s: there is no code for the architecture of %s, sm_%u", info->name, d->info.name, d->info.capability);
}

/* The module of a kernel's code, loaded if no other kernel has the same. */
static int32_t find_module(RdDevice* d, const RdKernelInfo* info, Module** out) {
  const char* chosen;
  uint64_t bytes;
  RD_PASS(choose_code(d, info, &chosen, &bytes));
  uint64_t hash = hash_of((const uint8_t*)chosen, bytes);
  for (Module* module = d->modules; module; module = module->next)
    if (module->hash == hash && module->bytes == bytes) {
      *out = module;
      return 0;
    }
  Module* module = calloc(1, sizeof *module);
  char* code = malloc(bytes + 1); /* PTX is text with an end */
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (module && code) {
    memcpy(code, chosen, bytes);
    code[bytes] = 0;
    result = cu.ModuleLoadData(&module->module, code);
  }
  free(code);
  if (result != CUDA_SUCCESS) {
    free(module);
    return refused(d, info->name, result);
  }
  module->hash = hash;
  module->bytes = bytes;
  module->next = d->modules;
  *out = d->modules = module;
  return 0;
}

static void drop_module(RdDevice* d, Module* module) {
  if (--module->kernels) return;
  Module** at = &d->modules;
  while (*at != module) at = &(*at)->next;
  *at = module->next;
  cu.ModuleUnload(module->module);
  free(module);
}

/* The shared memory of a block is declared by the code, or, all of it, added by the launch. */
static int32_t set_shared(RdKernel* kernel, CUfunction function, uint32_t bytes) {
  RdDevice* d = kernel->device;
  int declared = 0;
  if (bytes > d->info.shared)
    return rd_fail(RD_FAILED, "kernel %s: %u bytes of shared memory, and %s has at most %u for a block", kernel->name, bytes,
                   d->info.name, d->info.shared);
  TRY(d, cu.FuncGetAttribute(&declared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), "loading a kernel");
  if (declared || !bytes) return 0;
  kernel->dynamic = bytes;
  TRY(d, cu.FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)kernel->dynamic),
      "giving a kernel shared memory");
  return 0;
}

/* A function of a kernel's module, ready to be launched. */
static int32_t find_function(RdKernel* kernel, const char* name, uint32_t shared_bytes, CUfunction* out) {
  CUresult result = cu.ModuleGetFunction(out, kernel->module->module, name);
  return result == CUDA_SUCCESS ? set_shared(kernel, *out, shared_bytes) : rd_cuda_failed(kernel->device, result, "finding a kernel in its code");
}

static int32_t find_functions(RdKernel* kernel, const RdKernelInfo* info) {
  RD_PASS(find_function(kernel, info->name, info->shared_bytes, &kernel->function));
  if (!info->narrow) return 0;
  size_t room = sizeof NARROW + strlen(info->name);
  char* name = malloc(room);
  if (!name) return rd_fail(RD_NO_MEMORY, "no memory");
  snprintf(name, room, NARROW "%s", info->name);
  int32_t code = find_function(kernel, name, info->shared_bytes, &kernel->narrow);
  free(name);
  return code;
}

static int32_t check_block(RdDevice* d, const RdKernelInfo* info) {
  uint64_t threads = (uint64_t)info->block[0] * info->block[1] * info->block[2];
  if (threads > d->info.threads)
    return rd_fail(RD_FAILED, "kernel %s: a block of %llu threads, and %s takes at most %u", info->name, (unsigned long long)threads,
                   d->info.name, d->info.threads);
  return 0;
}

static void release_kernel(RdKernel* kernel) {
  RdDevice* d = kernel->device;
  if (!d->lost) rd_cuda_finish_all(d);
  if (kernel->before) kernel->before->next = kernel->next;
  else d->kernels = kernel->next;
  if (kernel->next) kernel->next->before = kernel->before;
  drop_module(d, kernel->module);
  free(kernel);
}

static int32_t new_kernel(RdDevice* d, const RdKernelInfo* info, RdKernel** out) {
  RD_PASS(rd_cuda_usable(d));
  RD_PASS(check_block(d, info));
  RdKernel* kernel = calloc(1, sizeof *kernel + (2 * ((uint64_t)info->pointers + info->numbers)) * sizeof *info->offsets);
  if (!kernel) return rd_fail(RD_NO_MEMORY, "no memory");
  int32_t code = find_module(d, info, &kernel->module);
  if (code) {
    free(kernel);
    return code;
  }
  kernel->device = d;
  kernel->module->kernels++;
  kernel->pointers = info->pointers;
  kernel->argument_bytes = info->argument_bytes;
  memcpy(kernel->block, info->block, sizeof kernel->block);
  kernel->numbers = info->numbers;
  for (uint32_t i = 0; i < info->pointers; i++) {
    kernel->offsets[i] = info->offsets[i];
    kernel->offsets[info->pointers + 2 * info->numbers + i] = info->widths[i];
  }
  memcpy(kernel->narrow_grid, info->narrow_grid, sizeof kernel->narrow_grid);
  for (uint32_t i = 0; i < info->numbers; i++) {
    kernel->offsets[info->pointers + i] = info->number_offsets[i];
    kernel->offsets[info->pointers + info->numbers + i] = info->narrow_limits[i];
  }
  strncpy(kernel->name, info->name, sizeof kernel->name - 1);
  kernel->next = d->kernels;
  if (d->kernels) d->kernels->before = kernel;
  d->kernels = kernel;
  code = find_functions(kernel, info);
  if (code) release_kernel(kernel);
  else *out = kernel;
  return code;
}

int rd_kernel_takes(const RdKernel* kernel, uint32_t arrays, uint32_t bytes) {
  return kernel->pointers == arrays && kernel->argument_bytes <= bytes;
}

/* The function for a launch: the narrow one where everything that its indices are made of is small. */
static CUfunction choose_function(const RdKernel* kernel, const uint32_t grid[3], const char* arguments, RdBuffer* const* buffers) {
  const uint32_t *numbers = kernel->offsets + kernel->pointers, *limits = numbers + kernel->numbers, *widths = limits + kernel->numbers;
  for (uint32_t i = 0; i < kernel->pointers; i++)
    if (buffers[i]->bytes / widths[i] > INT32_MAX) return kernel->function;
  int small = kernel->narrow && rd_is_small(kernel->narrow_grid, grid, kernel->numbers, numbers, limits, arguments);
  return small ? kernel->narrow : kernel->function;
}

static int32_t launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments, RdBuffer* const* buffers) {
  RdDevice* d = kernel->device;
  RD_PASS(rd_cuda_usable(d));
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] > d->info.grid[axis])
      return rd_fail(RD_FAILED, "kernel %s: %u blocks along %c, and %s takes at most %u", kernel->name, grid[axis], "xyz"[axis],
                     d->info.name, d->info.grid[axis]);
  for (uint32_t i = 0; i < kernel->pointers; i++)
    if (buffers[i]->device != d) return rd_fail(RD_FAILED, "kernel %s: array %u is on another device", kernel->name, i);
  if (!grid[0] || !grid[1] || !grid[2]) return 0;
  size_t bytes = kernel->argument_bytes;
  char* block = malloc(bytes + 1);
  if (!block) return rd_fail(RD_NO_MEMORY, "no memory");
  memcpy(block, arguments, bytes);
  for (uint32_t i = 0; i < kernel->pointers; i++)
    memcpy(block + kernel->offsets[i], &buffers[i]->address, sizeof buffers[i]->address);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const uint32_t* threads = kernel->block;
  CUfunction function = choose_function(kernel, grid, arguments, buffers);
  CUresult result = cu.LaunchKernel(function, grid[0], grid[1], grid[2], threads[0], threads[1], threads[2], kernel->dynamic,
                                    d->stream, NULL, bytes ? extra : NULL);
  free(block); /* the driver has copied it */
  return result == CUDA_SUCCESS ? 0 : rd_cuda_failed(d, result, "launching a kernel");
}

/* ---------------------------------------------------------------- moments */

static int32_t mark(RdDevice* d, uint32_t* out) {
  RD_PASS(rd_cuda_usable(d));
  CUevent* event = &d->marks[d->marked % RD_CUDA_MARKS];
  if (!*event) TRY(d, cu.EventCreate(event, CU_EVENT_DEFAULT), "making an event");
  TRY(d, cu.EventRecord(*event, d->stream), "recording an event");
  *out = d->marked++;
  return 0;
}

static int32_t elapsed(RdDevice* d, uint32_t from, uint32_t to, double* seconds) {
  const uint32_t which[] = {from, to};
  float milliseconds = 0;
  RD_PASS(rd_cuda_usable(d));
  for (int i = 0; i < 2; i++) {
    if (which[i] >= d->marked || which[i] + RD_CUDA_MARKS < d->marked) return rd_fail(RD_FAILED, "moment %u is not kept", which[i]);
    TRY(d, cu.EventSynchronize(d->marks[which[i] % RD_CUDA_MARKS]), "waiting for an event");
  }
  TRY(d, cu.EventElapsedTime(&milliseconds, d->marks[from % RD_CUDA_MARKS], d->marks[to % RD_CUDA_MARKS]), "reading events");
  *seconds = milliseconds * 1e-3;
  return 0;
}

/* ---------------------------------------------------------------- devices */

static int32_t set_up(RdDevice* d, int32_t index, uint64_t memory) {
  RD_PASS(rd_cuda_start());
  RD_PASS(rd_cuda_describe(index, &d->info));
  d->limit = memory ? memory : d->info.memory;
  TRY(d, cu.DeviceGet(&d->device, index), "opening it");
  CUcontext context;
  TRY(d, cu.PrimaryCtxRetain(&context, d->device), "opening it");
  d->context = context;
  TRY(d, cu.CtxPushCurrent(context), "opening it");
  CUresult result = cu.StreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
  cu.CtxPopCurrent(&context);
  return result == CUDA_SUCCESS ? 0 : rd_cuda_failed(d, result, "opening it");
}

int32_t rd_cuda_open(int32_t index, uint64_t memory, RdDevice** out) {
  RdDevice* d = calloc(1, sizeof *d);
  if (!d) return rd_fail(RD_NO_MEMORY, "no memory");
  pthread_mutexattr_t again; /* what is recorded is launched by a device that is entered already */
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&d->lock, &again);
  pthread_mutexattr_destroy(&again);
  int32_t code = set_up(d, index, memory);
  if (code) rd_device_close(d);
  else *out = d;
  return code;
}

static void free_all(RdDevice* d) {
  while (d->kernels) release_kernel(d->kernels);
  while (d->live) release_buffer(d->live);
  settle(d);
  trim(d);
  rd_cuda_drop_recordings(d);
  for (int i = 0; i < RD_CUDA_MARKS; i++)
    if (d->marks[i]) cu.EventDestroy(d->marks[i]);
  if (d->order) cu.EventDestroy(d->order);
  if (d->stream) cu.StreamDestroy(d->stream);
}

void rd_device_close(RdDevice* d) {
  if (d->context) {
    CUcontext context;
    cu.CtxPushCurrent(d->context);
    int32_t code = d->stream && !d->lost ? finish(d, LAST_WAIT) : 0;
    if (code != RD_BUSY) free_all(d);
    cu.CtxPopCurrent(&context);
    if (code == RD_BUSY) return; /* what still runs must not be freed */
    cu.PrimaryCtxRelease(d->device);
  }
  pthread_mutex_destroy(&d->lock);
  free(d);
}

/* ---------------------------------------------------------------- what callers call: one at a time, in the device's context */

void rd_cuda_enter(RdDevice* d) {
  pthread_mutex_lock(&d->lock);
  cu.CtxPushCurrent(d->context);
}

void rd_cuda_leave(RdDevice* d) {
  CUcontext context;
  cu.CtxPopCurrent(&context);
  pthread_mutex_unlock(&d->lock);
}

static int32_t finish_and_trim(RdDevice* d) {
  RD_PASS(rd_cuda_finish_all(d));
  RD_PASS(settle(d));
  trim(d);
  return 0;
}

uint64_t rd_device_taken(RdDevice* device) {
  pthread_mutex_lock(&device->lock);
  uint64_t taken = device->taken;
  pthread_mutex_unlock(&device->lock);
  return taken;
}

int32_t rd_device_finish(RdDevice* device, uint64_t nanoseconds) { INSIDE(device, finish(device, nanoseconds)); }
int32_t rd_device_trim(RdDevice* device) { INSIDE(device, finish_and_trim(device)); }
int32_t rd_device_mark(RdDevice* device, uint32_t* out) { INSIDE(device, mark(device, out)); }

int32_t rd_device_elapsed(RdDevice* device, uint32_t from, uint32_t to, double* seconds) {
  INSIDE(device, elapsed(device, from, to, seconds));
}

int32_t rd_buffer_new(RdDevice* device, uint64_t bytes, RdBuffer** out) { INSIDE(device, new_buffer(device, bytes, out)); }

void rd_buffer_free(RdBuffer* buffer) {
  RdDevice* device = buffer->device;
  rd_cuda_enter(device);
  release_buffer(buffer);
  rd_cuda_leave(device);
}

int32_t rd_buffer_write(RdBuffer* buffer, uint64_t offset, const void* from, uint64_t bytes) {
  INSIDE(buffer->device, write_buffer(buffer, offset, from, bytes));
}

int32_t rd_buffer_read(RdBuffer* buffer, uint64_t offset, void* to, uint64_t bytes) {
  INSIDE(buffer->device, read_buffer(buffer, offset, to, bytes));
}

int32_t rd_buffer_copy(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes) {
  INSIDE(to->device, copy_buffer(to, at, from, offset, bytes));
}

int32_t rd_kernel_new(RdDevice* device, const RdKernelInfo* info, RdKernel** out) { INSIDE(device, new_kernel(device, info, out)); }

void rd_kernel_free(RdKernel* kernel) {
  RdDevice* device = kernel->device;
  rd_cuda_enter(device);
  release_kernel(kernel);
  rd_cuda_leave(device);
}

int32_t rd_kernel_launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments, RdBuffer* const* buffers) {
  INSIDE(kernel->device, launch(kernel, grid, arguments, buffers));
}
