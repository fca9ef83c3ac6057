/* What raido uses of the CUDA driver API: declarations of its own, so that it is built without NVIDIA's headers.
 *
 * Names and numbers are those of the CUDA Driver API, version 12.0; every function is found by name in libcuda.so.1.
 */
#ifndef RAIDO_CUDA_API_H
#define RAIDO_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t CUresult;
typedef int32_t CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
};

enum {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2, /* y and z follow */
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,  /* y and z follow */
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum { CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum { CU_STREAM_NON_BLOCKING = 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 };
#define CU_LAUNCH_PARAM_END ((void*)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void*)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void*)2)

typedef struct CUuuid {
  uint8_t bytes[16];
} CUuuid;

/* Each function: result, name in C, name in the library, parameters. */
#define CUDA_FUNCTIONS(X)                                                                                            \
  X(Init, "cuInit", (unsigned))                                                                                      \
  X(DriverGetVersion, "cuDriverGetVersion", (int*))                                                                  \
  X(GetErrorName, "cuGetErrorName", (CUresult, const char**))                                                        \
  X(GetErrorString, "cuGetErrorString", (CUresult, const char**))                                                    \
  X(DeviceGetCount, "cuDeviceGetCount", (int*))                                                                      \
  X(DeviceGet, "cuDeviceGet", (CUdevice*, int))                                                                      \
  X(DeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                                        \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid*, CUdevice))                                                        \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                                                      \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                               \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                            \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                                   \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                                                              \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext*))                                                               \
  X(CtxSynchronize, "cuCtxSynchronize", (void))                                                                      \
  X(StreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                                           \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                                 \
  X(StreamQuery, "cuStreamQuery", (CUstream))                                                                        \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream))                                                            \
  X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                             \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                                                  \
  X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream, int*))                                                      \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                                                    \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))                    \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                           \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                           \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph))                                                                       \
  X(PointerGetAttribute, "cuPointerGetAttribute", (void*, int, CUdeviceptr))                                         \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                                               \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr))                                                                          \
  X(MemcpyHtoD, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))                                \
  X(MemcpyDtoH, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                                      \
  X(MemcpyDtoD, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                \
  X(ModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                                                    \
  X(ModuleUnload, "cuModuleUnload", (CUmodule))                                                                      \
  X(ModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                                  \
  X(FuncGetAttribute, "cuFuncGetAttribute", (int*, int, CUfunction))                                                 \
  X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))                                                  \
  X(LaunchKernel, "cuLaunchKernel",                                                                                  \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**))    \
  X(EventCreate, "cuEventCreate", (CUevent*, unsigned))                                                              \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent))                                                                    \
  X(EventRecord, "cuEventRecord", (CUevent, CUstream))                                                               \
  X(EventQuery, "cuEventQuery", (CUevent))                                                                           \
  X(EventSynchronize, "cuEventSynchronize", (CUevent))                                                               \
  X(EventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))

#endif
