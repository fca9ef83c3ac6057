/* The runtime of compiled programs; raido_runtime.h says what each function promises.
 *
 * The pool.  One word, the gate, says everything about the launch in progress: its generation, whether workers may
 * still enter, for how many there is room, how many are inside.  A worker enters by compare-and-swap and leaves by decrement;
 * the launching thread takes tasks too, closes the gate when tasks run out, and waits only for those inside.  A worker
 * that wakes late finds the gate closed, so a short launch never waits for a sleeping thread.
 * Waiting is first a bounded spin (launches in quick succession cost about a microsecond), then a condition variable.
 */
#define _GNU_SOURCE
#include "raido_runtime.h"
#include "raido_runtime_limit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define MAX_THREADS 1024
#define MESSAGE_BYTES 512
#define SPIN_NANOSECONDS 50000
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_HALF(word) ((uint32_t*)(word))
#else
#define LOW_HALF(word) ((uint32_t*)(word) + 1)
#endif

/* What every launch and allocation reads of its thread. The initial-exec model spares calls of __tls_get_addr, but a library that is loaded
 * late finds room for a few hundred bytes of thread-local variables beside those of others: so it is used in raido's own library alone, not
 * in each that was exported, and what is larger is in memory, for a thread that needs it. */
#if defined(RAIDO_SHARED_RUNTIME) && defined(__GLIBC__)
#define OF_THREAD _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define OF_THREAD _Thread_local
#endif
#define SMALL_SLOTS 16

typedef struct Kept {
  char error[MESSAGE_BYTES];
  int count; /* small blocks that it has freed, oldest first */
  size_t bytes;
  void* slots[SMALL_SLOTS];
} Kept;

static OF_THREAD int inside_task;
static OF_THREAD int thread_limit;
static OF_THREAD Kept* kept;
static OF_THREAD const char* error; /* NULL: none */
static pthread_key_t kept_key;

/* Those of this thread; its end gives them back. NULL without memory. */
static Kept* own_kept(void) {
  if (kept) return kept;
  Kept* made = calloc(1, sizeof *made);
  if (made && pthread_setspecific(kept_key, made)) free(made), made = NULL;
  return kept = made;
}

int32_t rd_runtime_version(void) { return RD_RUNTIME_VERSION; }

/* ---------------------------------------------------------------- waiting */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int count_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* ---------------------------------------------------------------- pool */

#define OPEN_BIT ((uint64_t)1 << 31)
#define ONE_ROOM ((uint64_t)1 << 16)
#define ROOM_OF(gate) (((gate) >> 16) & 0x7fff)
#define INSIDE_OF(gate) ((gate) & 0xffff)
#define GENERATION_OF(gate) ((uint32_t)((gate) >> 32))

static struct Pool {
  _Alignas(64) _Atomic uint64_t gate; /* generation:32 open:1 room:15 inside:16 */
  _Alignas(64) _Atomic int64_t next;  /* the next task */
  _Alignas(64) RdTask task;           /* the launch: written before the gate opens, read by those inside */
  void* data;
  RdTaskEnv env;
  _Atomic int status; /* the first non-zero return */
  char message[MESSAGE_BYTES];
  _Alignas(64) atomic_flag busy; /* held by the launching thread */
  int workers, spawn_failed;     /* guarded by busy */
  _Atomic int sleepers, owner_sleeps, may_spin;
  pthread_mutex_t lock;
  pthread_cond_t work, finished;
} pool = {.busy = ATOMIC_FLAG_INIT,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER};

static _Atomic int wanted_threads; /* 0: not decided yet */
static _Atomic int known_cpus;

static int default_threads(void) {
  const char* text = getenv("RAIDO_NUM_THREADS");
  int n = text ? atoi(text) : 0;
  if (n <= 0) n = count_cpus();
  return n > MAX_THREADS ? MAX_THREADS : n;
}

void rd_set_threads(int n) {
  atomic_store(&wanted_threads, n <= 0 ? default_threads() : n > MAX_THREADS ? MAX_THREADS : n);
}

int rd_get_threads(void) {
  int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
  if (n == 0) {
    rd_set_threads(0);
    n = atomic_load(&wanted_threads);
  }
  return thread_limit > 0 && thread_limit < n ? thread_limit : n;
}

int rd_set_thread_limit(int n) {
  int before = thread_limit;
  thread_limit = n > 0 ? n : 0;
  return before;
}

