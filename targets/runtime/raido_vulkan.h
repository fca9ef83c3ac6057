/* Vulkan's devices; raido_device.h says what is done with one.
 *
 * libvulkan.so.1 is opened when it is first asked for.  Launches and copies are recorded, and submitted in batches.
 */
#ifndef RAIDO_VULKAN_H
#define RAIDO_VULKAN_H

#include "raido_device.h"

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
  RD_EXCHANGES = 1 << 16, /* threads of a whole subgroup hand each other values */
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

/* What a device is opened with.  robust: accesses beyond a descriptor do no harm.  staging: copies go through staging memory even
 * where the CPU could write directly.  memory: bytes to take at most, 0 for the device's own.  cache: pipelines of an earlier run. */
typedef struct RdDeviceOptions {
  int32_t index, robust, staging;
  uint64_t memory;
  const void* cache;
  uint64_t cache_bytes;
} RdDeviceOptions;

/* validate: with the validation layer, which notes misuse and missing barriers. */
RD_DEVICE_API int32_t rd_vulkan_open(int32_t validate, RdVulkan** out);
/* Every device must have been closed. */
RD_DEVICE_API void rd_vulkan_close(RdVulkan* vulkan);
RD_DEVICE_API int32_t rd_vulkan_count(RdVulkan* vulkan);
RD_DEVICE_API int32_t rd_vulkan_describe(RdVulkan* vulkan, int32_t index, RdVulkanInfo* out);
/* How many messages the validation layer has sent; the first of them are copied to text. */
RD_DEVICE_API int64_t rd_vulkan_messages(RdVulkan* vulkan, char* text, uint64_t room);

RD_DEVICE_API int32_t rd_device_open(RdVulkan* vulkan, const RdDeviceOptions* options, RdDevice** out);
/* The pipeline cache: its size, and as much as there is room for. */
RD_DEVICE_API int64_t rd_device_cache(RdDevice* device, void* out, uint64_t room);
/* How many pipelines have been compiled. */
RD_DEVICE_API uint64_t rd_device_compiled(RdDevice* device);

#endif
