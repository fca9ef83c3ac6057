/* The small runtime that compiled raido programs call: threads, copies, memory, faults, tickets.
 *
 * C11, libc and pthreads only, no Python and no TVM.  It is built twice from the same source: once as a shared library
 * beside the Python package (RAIDO_SHARED_RUNTIME: the functions below are visible), and once inside every exported
 * library (everything hidden, so that two libraries in one process never share or clash).
 */
#ifndef RAIDO_RUNTIME_H
#define RAIDO_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(RAIDO_SHARED_RUNTIME)
#define RD_API __attribute__((visibility("default")))
#else
#define RD_API __attribute__((visibility("hidden")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RD_RUNTIME_VERSION 1

/* The first failure of a call.  kind == 0: none.  values: what the message needs (index and size, numerator, ...). */
typedef struct RdFault {
  int32_t kind;
  int32_t site;
  int64_t values[4];
} RdFault;

/* What a task of a parallel loop sees; the layout is fixed by the code generator. */
typedef struct RdTaskEnv {
  void* sync_handle;
  int32_t num_task;
} RdTaskEnv;
typedef int (*RdTask)(int task, RdTaskEnv* env, void* data);

RD_API int32_t rd_runtime_version(void);

/* --- threads --- */

/* Runs task 0 .. num_task-1 (0: as many as there are threads) on the pool, the caller among them; returns the first
 * non-zero value a task returned.  Inside a task, or while another thread holds the pool, the caller runs them all. */
RD_API int rd_parallel_launch(RdTask task, void* data, int num_task);
RD_API int rd_get_threads(void);
/* Threads of later launches of this process; n <= 0: RAIDO_NUM_THREADS, else the CPUs this process may use. */
RD_API void rd_set_threads(int n);
/* The same as an upper bound for launches by the calling thread only; 0: none.  Returns the bound before. */
RD_API int rd_set_thread_limit(int n);

/* memcpy by as many threads as the size is worth, one alone inside a task. */
RD_API void rd_copy(void* to, const void* from, uint64_t bytes);

/* --- tickets and ordered sections --- */

/* 0, 1, 2, ... to whoever asks; the counter starts at 0 and belongs to one parallel region. */
RD_API int64_t rd_next_ticket(int64_t* counter);
/* Waits until *turn == ticket.  A thread that took a ticket must pass it on with rd_ordered_done, whatever happens;
 * tickets are taken in order by running threads, so waiting cannot deadlock on any number of threads. */
RD_API void rd_ordered_wait(int64_t* turn, int64_t ticket);
RD_API void rd_ordered_done(int64_t* turn, int64_t ticket);

/* --- memory --- */

/* 64-byte aligned; from 4 MiB on 2 MiB-aligned, backed by huge pages, and recycled.  NULL when there is none left:
 * what the system would refuse malloc, and what is more than the limit of the process's control group.
 * Contents are arbitrary.  Any thread may free. */
RD_API void* rd_alloc(uint64_t bytes);
RD_API void rd_free(void* block);
/* Gives memory kept for reuse back to the system: the large blocks of the process, the small ones of this thread. */
RD_API void rd_trim(void);
RD_API uint64_t rd_cached_bytes(void);

/* --- faults and errors --- */

/* Records the first failure; later ones are dropped.  Returns 1, so that code may write `return rd_fault(...)`. */
RD_API int32_t rd_fault(RdFault* fault, int32_t kind, int32_t site, int64_t v0, int64_t v1, int64_t v2, int64_t v3);
/* The message of the last error that compiled code raised on this thread; "" when there was none. */
RD_API const char* rd_last_error(void);
RD_API void rd_clear_error(void);
RD_API void rd_set_error(const char* message);

/* --- names that the code generator calls --- */

RD_API void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
RD_API void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts);
RD_API extern int (*__TVMBackendParallelLaunch)(RdTask task, void* data, int num_task);
RD_API extern void* (*__TVMBackendAllocWorkspace)(int device, int id, uint64_t bytes, int dtype_code, int dtype_bits);
RD_API extern int (*__TVMBackendFreeWorkspace)(int device, int id, void* block);

#ifdef __cplusplus
}
#endif
#endif
