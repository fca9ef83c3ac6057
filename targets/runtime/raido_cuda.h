/* CUDA's devices, by the driver API; raido_device.h says what is done with one.
 *
 * libcuda.so.1 is opened when it is first asked for.  A device works in its primary context, which other libraries of the process share,
 * and in a stream of its own.  A kernel that reads where nothing is ends the context for the whole process: RD_LOST, from then on.
 */
#ifndef RAIDO_CUDA_H
#define RAIDO_CUDA_H

#include "raido_device.h"

/* A device.  Sizes in bytes; capability is 90 for 9.0; driver is 13000 for a driver of CUDA 13.0. */
typedef struct RdCudaInfo {
  char name[256];
  uint8_t identity[16];
  uint64_t memory;
  uint32_t capability, driver, processors, warp, threads, shared, grid[3], block[3];
} RdCudaInfo;

/* Code for several architectures is a table: this, then a row for each, then the codes, at their rows' offsets from the beginning of the
 * table.  A kernel whose code is a table gets the machine code of the newest architecture that the device executes, which is one of its
 * own major version, and PTX where there is none. */
#define RD_CUDA_TABLE "RaidoCU"
typedef struct RdCudaTable {
  char magic[8];
  uint64_t count;
} RdCudaTable;
typedef struct RdCudaCode {
  uint32_t capability, ptx; /* the compute capability that it is for, or from which on; ptx: 0 for machine code */
  uint64_t offset, bytes;
} RdCudaCode;

/* Opens the driver, once in a process. */
RD_DEVICE_API int32_t rd_cuda_start(void);
RD_DEVICE_API int32_t rd_cuda_count(void);
RD_DEVICE_API int32_t rd_cuda_describe(int32_t index, RdCudaInfo* out);
/* memory: bytes to take at most, 0 for all that the device has. */
RD_DEVICE_API int32_t rd_cuda_open(int32_t index, uint64_t memory, RdDevice** out);

#endif
