/* CUDA's devices, by the driver API; raido_device.h says what is done with one.
 *
 * libcuda.so.1 is opened when it is first asked for.  A device works in its primary context, which other libraries of the process share,
 * and in a stream of its own, which is ordered with those of others by events.  A kernel that reads where nothing is ends the context for the whole process: RD_LOST, from then on.
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
enum { RD_CUDA_MACHINE_CODE, RD_CUDA_PTX, RD_CUDA_EXACT }; /* exact: machine code for this compute capability alone, as sm_90a */
typedef struct RdCudaTable {
  char magic[8];
  uint64_t count;
} RdCudaTable;
typedef struct RdCudaCode {
  uint32_t capability, kind; /* the compute capability that it is for, or from which on; RD_CUDA_MACHINE_CODE, … */
  uint64_t offset, bytes;
} RdCudaCode;

/* Opens the driver, once in a process. */
RD_DEVICE_API int32_t rd_cuda_start(void);
RD_DEVICE_API int32_t rd_cuda_count(void);
RD_DEVICE_API int32_t rd_cuda_describe(int32_t index, RdCudaInfo* out);
/* memory: bytes to take at most, 0 for all that the device has. */
RD_DEVICE_API int32_t rd_cuda_open(int32_t index, uint64_t memory, RdDevice** out);

/* The stream in which a device works. Streams are given by their handles; 0 and 1 are the default stream, 2 that of this thread. */
RD_DEVICE_API uint64_t rd_cuda_stream(RdDevice* device);
/* What is launched from now on waits for what is in the stream now. */
RD_DEVICE_API int32_t rd_cuda_wait_for(RdDevice* device, uint64_t stream);
/* What the stream is given from now on waits for what has been launched. */
RD_DEVICE_API int32_t rd_cuda_let_wait(RdDevice* device, uint64_t stream);
/* A moment after all that has been launched; it is kept until rd_cuda_passed answers 0 for it: everything before it has run (RD_BUSY: not yet). */
RD_DEVICE_API int32_t rd_cuda_record(RdDevice* device, void** out);
RD_DEVICE_API int32_t rd_cuda_passed(RdDevice* device, void* moment);
/* Memory of another library as a buffer, which must be there as long as launches use it. RD_FAILED for an address that is of no CUDA
 * device, of another one, or not aligned to 16 bytes, as kernels read. */
RD_DEVICE_API int32_t rd_cuda_adopt(RdDevice* device, uint64_t address, uint64_t bytes, RdBuffer** out);
/* The address of a buffer, for another library: once freed it is not used again before the whole device has been waited for. */
RD_DEVICE_API int32_t rd_cuda_share(RdBuffer* buffer, uint64_t* address);
/* Whether two buffers have bytes in common. */
RD_DEVICE_API int32_t rd_cuda_overlap(const RdBuffer* first, const RdBuffer* second);

#endif
