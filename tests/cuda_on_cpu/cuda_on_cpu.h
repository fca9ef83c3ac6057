// CUDA C on a processor: what generated kernels mean, thread by thread, without a GPU.
//
// A text of kernels is compiled as C++ behind this header (cuda_twin.py). A thread of a block is a fiber; barriers and shuffles switch
// fibers, in an order drawn anew between barriers, so that a missing barrier is a wrong answer. Blocks run in an order drawn too, one
// after another or several in flight, each on a thread of the machine with shared memory of its own, which begins as rubbish.
// Blocks that wait for others go on as these do: on another thread of the machine, or done before, where numbers are drawn.
// Not covered: weak memory order (atomics are sequentially consistent), PTX, blocks that wait for blocks which have not begun, speed.
#pragma once
#define RAIDO_ON_CPU
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

// --- numbers

namespace on_cpu {
template <class T, class U> T bits(U value) {
  static_assert(sizeof(T) == sizeof(U), "the same width");
  T result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}
}  // namespace on_cpu
inline int __float_as_int(float v) { return on_cpu::bits<int>(v); }
inline unsigned __float_as_uint(float v) { return on_cpu::bits<unsigned>(v); }
inline float __uint_as_float(unsigned v) { return on_cpu::bits<float>(v); }
inline long long __double_as_longlong(double v) { return on_cpu::bits<long long>(v); }
inline double __longlong_as_double(long long v) { return on_cpu::bits<double>(v); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline float raido_widen(unsigned short a) { return (float)on_cpu::bits<_Float16>(a); }
inline unsigned short raido_narrow(float a) { return on_cpu::bits<unsigned short>((_Float16)a); }
inline unsigned short raido_narrow(double a) { return on_cpu::bits<unsigned short>((_Float16)a); }

// --- the threads of a block

namespace on_cpu {
enum Waits { nothing, barrier, warp };
constexpr size_t stack_bytes = 1 << 18, guard_bytes = 1 << 12;

// A stack below which lies a page that nothing may touch.
struct Stack {
  char* base = nullptr;
  void take() {
    base = (char*)mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base, guard_bytes, PROT_NONE)) std::abort();
  }
  ~Stack() {
    if (base) munmap(base, guard_bytes + stack_bytes);
  }
};
// A copy to shared memory that has begun, and 0xff in its place meanwhile: it arrives as late as it may.
struct Coming {
  void* to;
  const void* from;
  size_t bytes;
};
using Sum = float (*)(float, unsigned long long, unsigned long long, int, int);
// A product that an instruction of a warpgroup has begun to add to a sum.
struct Product {
  float* sum;
  Sum add;
  uint64_t a, b;
  int row, column;
};
struct Fiber {
  std::vector<std::vector<Coming>> groups;
  std::vector<Product> products;
  std::map<float*, float> sums;
  size_t committed = 0;
  bool fenced = false, shown = false, seen = false;
  ucontext_t begin;
  jmp_buf at;
  Stack stack;
  bool begun = false, done = true;
  Waits waits = nothing;
  dim3 id;
};
constexpr int most_threads = 1024, warp_size = 32;
constexpr size_t shared_bytes = 232448;
inline thread_local Fiber fibers[most_threads];
inline thread_local jmp_buf scheduler;
inline thread_local int now, threads;
inline thread_local const std::function<void()>* body;
inline thread_local uint64_t slots[most_threads];
alignas(128) inline thread_local unsigned char shared[shared_bytes];

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "cuda_on_cpu: %s\n", what);
  std::abort();
}

// Goes back to the scheduler, and returns when this fiber is taken again.
inline void rest() {
  if (!_setjmp(fibers[now].at)) _longjmp(scheduler, 1);
}
inline void wait(Waits why) {
  fibers[now].waits = why;
  rest();
}

// A fiber runs one thread after another: its stack is made once.
inline void run_threads() {
  for (;;) {
    (*body)();
    fibers[now].done = true;
    rest();
  }
}

