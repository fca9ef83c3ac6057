/* A device as raido uses it, whatever its API: memory, kernels, launches, and plans of them.
 *
 * C11, libc and pthreads.  One library has one API: raido_vulkan.h or raido_cuda.h opens devices, and beside it stand raido_device.c
 * and raido_plan.c.  Functions that return int32_t give 0 or one of the codes below, and rd_error() then has one sentence for people.
 * Any thread may call; calls to one device take turns.  Launches and copies on the device run in the order in which they were called,
 * some time later; whoever reads waits.
 */
#ifndef RAIDO_DEVICE_H
#define RAIDO_DEVICE_H

#include <stdint.h>

#if defined(RAIDO_SHARED_RUNTIME)
#define RD_DEVICE_API __attribute__((visibility("default")))
#else
#define RD_DEVICE_API __attribute__((visibility("hidden")))
#endif
#define RD_HIDDEN __attribute__((visibility("hidden")))

#define RD_DEVICE_VERSION 8

enum { RD_BUSY = 1, RD_FAILED = -1, RD_NO_MEMORY = -2, RD_LOST = -3 };

typedef struct RdDevice RdDevice;
typedef struct RdBuffer RdBuffer; /* memory of a device */
typedef struct RdKernel RdKernel;

/* A kernel.  Its arguments are a block of bytes; of pointer k the address goes to offsets[k] in it (addresses != 0), or it is
 * binding k.  inline_arguments: the block is part of the launch; else it lies in memory.  block: the threads of a block along each
 * axis, which SPIR-V says too.  shared_bytes: the shared memory of a block, which the code declares, or nothing of it (CUDA's with much).
 * CUDA's kernels have addresses, inline; their code is machine code, PTX, or a table of both (RdCudaTable).
 *
 * widths: the least bytes of an element of each pointer's array; 1 where elements may share words.
 * narrow: the same kernel with indices of 32 bits, or NULL; it runs instead where arrays have less than 2^31 elements (on Vulkan: bytes),
 * the blocks along each axis are at most narrow_grid, and of the `numbers` integers of 64 bits, at number_offsets in the block, none is
 * negative or above its narrow_limits. In CUDA's code it is a kernel of its own, by the name raido_narrow_<name>. */
typedef struct RdKernelInfo {
  const char* name;
  const void* code;
  uint64_t bytes;
  int32_t addresses, inline_arguments;
  uint32_t pointers, argument_bytes, block[3], shared_bytes;
  const uint32_t *offsets, *widths;
  const void* narrow;
  uint64_t narrow_bytes;
  uint32_t narrow_grid[3], numbers;
  const uint32_t *number_offsets, *narrow_limits;
} RdKernelInfo;

RD_DEVICE_API int32_t rd_device_version(void);
/* The message of the last failure on this thread. */
RD_DEVICE_API const char* rd_error(void);
/* Keeps a message for rd_error, and returns the code. */
RD_HIDDEN int32_t rd_fail(int32_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* Returns from the function around it where a call has failed. */
#define RD_PASS(call)        \
  do {                       \
    int32_t code_ = (call);  \
    if (code_) return code_; \
  } while (0)

/* Waits, and frees everything: buffers and kernels too. A device with a kernel that does not end is left as it is. */
RD_DEVICE_API void rd_device_close(RdDevice* device);
/* Waits until all that was launched has run, at most so long; RD_BUSY when it has not. */
RD_DEVICE_API int32_t rd_device_finish(RdDevice* device, uint64_t nanoseconds);
/* Bytes taken from the driver for buffers. */
RD_DEVICE_API uint64_t rd_device_taken(RdDevice* device);
/* Gives free memory back to the driver. */
RD_DEVICE_API int32_t rd_device_trim(RdDevice* device);
/* Records a moment; *out numbers it. The last 64 are kept. */
RD_DEVICE_API int32_t rd_device_mark(RdDevice* device, uint32_t* out);
/* Waits, and gives the seconds between two moments. */
RD_DEVICE_API int32_t rd_device_elapsed(RdDevice* device, uint32_t from, uint32_t to, double* seconds);

RD_DEVICE_API int32_t rd_buffer_new(RdDevice* device, uint64_t bytes, RdBuffer** out);
RD_DEVICE_API void rd_buffer_free(RdBuffer* buffer);
RD_DEVICE_API int32_t rd_buffer_write(RdBuffer* buffer, uint64_t offset, const void* from, uint64_t bytes);
RD_DEVICE_API int32_t rd_buffer_read(RdBuffer* buffer, uint64_t offset, void* to, uint64_t bytes);
RD_DEVICE_API int32_t rd_buffer_copy(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes);

RD_DEVICE_API int32_t rd_kernel_new(RdDevice* device, const RdKernelInfo* info, RdKernel** out);
RD_DEVICE_API void rd_kernel_free(RdKernel* kernel);
RD_DEVICE_API int32_t rd_kernel_launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments,
                                       RdBuffer* const* buffers);