/* Takes tasks until there are none; after a failure the rest are skipped. */
static void run_tasks(void) {
  int64_t count = pool.env.num_task;
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
    if (task >= count || atomic_load_explicit(&pool.status, memory_order_relaxed)) return;
    int status = pool.task((int)task, &pool.env, pool.data), none = 0;
    if (status && atomic_compare_exchange_strong(&pool.status, &none, status))
      snprintf(pool.message, MESSAGE_BYTES, "%s", rd_last_error());
  }
}

/* Enters the launch in progress unless it is closed, full, or the one `seen` already. */
static int enter(uint32_t* seen) {
  uint64_t gate = atomic_load(&pool.gate);
  while ((gate & OPEN_BIT) && GENERATION_OF(gate) != *seen) {
    if (ROOM_OF(gate) == 0) {
      *seen = GENERATION_OF(gate);
      return 0;
    }
    if (atomic_compare_exchange_weak(&pool.gate, &gate, gate - ONE_ROOM + 1)) {
      *seen = GENERATION_OF(gate);
      return 1;
    }
  }
  return 0;
}

static void leave(void) {
  uint64_t before = atomic_fetch_sub(&pool.gate, 1);
  if (!(before & OPEN_BIT) && INSIDE_OF(before) == 1 && atomic_load(&pool.owner_sleeps)) {
    pthread_mutex_lock(&pool.lock);
    pthread_cond_signal(&pool.finished);
    pthread_mutex_unlock(&pool.lock);
  }
}

static void* worker(void* unused) {
  (void)unused;
  uint32_t seen = 0;
  inside_task = 1;
  for (;;) {
    int64_t deadline = 0;
    int entered = 0;
    for (unsigned round = 1; !(entered = enter(&seen)); round++) {
      if (!atomic_load_explicit(&pool.may_spin, memory_order_relaxed)) break;
      relax();
      if (round % 64 == 0) {
        int64_t now = nanoseconds();
        if (deadline == 0) deadline = now + SPIN_NANOSECONDS;
        if (now > deadline) break;
      }
    }
    if (!entered) {
      pthread_mutex_lock(&pool.lock);
      atomic_fetch_add(&pool.sleepers, 1); /* before the gate is read again: a launch either sees us or we see it */
      while (!(entered = enter(&seen))) pthread_cond_wait(&pool.work, &pool.lock);
      atomic_fetch_sub(&pool.sleepers, 1);
      pthread_mutex_unlock(&pool.lock);
    }
    rd_clear_error();
    run_tasks();
    leave();
  }
  return NULL;
}

/* Starts workers up to `count`; called by the holder of busy. They take no signals: those belong to the host. */
static void start_workers(int count) {
  if (pool.workers >= count || pool.spawn_failed) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (pool.workers < count) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, worker, NULL)) {
      pool.spawn_failed = 1;
      break;
    }
    pool.workers++;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wake_workers(int count) {
  int asleep = atomic_load(&pool.sleepers);
  if (asleep == 0) return;
  pthread_mutex_lock(&pool.lock);
  if (count >= asleep) {
    pthread_cond_broadcast(&pool.work);
  } else {
    while (count-- > 0) pthread_cond_signal(&pool.work);
  }
  pthread_mutex_unlock(&pool.lock);
}

static void wait_for_workers(void) {
  int64_t deadline = 0;
  for (unsigned round = 1; INSIDE_OF(atomic_load(&pool.gate)); round++) {
    relax();
    if (round % 64) continue;
    int64_t now = nanoseconds();
    if (deadline == 0) deadline = now + SPIN_NANOSECONDS;
    if (now < deadline && atomic_load_explicit(&pool.may_spin, memory_order_relaxed)) continue;
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.owner_sleeps, 1);
    while (INSIDE_OF(atomic_load(&pool.gate))) pthread_cond_wait(&pool.finished, &pool.lock);
    atomic_store(&pool.owner_sleeps, 0);
    pthread_mutex_unlock(&pool.lock);
    return;
  }
}

static int launch_alone(RdTask task, void* data, int count) {
  RdTaskEnv env = {NULL, count};
  int outer = inside_task, status = 0;
  inside_task = 1;
  for (int i = 0; i < count && !status; i++) status = task(i, &env, data);
  inside_task = outer;
  return status;
}