inline void take(int which) {
  Fiber& fiber = fibers[which];
  now = which;
  threadIdx = fiber.id;
  if (_setjmp(scheduler)) return;
  if (fiber.begun) _longjmp(fiber.at, 1);
  fiber.begun = true;
  setcontext(&fiber.begin);
  fail("a fiber does not begin");
}

inline void prepare(int which, dim3 size) {
  Fiber& fiber = fibers[which];
  fiber.done = false;
  fiber.groups.assign(1, {});
  fiber.products.clear(), fiber.sums.clear();
  fiber.committed = 0, fiber.fenced = fiber.shown = fiber.seen = false;
  fiber.waits = nothing;
  fiber.id = {which % size.x, which / size.x % size.y, which / (size.x * size.y)};
  if (fiber.begun || fiber.stack.base) return;
  fiber.stack.take();
  getcontext(&fiber.begin);
  fiber.begin.uc_stack.ss_sp = fiber.stack.base + guard_bytes;
  fiber.begin.uc_stack.ss_size = stack_bytes;
  fiber.begin.uc_link = nullptr;
  makecontext(&fiber.begin, run_threads, 0);
}

// Lets go what has come together: the threads of a warp in a shuffle, those of the block at a barrier. False where nothing can go on.
inline bool release() {
  bool moved = false;
  int waiting = 0, done = 0;
  for (int first = 0; first < threads; first += warp_size) {
    int end = std::min(first + warp_size, threads), here = 0, gone = 0;
    for (int k = first; k < end; ++k) here += fibers[k].waits == warp, gone += fibers[k].done;
    if (here && here + gone == end - first) {
      for (int k = first; k < end; ++k) fibers[k].waits = nothing;
      moved = true;
    }
  }
  for (int k = 0; k < threads; ++k) {
    waiting += fibers[k].waits == barrier, done += fibers[k].done;
    moved |= !fibers[k].done && fibers[k].waits == nothing;
  }
  if (moved || !waiting) return moved;
  if (done) fail("a barrier that some threads of the block never reach");
  if (waiting < threads) fail("some threads of a block wait at a barrier, others in a shuffle");
  for (int k = 0; k < threads; ++k) fibers[k].waits = nothing;
  return true;
}

inline void run_block(dim3 size, std::mt19937& draw) {
  threads = size.x * size.y * size.z;
  std::vector<int> order(threads);
  for (int k = 0; k < threads; ++k) prepare(k, size), order[k] = k;
  std::memset(shared, 0xA5, sizeof shared);
  for (;;) {
    std::shuffle(order.begin(), order.end(), draw);
    for (int k : order)
      if (!fibers[k].done && fibers[k].waits == nothing) take(k);
    if (std::all_of(fibers, fibers + threads, [](const Fiber& f) { return f.done; })) return;
    if (!release()) fail("threads of a warp wait for one another in different places");
  }
}

// A launch; `seed` draws the orders, `workers` is how many blocks are in flight.
inline void launch(const std::function<void()>& kernel, dim3 grid, dim3 block, unsigned seed, int workers) {
  if (block.x * block.y * block.z > most_threads) fail("more than 1024 threads in a block");
  std::vector<uint64_t> order((uint64_t)grid.x * grid.y * grid.z);
  for (uint64_t k = 0; k < order.size(); ++k) order[k] = k;
  std::mt19937 draw(seed);
  std::shuffle(order.begin(), order.end(), draw);
  std::atomic<uint64_t> next{0};
  auto work = [&](unsigned worker) {
    std::mt19937 own(seed + 7919 * worker);
    gridDim = grid, blockDim = block, body = &kernel;
    for (uint64_t at; (at = next++) < order.size();) {
      uint64_t k = order[at];
      blockIdx = {unsigned(k % grid.x), unsigned(k / grid.x % grid.y), unsigned(k / ((uint64_t)grid.x * grid.y))};
      run_block(block, own);
    }
  };
  std::vector<std::thread> others;
  for (int k = 1; k < workers; ++k) others.emplace_back(work, k);
  work(0);
  for (auto& other : others) other.join();
}

