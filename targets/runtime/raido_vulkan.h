/* Vulkan devices for raido: memory, kernels, launches, and plans of them.
 *
 * C11, libc and pthreads; libvulkan.so.1 is opened when it is first asked for.  Functions that return int32_t give 0 or one of the
 * codes below, and rd_vulkan_error() then has one sentence for people.  Any thread may call; calls to one device take turns.
 * Launches and copies on the device are recorded, submitted in batches, and run in the order in which they were recorded; whoever
 * reads waits.
 */
#ifndef RAIDO_VULKAN_H
#define RAIDO_VULKAN_H

#include <stdint.h>

#if defined(RAIDO_SHARED_RUNTIME)
#define RD_VULKAN_API __attribute__((visibility("default")))
#else
#define RD_VULKAN_API __attribute__((visibility("hidden")))
#endif

#define RD_VULKAN_VERSION 1

enum { RD_VULKAN_BUSY = 1, RD_VULKAN_FAILED = -1, RD_VULKAN_NO_MEMORY = -2, RD_VULKAN_LOST = -3 };

/* Bits of RdVulkanInfo.features. */
enum {
  RD_FLOAT16 = 1 << 0,
  RD_FLOAT64 = 1 << 1,
  RD_INT64 = 1 << 2,
  RD_INT16 = 1 << 3,
  RD_INT8 = 1 << 4,
  RD_STORAGE16 = 1 << 5,
  RD_STORAGE8 = 1 << 6,
  RD_ADDRESSES = 1 << 7,
  RD_INT64_ATOMICS = 1 << 8,
  RD_SHARED_INT64_ATOMICS = 1 << 9,
  RD_FLOAT32_ADD = 1 << 10,
  RD_SHARED_FLOAT32_ADD = 1 << 11,
  RD_FLOAT64_ADD = 1 << 12,
  RD_SHARED_FLOAT64_ADD = 1 << 13,
  RD_TIMESTAMPS = 1 << 14,
  RD_UNIFIED = 1 << 15,
};

/* A device.  Sizes in bytes; masks of float widths have bit 0 for 16, 1 for 32, 2 for 64 bits. */
typedef struct RdVulkanInfo {
  char name[256], driver[256];
  uint8_t identity[48]; /* of device, driver and pipeline cache: what a pipeline cache on disk belongs to */
  uint64_t memory, allocation, binding;
  uint32_t features, api, type, subgroup;
  uint32_t grid[3], block[3], threads, shared, arguments, bindings;
  uint32_t denormals, infinities, round_to_even;
  uint32_t denormals_together, rounding_together; /* 0: widths are independent; 1: 16 and 64 agree; 2: all agree */
} RdVulkanInfo;

typedef struct RdVulkan RdVulkan; /* the library, with the validation layer or without */
typedef struct RdDevice RdDevice;
typedef struct RdBuffer RdBuffer; /* memory of a device */
typedef struct RdKernel RdKernel;

/* What a device is opened with.  robust: accesses beyond a descriptor do no harm.  staging: copies go through staging memory even
 * where the CPU could write directly.  memory: bytes to take at most, 0 for the device's own.  cache: pipelines of an earlier run. */
typedef struct RdDeviceOptions {
  int32_t index, robust, staging;
  uint64_t memory;
  const void* cache;
  uint64_t cache_bytes;
} RdDeviceOptions;

/* A kernel.  Its arguments are a block of bytes; of pointer k the address goes to offsets[k] in it (addresses != 0), or it is
 * binding k.  inline_arguments: the block is part of the launch; else it lies in memory. */
typedef struct RdKernelInfo {
  const char* name;
  const void* words;
  uint64_t bytes;
  int32_t addresses, inline_arguments;
  uint32_t pointers, argument_bytes;
  const uint32_t* offsets;
} RdKernelInfo;

RD_VULKAN_API int32_t rd_vulkan_version(void);
/* The message of the last failure on this thread. */
RD_VULKAN_API const char* rd_vulkan_error(void);

/* validate: with the validation layer, which notes misuse and missing barriers. */
RD_VULKAN_API int32_t rd_vulkan_open(int32_t validate, RdVulkan** out);
/* Every device must have been closed. */
RD_VULKAN_API void rd_vulkan_close(RdVulkan* vulkan);
RD_VULKAN_API int32_t rd_vulkan_count(RdVulkan* vulkan);
RD_VULKAN_API int32_t rd_vulkan_describe(RdVulkan* vulkan, int32_t index, RdVulkanInfo* out);
/* How many messages the validation layer has sent; the first of them are copied to text. */
RD_VULKAN_API int64_t rd_vulkan_messages(RdVulkan* vulkan, char* text, uint64_t room);

RD_VULKAN_API int32_t rd_device_open(RdVulkan* vulkan, const RdDeviceOptions* options, RdDevice** out);
/* Waits, and frees everything: buffers and kernels too. A device with a kernel that does not end is left as it is. */
RD_VULKAN_API void rd_device_close(RdDevice* device);
/* Waits until all that was recorded has run, at most so long; RD_VULKAN_BUSY when it has not. */
RD_VULKAN_API int32_t rd_device_finish(RdDevice* device, uint64_t nanoseconds);
/* Bytes taken from the driver for buffers. */
RD_VULKAN_API uint64_t rd_device_taken(RdDevice* device);
/* Gives free memory back to the driver. */
RD_VULKAN_API int32_t rd_device_trim(RdDevice* device);
/* The pipeline cache: its size, and as much as there is room for. */
RD_VULKAN_API int64_t rd_device_cache(RdDevice* device, void* out, uint64_t room);
/* Records a moment; *out numbers it. The last 64 are kept. */
RD_VULKAN_API int32_t rd_device_mark(RdDevice* device, uint32_t* out);
/* Waits, and gives the seconds between two moments. */
RD_VULKAN_API int32_t rd_device_elapsed(RdDevice* device, uint32_t from, uint32_t to, double* seconds);

RD_VULKAN_API int32_t rd_buffer_new(RdDevice* device, uint64_t bytes, RdBuffer** out);
RD_VULKAN_API void rd_buffer_free(RdBuffer* buffer);
RD_VULKAN_API int32_t rd_buffer_write(RdBuffer* buffer, uint64_t offset, const void* from, uint64_t bytes);
RD_VULKAN_API int32_t rd_buffer_read(RdBuffer* buffer, uint64_t offset, void* to, uint64_t bytes);
RD_VULKAN_API int32_t rd_buffer_copy(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes);

RD_VULKAN_API int32_t rd_kernel_new(RdDevice* device, const RdKernelInfo* info, RdKernel** out);
RD_VULKAN_API void rd_kernel_free(RdKernel* kernel);
RD_VULKAN_API int32_t rd_kernel_launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments,
                                       RdBuffer* const* buffers);

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

/* Runs a plan to its end, or for so long (RD_VULKAN_BUSY: call again).  Launches may still run when it returns.  What it has
 * allocated and not freed is in its slots, after a failure too. */
RD_VULKAN_API int32_t rd_plan_run(RdPlan* plan, uint64_t nanoseconds);

#endif
