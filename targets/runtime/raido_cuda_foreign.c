/* Streams and arrays of other libraries; raido_cuda.h says what each function promises.
 *
 * All of raido's work on a device stands in one stream. Another library's stream is ordered with it by an event: recorded in the one,
 * waited for in the other, so the CPU never waits.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "raido_cuda_inside.h"

#define ALIGNMENT ((uint64_t)16) /* of what a thread reads at once */

/* ---------------------------------------------------------------- streams */

static CUstream stream_at(uint64_t handle) { return (CUstream)(uintptr_t)handle; }

static int32_t no_stream(RdDevice* d, CUresult result, uint64_t stream) {
  if (result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return rd_cuda_failed(d, result, "ordering streams");
  return rd_fail(RD_FAILED, "0x%llx is not a stream of %s", (unsigned long long)stream, d->info.name);
}

/* Refuses a stream that is being recorded: what raido launches behind it would be recorded, and not run. */
static int32_t not_recorded(RdDevice* d, CUstream stream) {
  int recorded = 0;
  CUresult result = cu.StreamIsCapturing(stream, &recorded);
  if (result != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT && (result != CUDA_SUCCESS || !recorded)) return 0;
  return rd_fail(RD_FAILED, "a stream is being recorded as a CUDA graph, and work of raido on %s cannot be a part of it", d->info.name);
}

/* What is in `first` now comes before what `second` is given from now on; one of them is a caller's. */
static int32_t put_in_order(RdDevice* d, CUstream first, CUstream second, uint64_t given) {
  RD_PASS(rd_cuda_usable(d));
  if (first == second) return 0;
  RD_PASS(not_recorded(d, stream_at(given)));
  if (!d->order) TRY(d, cu.EventCreate(&d->order, CU_EVENT_DISABLE_TIMING), "making an event");
  CUresult result = cu.EventRecord(d->order, first);
  if (result == CUDA_SUCCESS) result = cu.StreamWaitEvent(second, d->order, 0);
  return result == CUDA_SUCCESS ? 0 : no_stream(d, result, given);
}

int32_t rd_cuda_wait_for(RdDevice* device, uint64_t stream) {
  INSIDE(device, put_in_order(device, stream_at(stream), device->stream, stream));
}

int32_t rd_cuda_let_wait(RdDevice* device, uint64_t stream) {
  INSIDE(device, put_in_order(device, device->stream, stream_at(stream), stream));
}

uint64_t rd_cuda_stream(RdDevice* device) { return (uint64_t)(uintptr_t)device->stream; }

/* ---------------------------------------------------------------- moments, any number of them */

static int32_t record_moment(RdDevice* d, void** out) {
  CUevent event = NULL;
  RD_PASS(rd_cuda_usable(d));
  TRY(d, cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
  CUresult result = cu.EventRecord(event, d->stream);
  if (result != CUDA_SUCCESS) {
    cu.EventDestroy(event);
    return rd_cuda_failed(d, result, "recording an event");
  }
  *out = event;
  return 0;
}

static int32_t has_passed(RdDevice* d, void* moment) {
  RD_PASS(rd_cuda_usable(d));
  CUresult result = cu.EventQuery(moment);
  if (result == CUDA_ERROR_NOT_READY) return RD_BUSY;
  if (result != CUDA_SUCCESS) return rd_cuda_failed(d, result, "running a kernel");
  cu.EventDestroy(moment);
  return 0;
}

int32_t rd_cuda_record(RdDevice* device, void** out) { INSIDE(device, record_moment(device, out)); }
int32_t rd_cuda_passed(RdDevice* device, void* moment) { INSIDE(device, has_passed(device, moment)); }

/* ---------------------------------------------------------------- memory */

static int32_t check_address(RdDevice* d, uint64_t address) {
  int ordinal = -1;
  if (address % ALIGNMENT)
    return rd_fail(RD_FAILED, "its address, 0x%llx, is not a multiple of %llu bytes", (unsigned long long)address,
                   (unsigned long long)ALIGNMENT);
  CUresult result = cu.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return rd_fail(RD_FAILED, "its address, 0x%llx, is not in the memory of a CUDA device", (unsigned long long)address);
  if (result != CUDA_SUCCESS) return rd_cuda_failed(d, result, "looking for memory");
  if (ordinal == d->device) return 0;
  return rd_fail(RD_FAILED, "it is on cuda:%d, and the program runs on cuda:%d", ordinal, d->device);
}

static int32_t adopt(RdDevice* d, uint64_t address, uint64_t bytes, RdBuffer** out) {
  RD_PASS(rd_cuda_usable(d));
  RD_PASS(not_recorded(d, d->stream)); /* its library has ordered its own before it */
  if (bytes) RD_PASS(check_address(d, address)); /* an empty array may be anywhere */
  RdBuffer* buffer = calloc(1, sizeof *buffer);
  if (!buffer) return rd_fail(RD_NO_MEMORY, "no memory");
  buffer->device = d;
  buffer->address = address;
  buffer->bytes = bytes;
  buffer->foreign = 1;
  rd_cuda_link_buffer(&d->live, buffer);
  *out = buffer;
  return 0;
}

static int32_t share(RdBuffer* buffer, uint64_t* address) {
  RD_PASS(rd_cuda_usable(buffer->device));
  buffer->shared = 1;
  *address = buffer->address;
  return 0;
}

int32_t rd_cuda_adopt(RdDevice* device, uint64_t address, uint64_t bytes, RdBuffer** out) {
  INSIDE(device, adopt(device, address, bytes, out));
}

int32_t rd_cuda_share(RdBuffer* buffer, uint64_t* address) { INSIDE(buffer->device, share(buffer, address)); }

int32_t rd_cuda_overlap(const RdBuffer* first, const RdBuffer* second) {
  return first->address < second->address + second->bytes && second->address < first->address + first->bytes;
}