// Another thread of the machine, which may have the block that this one waits for, gets its processor.
inline void pause() { std::this_thread::yield(); }

inline int lane() { return now % warp_size; }

// The value that the thread of a lane of this warp has given.
template <class T> T exchange(T value, int from) {
  static_assert(sizeof(T) <= 8, "up to 64 bits");
  std::memcpy(&slots[now], &value, sizeof value);
  wait(warp);
  T result;
  int other = std::min(now - lane() + from % warp_size, threads - 1);
  std::memcpy(&result, &slots[other], sizeof result);
  wait(warp);
  return result;
}
}  // namespace on_cpu

inline void __syncthreads() {
  on_cpu::Fiber& fiber = on_cpu::fibers[on_cpu::now];
  fiber.seen = fiber.shown, fiber.shown = false;
  on_cpu::wait(on_cpu::barrier);
}
inline void __syncwarp(unsigned = ~0u) { on_cpu::wait(on_cpu::warp); }
template <class T> T __shfl_sync(unsigned, T value, int from, int width = 32) {
  int lane = on_cpu::lane();
  return on_cpu::exchange(value, lane - lane % width + from % width);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int distance, int = 32) {
  return on_cpu::exchange(value, on_cpu::lane() ^ distance);
}
template <class T> T __shfl_up_sync(unsigned, T value, int distance, int width = 32) {
  int lane = on_cpu::lane();
  return on_cpu::exchange(value, lane % width >= distance ? lane - distance : lane);
}
template <class T> T __shfl_down_sync(unsigned, T value, int distance, int width = 32) {
  int lane = on_cpu::lane();
  return on_cpu::exchange(value, lane % width + distance < width ? lane + distance : lane);
}
inline unsigned __ballot_sync(unsigned, int holds) {
  on_cpu::slots[on_cpu::now] = holds != 0;
  on_cpu::wait(on_cpu::warp);
  unsigned all = 0;
  int first = on_cpu::now - on_cpu::lane(), end = std::min(first + on_cpu::warp_size, on_cpu::threads);
  for (int k = first; k < end; ++k) all |= (unsigned)on_cpu::slots[k] << (k - first);
  on_cpu::wait(on_cpu::warp);
  return all;
}

// --- asynchronous copies: PTX ISA, "cp.async"

template <int N> void raido_copy(void* to, const void* from) {
  static_assert(N == 4 || N == 8 || N == 16, "bytes that move at once");
  if ((uint64_t)to % N || (uint64_t)from % N) on_cpu::fail("an asynchronous copy that is not aligned");
  std::memset(to, 0xff, N);
  on_cpu::fibers[on_cpu::now].groups.back().push_back({to, from, N});
}
inline void raido_copy_commit() { on_cpu::fibers[on_cpu::now].groups.emplace_back(); }
template <int N> void raido_copy_await() {
  auto& groups = on_cpu::fibers[on_cpu::now].groups;
  for (; groups.size() > N + 1; groups.erase(groups.begin()))
    for (auto& each : groups.front()) std::memcpy(each.to, each.from, each.bytes);
}

// --- matrices

namespace on_cpu {
inline thread_local uint32_t given[most_threads][6];
inline int peer(int lane_of_it) { return now - lane() + lane_of_it; }
inline uint32_t pair(unsigned short low, unsigned short high) { return low | (uint32_t)high << 16; }
inline float half_of(uint32_t word, int k, bool brain) {
  unsigned short half = (unsigned short)(word >> 16 * (k % 2));
  return brain ? bits<float>((uint32_t)half << 16) : (float)bits<_Float16>(half);
}

// PTX ISA, "ldmatrix": row j of tile k begins where thread 8 k + j says.
template <class T> void load_tiles(uint32_t** words, int count, const T* row, bool transposed) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "elements of 16 bits, or words");
  uint64_t place = (uint64_t)row;
  if (lane() < 8 * count && place % 16) fail("a row of a tile that does not begin at a multiple of 16 bytes");
  std::memcpy(&slots[now], &place, sizeof place);
  wait(warp);
  for (int k = 0; k < count; ++k) {
    if (sizeof(T) == 4) {
      if (transposed) fail("words are not transposed");
      *words[k] = ((const uint32_t*)slots[peer(8 * k + lane() / 4)])[lane() % 4];
      continue;
    }
    T both[2];
    for (int e = 0; e < 2; ++e) {
      int line = transposed ? 2 * (lane() % 4) + e : lane() / 4, column = transposed ? lane() / 4 : 2 * (lane() % 4) + e;
      both[e] = ((const T*)slots[peer(8 * k + line)])[column];
    }
    *words[k] = pair((unsigned short)both[0], (unsigned short)both[1]);
  }
  wait(warp);
}