/* Whether a launch is so small that the narrow code is right for it, its arrays apart: `limits` are those of RdKernelInfo. */
RD_HIDDEN int rd_is_small(const uint32_t most[3], const uint32_t grid[3], uint32_t numbers, const uint32_t* offsets, const uint32_t* limits,
                          const char* arguments);
/* Whether a kernel takes so many arrays, and at most so many bytes of arguments. */
RD_HIDDEN int rd_kernel_takes(const RdKernel* kernel, uint32_t arrays, uint32_t bytes);

/* Calls `body` so many times, which launches and copies the same each time, in the same memory but for what it allocates and frees itself:
 * a device may record that once. */
RD_HIDDEN int32_t rd_device_repeat(RdDevice* device, int32_t (*body)(void* context), void* context, uint64_t times);

/* A plan: what the CPU does around launches, as words.  Operands are numbers of registers (of 64 bits), slots (of arrays on the
 * device), arrays of the caller and kernels; targets of jumps are positions of words.  Sizes are computed with checks. */
enum {
  RD_SET,         /* register, value */
  RD_COMPUTE,     /* operation, register, left, right */
  RD_ALLOCATE,    /* slot, bytes */
  RD_FREE,        /* slot */
  RD_UPLOAD,      /* slot, array of the caller, bytes */
  RD_DOWNLOAD,    /* array of the caller, slot, bytes */
  RD_COPY,        /* slot, at, slot of the source, offset, bytes */
  RD_LAUNCH,      /* kernel, blocks along x, y, z, count and (place, width, register) of each scalar, count and slots of arrays */
  RD_READ_BACK,   /* register, slot, offset, width, 1 where it is signed */
  RD_SWAP,        /* slot, slot */
  RD_JUMP,        /* target */
  RD_JUMP_UNLESS, /* register, target */
  RD_REPEAT,      /* register, count: runs the words behind it, so many, as often as the register says, and leaves that at 0 */
};
enum { RD_ADD, RD_SUBTRACT, RD_MULTIPLY, RD_DIVIDE, RD_REMAINDER, RD_MINIMUM, RD_MAXIMUM, RD_LESS, RD_LESS_EQUAL, RD_EQUAL, RD_UNEQUAL };

typedef struct RdPlan {
  RdDevice* device;
  const int64_t* words;
  int64_t* registers;
  RdBuffer** slots; /* NULL: none yet */
  void* const* arrays;
  RdKernel* const* kernels;
  uint64_t word_count, at; /* at: where it goes on */
  uint32_t register_count, slot_count, array_count, kernel_count;
} RdPlan;

/* Runs a plan to its end, or for so long (RD_BUSY: call again).  Launches may still run when it returns.  What it has
 * allocated and not freed is in its slots, after a failure too.  Words that are repeated do the same each time and wait for nothing. */
RD_DEVICE_API int32_t rd_plan_run(RdPlan* plan, uint64_t nanoseconds);

#endif
