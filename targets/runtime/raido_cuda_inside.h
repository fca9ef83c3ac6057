/* The parts of CUDA's runtime among themselves: the driver's functions, devices, buffers, and how a failure is said.
 *
 * Functions whose names begin with rd_cuda_ and that take a device expect it entered: its lock held, its context current.
 */
#ifndef RAIDO_CUDA_INSIDE_H
#define RAIDO_CUDA_INSIDE_H

#include <pthread.h>

#include "raido_cuda.h"
#include "raido_cuda_api.h"

#define RD_CUDA_SIZES 1024 /* sixteen sizes of arrays for each power of two */
#define RD_CUDA_MARKS 64
#define RD_CUDA_RETIRED 16 /* recordings that wait to be destroyed */

#define POINTER(name, symbol, parameters) CUresult (*name) parameters;
typedef struct RdCudaDriver {
  CUDA_FUNCTIONS(POINTER)
  int driver, count;
} RdCudaDriver;
#undef POINTER
RD_HIDDEN extern RdCudaDriver cu;

typedef struct Module {
  CUmodule module;
  uint64_t bytes, hash;
  uint32_t kernels;
  struct Module* next;
} Module;

/* foreign: memory of another library, which is never freed here. shared: another library has had the address. */
struct RdBuffer {
  RdDevice* device;
  CUdeviceptr address;
  uint64_t room, bytes;
  int foreign, shared;
  RdBuffer *next, *before;
};

struct RdDevice {
  pthread_mutex_t lock;
  RdCudaInfo info;
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent order; /* the moment that another stream waits for, or that is waited for in it */
  CUevent marks[RD_CUDA_MARKS];
  uint32_t marked, retired_count;
  int lost;
  uint64_t limit, taken, unsettled; /* unsettled: bytes in `shared` */
  RdBuffer *free[RD_CUDA_SIZES], *live;
  RdBuffer* shared; /* freed, but another library may still use them */
  RdKernel* kernels;
  Module* modules;
  CUgraphExec retired[RD_CUDA_RETIRED]; /* recordings that may still run */
};

/* The code and the sentence of a failure of the driver. */
RD_HIDDEN int32_t rd_cuda_failed(RdDevice* d, CUresult result, const char* doing);
/* RD_LOST where an earlier call has lost the device. */
RD_HIDDEN int32_t rd_cuda_usable(RdDevice* d);
/* Waits until all that was launched has run. */
RD_HIDDEN int32_t rd_cuda_finish_all(RdDevice* d);
RD_HIDDEN void rd_cuda_link_buffer(RdBuffer** list, RdBuffer* buffer);
RD_HIDDEN void rd_cuda_enter(RdDevice* d);
RD_HIDDEN void rd_cuda_leave(RdDevice* d);
/* Destroys the recordings that have run; everything launched has. */
RD_HIDDEN void rd_cuda_drop_recordings(RdDevice* d);

#define TRY(device, call, doing)                                                \
  do {                                                                          \
    CUresult result_ = (call);                                                  \
    if (result_ != CUDA_SUCCESS) return rd_cuda_failed(device, result_, doing); \
  } while (0)

#define INSIDE(device, call)      \
  do {                            \
    RdDevice* device_ = (device); \
    rd_cuda_enter(device_);       \
    int32_t code_ = (call);       \
    rd_cuda_leave(device_);       \
    return code_;                 \
  } while (0)

#endif