// PTX ISA, "Matrix fragments for mma.m16n8k16". Products are added to a sum one by one, in order: the hardware's order is its own.
inline void multiply(float** sums, const uint32_t (&words)[6], bool brain) {
  std::memcpy(given[now], words, sizeof words);
  wait(warp);
  for (int which = 0; which < 4; ++which) {
    int row = lane() / 4, column = 2 * (lane() % 4) + which % 2;
    for (int k = 0; k < 16; ++k) {
      uint32_t left = given[peer(4 * row + k % 8 / 2)][which / 2 + k / 8 * 2], right = given[peer(4 * column + k % 8 / 2)][4 + k / 8];
      *sums[which] = std::fma(half_of(left, k, brain), half_of(right, k, brain), *sums[which]);
    }
  }
  wait(warp);
}

// PTX ISA, "Matrix fragments for mma.m16n8k8": of factors in tf32 the 13 lowest bits are not looked at.
inline void multiply_words(float** sums, const uint32_t (&words)[6]) {
  std::memcpy(given[now], words, sizeof words);
  wait(warp);
  auto number = [](uint32_t word) { return bits<float>(word & ~0x1fffu); };
  for (int which = 0; which < 4; ++which) {
    int row = lane() / 4, column = 2 * (lane() % 4) + which % 2;
    for (int k = 0; k < 8; ++k) {
      uint32_t left = given[peer(4 * row + k % 4)][which / 2 + k / 4 * 2], right = given[peer(4 * column + k % 4)][4 + k / 4];
      *sums[which] = std::fma(number(left), number(right), *sums[which]);
    }
  }
  wait(warp);
}
}  // namespace on_cpu
#define ON_CPU_MATRIX_LOAD(name, transposed)                                                                           \
  template <class T> void raido_matrix_load_4##name(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, const T* row) { \
    uint32_t* words[] = {&a, &b, &c, &d};                                                                              \
    on_cpu::load_tiles(words, 4, row, transposed);                                                                     \
  }                                                                                                                    \
  template <class T> void raido_matrix_load_2##name(uint32_t& a, uint32_t& b, const T* row) {                          \
    uint32_t* words[] = {&a, &b};                                                                                      \
    on_cpu::load_tiles(words, 2, row, transposed);                                                                     \
  }
ON_CPU_MATRIX_LOAD(, false)
ON_CPU_MATRIX_LOAD(_transposed, true)
#ifndef RAIDO_BY_SHUFFLES
#define ON_CPU_MATRIX_MULTIPLY(dtype, brain)                                                                              \
  inline void raido_matrix_multiply_##dtype(float& s, float& t, float& u, float& v, uint32_t a, uint32_t b, uint32_t c,   \
                                            uint32_t d, uint32_t x, uint32_t y) {                                         \
    float* sums[] = {&s, &t, &u, &v};                                                                                     \
    on_cpu::multiply(sums, {a, b, c, d, x, y}, brain);                                                                    \
  }
ON_CPU_MATRIX_MULTIPLY(f16, false)
ON_CPU_MATRIX_MULTIPLY(bf16, true)
inline void raido_matrix_multiply_tf32(float& s, float& t, float& u, float& v, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t x,
                                       uint32_t y) {
  float* sums[] = {&s, &t, &u, &v};
  on_cpu::multiply_words(sums, {a, b, c, d, x, y});
}
#endif