int rd_parallel_launch(RdTask task, void* data, int num_task) {
  int threads = inside_task ? 1 : rd_get_threads();
  int count = num_task > 0 ? num_task : threads;
  if (threads == 1 || count == 1) return launch_alone(task, data, count);
  if (atomic_flag_test_and_set_explicit(&pool.busy, memory_order_acquire))
    return launch_alone(task, data, num_task > 0 ? count : 1);
  int cpus = atomic_load_explicit(&known_cpus, memory_order_relaxed);
  if (cpus == 0) {
    cpus = count_cpus();
    atomic_store(&known_cpus, cpus);
  }
  int helpers = (threads < count ? threads : count) - 1;
  start_workers(helpers);
  if (helpers > pool.workers) helpers = pool.workers;
  atomic_store_explicit(&pool.may_spin, threads <= cpus, memory_order_relaxed);
  pool.task = task;
  pool.data = data;
  pool.env.num_task = count;
  atomic_store_explicit(&pool.status, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
  uint64_t generation = GENERATION_OF(atomic_load_explicit(&pool.gate, memory_order_relaxed)) + 1u;
  if ((uint32_t)generation == 0) generation = 1; /* 0 is what a new worker has seen */
  atomic_store(&pool.gate, (uint64_t)(uint32_t)generation << 32 | OPEN_BIT | (uint64_t)helpers << 16);
  wake_workers(helpers);
  rd_clear_error();
  inside_task = 1;
  run_tasks();
  inside_task = 0;
  atomic_fetch_and(&pool.gate, ~OPEN_BIT);
  wait_for_workers();
  int status = atomic_load_explicit(&pool.status, memory_order_relaxed);
  if (status) rd_set_error(pool.message);
  atomic_flag_clear_explicit(&pool.busy, memory_order_release);
  return status;
}

/* ---------------------------------------------------------------- copies */

#define COPY_SHARE ((uint64_t)1 << 20) /* bytes, some 100 us of one thread: several times what it takes to wake another */

typedef struct {
  char* to;
  const char* from;
  uint64_t bytes;
} Copy;

static int copy_share(int task, RdTaskEnv* env, void* data) {
  const Copy* copy = data;
  uint64_t share = copy->bytes / (uint64_t)env->num_task & ~(uint64_t)63, begin = share * (uint64_t)task;
  memcpy(copy->to + begin, copy->from + begin, task + 1 < env->num_task ? share : copy->bytes - begin);
  return 0;
}

void rd_copy(void* to, const void* from, uint64_t bytes) {
  Copy copy = {to, from, bytes};
  uint64_t shares = bytes / COPY_SHARE, threads = (uint64_t)rd_get_threads();
  if (shares < 2 || threads < 2)
    memcpy(to, from, bytes);
  else
    rd_parallel_launch(copy_share, &copy, (int)(shares < threads ? shares : threads));
}

/* ---------------------------------------------------------------- tickets */

int64_t rd_next_ticket(int64_t* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

static _Atomic int turn_sleepers; /* of all loops of the process */

#ifdef __linux__
/* Sleeps while the turn is `seen`; woken by whoever makes it the ticket's. */
static void sleep_until_turn(int64_t* turn, int64_t seen, int64_t ticket) {
  syscall(SYS_futex, LOW_HALF(turn), FUTEX_WAIT_BITSET_PRIVATE, (uint32_t)seen, NULL, NULL, 1u << (ticket & 31));
}
static void wake_turn(int64_t* turn, int64_t ticket) {
  syscall(SYS_futex, LOW_HALF(turn), FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, NULL, NULL, 1u << (ticket & 31));
}
#else
static void sleep_until_turn(int64_t* turn, int64_t seen, int64_t ticket) {
  struct timespec pause = {0, 20000};
  (void)turn, (void)seen, (void)ticket;
  nanosleep(&pause, NULL);
}
static void wake_turn(int64_t* turn, int64_t ticket) { (void)turn, (void)ticket; }
#endif

void rd_ordered_wait(int64_t* turn, int64_t ticket) {
  int spins = atomic_load_explicit(&pool.may_spin, memory_order_relaxed) ? 1000 : 300;
  for (int round = 0; round < spins; round++) {
    if (__atomic_load_n(turn, __ATOMIC_ACQUIRE) == ticket) return;
    relax();
  }
  /* The predecessor has much work, or no processor. Yielding would leave ours to other processes for a whole slice. */
  atomic_fetch_add(&turn_sleepers, 1); /* before the turn is read again: whoever passes it on either sees us or we see it */
  for (int64_t seen; (seen = __atomic_load_n(turn, __ATOMIC_SEQ_CST)) != ticket;) sleep_until_turn(turn, seen, ticket);
  atomic_fetch_sub(&turn_sleepers, 1);
}

void rd_ordered_done(int64_t* turn, int64_t ticket) {
  __atomic_store_n(turn, ticket + 1, __ATOMIC_SEQ_CST);
  if (atomic_load(&turn_sleepers)) wake_turn(turn, ticket + 1);
}

/* ---------------------------------------------------------------- memory */

#define ALIGNMENT 64
#define HUGE_PAGE ((size_t)2 << 20)
#define LARGE_BLOCK ((size_t)4 << 20)
#define SMALL_BYTES ((size_t)16 << 20)
#define LARGE_SLOTS 64
#define HUGE_BLOCK ((size_t)1 << 30) /* takes 100 ms to fill: reading the limit of memory first takes 0.1 ms */

typedef struct Header { /* in the 64 bytes before a block */
  size_t capacity;
  void* base;
  size_t mapped; /* 0: from malloc */
} Header;
typedef char header_fits[sizeof(Header) <= ALIGNMENT ? 1 : -1];

/* Oldest first.  Small blocks are kept for each thread (`Kept`), large ones for the process, under a lock. */
static struct { int count; size_t bytes, limit; void* slots[LARGE_SLOTS]; } large;
static pthread_mutex_t large_lock = PTHREAD_MUTEX_INITIALIZER;

static Header* header_of(void* block) { return (Header*)((char*)block - ALIGNMENT); }

static void* take(void** slots, int* count, size_t* bytes, int index) {
  void* block = slots[index];
  *count -= 1;
  if (index < *count) memmove(slots + index, slots + index + 1, (size_t)(*count - index) * sizeof *slots);
  *bytes -= header_of(block)->capacity;
  return block;
}

static void release(void* block) {
  Header* header = header_of(block);
  if (header->mapped) {
    munmap(header->base, header->mapped);
  } else {
    free(header->base);
  }
}

static void* map_block(size_t bytes) {
  char *base, *block;
  size_t capacity, mapped = 0;
  if (bytes >= LARGE_BLOCK) {
    if (bytes >= HUGE_BLOCK && bytes > memory_limit()) return NULL;
    capacity = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    mapped = capacity + HUGE_PAGE + 4096; /* room to align, and a page for the header */
    /* Accounted for, unlike with MAP_NORESERVE: what the kernel would refuse malloc it refuses us, rather than kill us later. */
    base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    block = (char*)(((uintptr_t)base + 4096 + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
#ifdef MADV_HUGEPAGE
    madvise(block, capacity, MADV_HUGEPAGE);
#endif
  } else {
    void* memory;
    capacity = (bytes + 255) & ~(size_t)255;
    if (posix_memalign(&memory, ALIGNMENT, capacity + ALIGNMENT)) return NULL;
    base = memory;
    block = base + ALIGNMENT;
  }
  *header_of(block) = (Header){capacity, base, mapped};
  return block;
}

/* New memory; where there is none, what is kept for reuse goes back first. */
static void* obtain(size_t bytes) {
  void* block = map_block(bytes);
  if (block || !rd_cached_bytes()) return block;
  rd_trim();
  return map_block(bytes);
}

void* rd_alloc(uint64_t requested) {
  if (requested > (uint64_t)1 << 62) return NULL;
  size_t bytes = requested ? (size_t)requested : 1;
  void* block = NULL;
  if (bytes < LARGE_BLOCK) {
    Kept* own = kept;
    for (int i = own ? own->count - 1 : -1; i >= 0; i--) { /* the last freed is the warmest */
      size_t capacity = header_of(own->slots[i])->capacity;
      if (capacity >= bytes && capacity <= 2 * bytes + 4096) return take(own->slots, &own->count, &own->bytes, i);
    }
    return obtain(bytes);
  }
  pthread_mutex_lock(&large_lock);
  int best = -1;
  size_t best_capacity = bytes + bytes / 4 + HUGE_PAGE;
  for (int i = large.count - 1; i >= 0; i--) {
    size_t capacity = header_of(large.slots[i])->capacity;
    if (capacity >= bytes && capacity < best_capacity) best = i, best_capacity = capacity;
  }
  if (best >= 0) block = take(large.slots, &large.count, &large.bytes, best);
  pthread_mutex_unlock(&large_lock);
  return block ? block : obtain(bytes);
}

static void free_large(void* block) {
  size_t capacity = header_of(block)->capacity;
#ifdef MADV_FREE
  madvise(block, capacity, MADV_FREE); /* still ours to reuse without a page fault, the system's when it runs short */
#endif
  void* dropped[LARGE_SLOTS + 1];
  int drops = 0;
  pthread_mutex_lock(&large_lock);
  if (large.limit == 0) {
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    large.limit = memory / 16 > LARGE_BLOCK ? memory / 16 : LARGE_BLOCK;
  }
  if (capacity > large.limit) {
    dropped[drops++] = block;
  } else {
    while (large.count == LARGE_SLOTS || large.bytes + capacity > large.limit)
      dropped[drops++] = take(large.slots, &large.count, &large.bytes, 0);
    large.slots[large.count++] = block;
    large.bytes += capacity;
  }
  pthread_mutex_unlock(&large_lock);
  while (drops) release(dropped[--drops]);
}

void rd_free(void* block) {
  if (!block) return;
  size_t capacity = header_of(block)->capacity;
  if (header_of(block)->mapped) {
    free_large(block);
    return;
  }
  Kept* own = own_kept();
  if (!own) {
    release(block);
    return;
  }
  while (own->count == SMALL_SLOTS || (own->count && own->bytes + capacity > SMALL_BYTES))
    release(take(own->slots, &own->count, &own->bytes, 0));
  own->slots[own->count++] = block;
  own->bytes += capacity;
}

static void trim_small(Kept* own) {
  while (own->count) release(take(own->slots, &own->count, &own->bytes, own->count - 1));
}

static void end_thread(void* own) {
  trim_small(own);
  kept = NULL;
  error = NULL;
  free(own);
}

void rd_trim(void) {
  if (kept) trim_small(kept);
  pthread_mutex_lock(&large_lock);
  while (large.count) release(take(large.slots, &large.count, &large.bytes, large.count - 1));
  pthread_mutex_unlock(&large_lock);
}

uint64_t rd_cached_bytes(void) {
  pthread_mutex_lock(&large_lock);
  uint64_t bytes = large.bytes + (kept ? kept->bytes : 0);
  pthread_mutex_unlock(&large_lock);
  return bytes;
}

/* ---------------------------------------------------------------- faults and errors */

int32_t rd_fault(RdFault* fault, int32_t kind, int32_t site, int64_t v0, int64_t v1, int64_t v2, int64_t v3) {
  int32_t none = 0;
  if (__atomic_compare_exchange_n(&fault->kind, &none, kind, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    fault->site = site; /* read only after the launch has been joined */
    fault->values[0] = v0;
    fault->values[1] = v1;
    fault->values[2] = v2;
    fault->values[3] = v3;
  }
  return 1;
}

const char* rd_last_error(void) { return error ? error : ""; }
void rd_clear_error(void) { error = NULL; }

void rd_set_error(const char* message) {
  Kept* own = own_kept();
  if (own) snprintf(own->error, MESSAGE_BYTES, "%s", message);
  error = own ? own->error : "out of memory";
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts) {
  char message[MESSAGE_BYTES];
  int used = snprintf(message, MESSAGE_BYTES, "%s: ", kind);
  for (int32_t i = 0; i < num_parts && used < MESSAGE_BYTES; i++)
    used += snprintf(message + used, (size_t)(MESSAGE_BYTES - used), "%s", parts[i]);
  rd_set_error(message);
}

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}

static void* alloc_workspace(int device, int id, uint64_t bytes, int dtype_code, int dtype_bits) {
  (void)device, (void)id, (void)dtype_code, (void)dtype_bits;
  return rd_alloc(bytes);
}

static int free_workspace(int device, int id, void* block) {
  (void)device, (void)id;
  rd_free(block);
  return 0;
}

int (*__TVMBackendParallelLaunch)(RdTask, void*, int) = rd_parallel_launch;
void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = alloc_workspace;
int (*__TVMBackendFreeWorkspace)(int, int, void*) = free_workspace;

/* ---------------------------------------------------------------- fork */

static void before_fork(void) { pthread_mutex_lock(&large_lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&large_lock); }

/* Only the forking thread lives on: the pool starts anew, whatever it was doing. */
static void after_fork_in_child(void) {
  pthread_mutex_unlock(&large_lock);
  atomic_store(&pool.gate, 0);
  atomic_store(&pool.sleepers, 0);
  atomic_store(&turn_sleepers, 0);
  atomic_store(&pool.owner_sleeps, 0);
  pool.workers = pool.spawn_failed = 0;
  pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  pool.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  pool.finished = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  atomic_flag_clear(&pool.busy);
}

__attribute__((constructor)) static void start_runtime(void) {
  pthread_key_create(&kept_key, end_thread);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

#ifdef RAIDO_SHARED_RUNTIME
/* Lets the ordinary machinery for extension modules build and install this file, which ctypes loads. */
RD_API void* PyInit__runtime(void);
RD_API void* PyInit__runtime(void) { return NULL; }
#endif
