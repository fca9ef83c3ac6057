/* Launches that a plan repeats, recorded once as a CUDA graph; raido_device.h says what rd_device_repeat promises.
 *
 * The driver records by capture of the device's stream, in the same functions that launch. The device stays entered meanwhile, so nothing
 * of another thread is recorded.
 */
#include "raido_cuda_inside.h"

#define RECORDED 32         /* bodies in one recording */
#define WORTH (4 * RECORDED) /* bodies from which on a recording is made: it costs about as much as launching what is in it, and some more */

typedef int32_t (*Body)(void* context);

static int32_t run_body(Body body, void* context, uint64_t times) {
  for (; times; times--) RD_PASS(body(context));
  return 0;
}

static int32_t record(RdDevice* d, Body body, void* context, CUgraphExec* out) {
  CUgraph graph = NULL;
  TRY(d, cu.StreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "recording launches");
  int32_t code = run_body(body, context, RECORDED);
  CUresult result = cu.StreamEndCapture(d->stream, &graph); /* after a failure too: the stream records until then */
  if (!code && result == CUDA_SUCCESS) result = cu.GraphInstantiate(out, graph, 0);
  if (graph) cu.GraphDestroy(graph);
  if (code || result == CUDA_SUCCESS) return code;
  return rd_cuda_failed(d, result, "recording launches");
}

void rd_cuda_drop_recordings(RdDevice* d) {
  while (d->retired_count) cu.GraphExecDestroy(d->retired[--d->retired_count]);
}

static int32_t repeat(RdDevice* d, Body body, void* context, uint64_t times) {
  RD_PASS(rd_cuda_usable(d));
  if (times >= WORTH) {
    RD_PASS(body(context)); /* what it allocates is kept from then on: nothing is allocated in a recording */
    times--;
    if (d->retired_count == RD_CUDA_RETIRED) RD_PASS(rd_cuda_finish_all(d));
    CUgraphExec* recording = &d->retired[d->retired_count];
    RD_PASS(record(d, body, context, recording));
    d->retired_count++;
    for (; times >= RECORDED; times -= RECORDED) TRY(d, cu.GraphLaunch(*recording, d->stream), "launching kernels");
  }
  return run_body(body, context, times);
}

int32_t rd_device_repeat(RdDevice* device, Body body, void* context, uint64_t times) {
  INSIDE(device, repeat(device, body, context, times));
}