// --- products of warpgroups: PTX ISA, "wgmma.mma_async"

namespace on_cpu {
// Begins to add products to a sum, in whose place is not a number until the group of them is awaited: they are made as late as they may,
// of what shared memory holds then. What was not fenced, or not shown to such instructions at the last barrier, is not a number either.
inline void add_later(float& sum, Sum add, uint64_t a, uint64_t b, int row, int column) {
  Fiber& fiber = fibers[now];
  if (!fiber.sums.count(&sum)) fiber.sums[&sum] = fiber.fenced && fiber.seen ? sum : NAN;
  sum = NAN;
  fiber.products.push_back({&sum, add, a, b, row, column});
}
}  // namespace on_cpu
inline const void* raido_shared_at(uint32_t address) { return on_cpu::shared + address; }
inline uint64_t __cvta_generic_to_shared(const void* at) {
  uint64_t place = (uint64_t)at - (uint64_t)on_cpu::shared;
  if (place >= on_cpu::shared_bytes || place % 16) on_cpu::fail("a factor that does not begin at a multiple of 16 bytes of shared memory");
  return place;
}
inline void raido_warpgroup_add(float& sum, on_cpu::Sum add, uint64_t a, uint64_t b, int row, int column) {
  on_cpu::add_later(sum, add, a, b, row, column);
}
inline void raido_warpgroup_fence() {
  on_cpu::wait(on_cpu::warp);
  on_cpu::fibers[on_cpu::now].fenced = true;
}
inline void raido_warpgroup_commit() { on_cpu::fibers[on_cpu::now].committed = on_cpu::fibers[on_cpu::now].products.size(); }
inline void raido_warpgroup_await() {
  on_cpu::wait(on_cpu::warp);
  on_cpu::Fiber& fiber = on_cpu::fibers[on_cpu::now];
  for (size_t k = 0; k < fiber.committed; ++k) {
    auto& each = fiber.products[k];
    fiber.sums[each.sum] = each.add(fiber.sums[each.sum], each.a, each.b, each.row, each.column);
    *each.sum = fiber.sums[each.sum];
  }
  fiber.products.erase(fiber.products.begin(), fiber.products.begin() + fiber.committed);
  fiber.committed = 0, fiber.fenced = false;
  if (fiber.products.empty()) fiber.sums.clear();
}
inline void raido_barrier_of_warpgroups() {
  on_cpu::fibers[on_cpu::now].shown = true;
  __syncthreads();
}

// --- atomic updates

namespace on_cpu {
template <class T, class F> T update(T* place, F change) {
  T before, after;
  __atomic_load(place, &before, __ATOMIC_SEQ_CST);
  do after = change(before);
  while (!__atomic_compare_exchange(place, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return before;
}
}  // namespace on_cpu
#define ON_CPU_ATOMIC(name, expression) \
  template <class T> T name(T* p, T v) { return on_cpu::update(p, [v](T o) { return (T)(expression); }); }
ON_CPU_ATOMIC(on_cpu_add, o + v)
ON_CPU_ATOMIC(atomicMin, o < v ? o : v)
ON_CPU_ATOMIC(atomicMax, o > v ? o : v)
ON_CPU_ATOMIC(atomicAnd, o & v)
ON_CPU_ATOMIC(atomicOr, o | v)
ON_CPU_ATOMIC(atomicXor, o ^ v)
ON_CPU_ATOMIC(atomicExch, v)
inline int atomicAdd(int* p, int v) { return (int)on_cpu_add((unsigned*)p, (unsigned)v); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return on_cpu_add(p, v); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return on_cpu_add(p, v); }
inline float atomicAdd(float* p, float v) { return on_cpu_add(p, v); }
inline double atomicAdd(double* p, double v) { return on_cpu_add(p, v); }
template <class T> T atomicCAS(T* p, T expected, T desired) {
  __atomic_compare_exchange(p, &expected, &desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
