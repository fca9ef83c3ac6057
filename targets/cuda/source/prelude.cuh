// What generated kernels are made of: types under their short names, and native operations that C++ does not have as operators.
// Integers wrap at their width; f16 is kept as its bits. No header is included: NVRTC needs none.
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short f16;
typedef float f32;
typedef double f64;

#define RAIDO_INLINE __device__ __forceinline__

// The type in which integers wrap: unsigned, and not narrower than C's own arithmetic.
template <class T> struct raido_wrapping { typedef u32 type; };
template <> struct raido_wrapping<i64> { typedef u64 type; };
template <> struct raido_wrapping<u64> { typedef u64 type; };
#define RAIDO_WRAPPING(T) typename raido_wrapping<T>::type

template <class T> RAIDO_INLINE T raido_add(T a, T b) { return (T)((RAIDO_WRAPPING(T))a + (RAIDO_WRAPPING(T))b); }
template <class T> RAIDO_INLINE T raido_sub(T a, T b) { return (T)((RAIDO_WRAPPING(T))a - (RAIDO_WRAPPING(T))b); }
template <class T> RAIDO_INLINE T raido_mul(T a, T b) { return (T)((RAIDO_WRAPPING(T))a * (RAIDO_WRAPPING(T))b); }
template <class T> RAIDO_INLINE T raido_quotient(T a, T b) { return (T)(a / b); }
template <class T> RAIDO_INLINE T raido_remainder(T a, T b) { return (T)(a % b); }
template <class T> RAIDO_INLINE T raido_bit_and(T a, T b) { return (T)(a & b); }
template <class T> RAIDO_INLINE T raido_bit_or(T a, T b) { return (T)(a | b); }
template <class T> RAIDO_INLINE T raido_bit_xor(T a, T b) { return (T)(a ^ b); }
template <class T> RAIDO_INLINE T raido_bit_not(T a) { return (T)~a; }
template <class T> RAIDO_INLINE T raido_shift_left(T a, T k) { return (T)((RAIDO_WRAPPING(T))a << k); }
template <class T> RAIDO_INLINE T raido_shift_right(T a, T k) { return (T)(a >> k); }
template <class T> RAIDO_INLINE T raido_minimum(T a, T b) { return a < b ? a : b; }
template <class T> RAIDO_INLINE T raido_maximum(T a, T b) { return a > b ? a : b; }

RAIDO_INLINE u32 raido_popcount(u32 a) { return (u32)__popc(a); }
RAIDO_INLINE u32 raido_clz(u32 a) { return (u32)__clz((int)a); }

// One correctly rounded operation each, whatever the compiler is asked to relax.
RAIDO_INLINE f32 raido_fma(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
RAIDO_INLINE f64 raido_fma(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
RAIDO_INLINE f32 raido_sqrt(f32 a) { return __fsqrt_rn(a); }
RAIDO_INLINE f64 raido_sqrt(f64 a) { return __dsqrt_rn(a); }
RAIDO_INLINE f32 raido_div(f32 a, f32 b) { return __fdiv_rn(a, b); }
RAIDO_INLINE f64 raido_div(f64 a, f64 b) { return __ddiv_rn(a, b); }
RAIDO_INLINE f32 raido_floor(f32 a) { return floorf(a); }
RAIDO_INLINE f64 raido_floor(f64 a) { return floor(a); }
RAIDO_INLINE f32 raido_ceil(f32 a) { return ceilf(a); }
RAIDO_INLINE f64 raido_ceil(f64 a) { return ceil(a); }
RAIDO_INLINE f32 raido_trunc(f32 a) { return truncf(a); }
RAIDO_INLINE f64 raido_trunc(f64 a) { return trunc(a); }
RAIDO_INLINE f32 raido_rint(f32 a) { return rintf(a); }
RAIDO_INLINE f64 raido_rint(f64 a) { return rint(a); }
RAIDO_INLINE f32 raido_abs(f32 a) { return fabsf(a); }
RAIDO_INLINE f64 raido_abs(f64 a) { return fabs(a); }

// The same bits as another type.
RAIDO_INLINE i32 raido_bits_i32(f32 a) { return __float_as_int(a); }
RAIDO_INLINE u32 raido_bits_u32(f32 a) { return __float_as_uint(a); }
RAIDO_INLINE i64 raido_bits_i64(f64 a) { return __double_as_longlong(a); }
RAIDO_INLINE u64 raido_bits_u64(f64 a) { return (u64)__double_as_longlong(a); }
RAIDO_INLINE f32 raido_bits_f32(u32 a) { return __uint_as_float(a); }
RAIDO_INLINE f64 raido_bits_f64(u64 a) { return __longlong_as_double((i64)a); }

#ifndef RAIDO_ON_CPU  // its twin (tests/cuda_on_cpu) has no PTX
RAIDO_INLINE f32 raido_widen(f16 a) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a)); return r; }
RAIDO_INLINE f16 raido_narrow(f32 a) { f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a)); return r; }
RAIDO_INLINE f16 raido_narrow(f64 a) { f16 r; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(a)); return r; }
#endif
RAIDO_INLINE f32 raido_widen_brain(u16 a) { return __uint_as_float((u32)a << 16); }

// Atomic updates give the element before them. 64-bit integers are `long long` to CUDA's overloads.
RAIDO_INLINE i32 raido_atomic_add(i32* p, i32 v) { return atomicAdd(p, v); }
RAIDO_INLINE u32 raido_atomic_add(u32* p, u32 v) { return atomicAdd(p, v); }
RAIDO_INLINE i64 raido_atomic_add(i64* p, i64 v) { return (i64)atomicAdd((u64*)p, (u64)v); }
RAIDO_INLINE u64 raido_atomic_add(u64* p, u64 v) { return atomicAdd(p, v); }
RAIDO_INLINE f32 raido_atomic_add(f32* p, f32 v) { return atomicAdd(p, v); }
RAIDO_INLINE f64 raido_atomic_add(f64* p, f64 v) { return atomicAdd(p, v); }
// An element of two words in shared memory, where a 64-bit addition is a compare-exchange loop: the low word, and the high one if that carries.
// The element is whole once all threads have added.
template <class T> RAIDO_INLINE void raido_atomic_add_in_words(T* p, T v) {
  const u32 low = (u32)v;
  const u32 high = (u32)((u64)v >> 32) + (atomicAdd((u32*)p, low) + low < low);
  if (high != 0) atomicAdd((u32*)p + 1, high);
}
#define RAIDO_ATOMIC(name, function) template <class T> RAIDO_INLINE T raido_atomic_##name(T* p, T v) { return function(p, v); }
RAIDO_ATOMIC(min, atomicMin)
RAIDO_ATOMIC(max, atomicMax)
template <class T> struct raido_unsigned { typedef u32 type; };
template <> struct raido_unsigned<i64> { typedef u64 type; };
template <> struct raido_unsigned<u64> { typedef u64 type; };
#define RAIDO_UNSIGNED(T) typename raido_unsigned<T>::type
#define RAIDO_ATOMIC_BITS(name, function)                                                            \
  template <class T> RAIDO_INLINE T raido_atomic_##name(T* p, T v) {                                 \
    return (T)function((RAIDO_UNSIGNED(T)*)p, (RAIDO_UNSIGNED(T))v);                                 \
  }
RAIDO_ATOMIC_BITS(and, atomicAnd)
RAIDO_ATOMIC_BITS(or, atomicOr)
RAIDO_ATOMIC_BITS(xor, atomicXor)
RAIDO_ATOMIC_BITS(exchange, atomicExch)
template <class T> RAIDO_INLINE T raido_atomic_compare_exchange(T* p, T expected, T desired) {
  typedef RAIDO_UNSIGNED(T) U;
  return (T)atomicCAS((U*)p, (U)expected, (U)desired);
}
// Relaxed, as a volatile access of an aligned word is.
template <class T> RAIDO_INLINE T raido_atomic_load(const T* p) { return *(const volatile T*)p; }
template <class T> RAIDO_INLINE void raido_atomic_store(T* p, T v) { *(volatile T*)p = v; }

// What threads of different blocks hand each other: a word that is not 0, and with it, unless it is handed on alone, what the one has written before,
// and seen. PTX ISA, "Memory consistency model": a fence before a store, and one after the load that sees it, order all that stands before and after them.
#ifdef RAIDO_ON_CPU
RAIDO_INLINE void raido_publish(i64* p, i64 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
RAIDO_INLINE i64 raido_await(const i64* p) {
  i64 v;
  while ((v = __atomic_load_n(p, __ATOMIC_ACQUIRE)) == 0) on_cpu::pause();
  return v;
}
RAIDO_INLINE void raido_publish_alone(i64* p, i64 v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
RAIDO_INLINE i64 raido_await_alone(const i64* p) {
  i64 v;
  while ((v = __atomic_load_n(p, __ATOMIC_RELAXED)) == 0) on_cpu::pause();
  return v;
}
#else
RAIDO_INLINE void raido_publish(i64* p, i64 v) { asm volatile("st.release.gpu.s64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
RAIDO_INLINE void raido_publish_alone(i64* p, i64 v) { asm volatile("st.relaxed.gpu.s64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
RAIDO_INLINE i64 raido_await_alone(const i64* p) {
  i64 v;
  do asm volatile("ld.relaxed.gpu.s64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  while (v == 0);
  return v;
}
RAIDO_INLINE i64 raido_await(const i64* p) {
  const i64 v = raido_await_alone(p);
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  return v;
}
#endif

// The value of the thread `distance` later, or before, among so many neighbours; all threads of a warp come by.
template <class T> RAIDO_INLINE T raido_exchange(T v, i32 distance, i32 width) {
  if (distance < 0) return __shfl_up_sync(0xffffffffu, v, -distance, width);
  return __shfl_down_sync(0xffffffffu, v, distance, width);
}
// That of a thread by its number among those, and the number of the first thread of a warp for which something holds, 32 where there is none.
template <class T> RAIDO_INLINE T raido_broadcast(T v, i32 source, i32 width) { return __shfl_sync(0xffffffffu, v, source, width); }
RAIDO_INLINE i32 raido_first_thread(bool holds) {
  const u32 all = __ballot_sync(0xffffffffu, holds);
  return all == 0 ? 32 : __ffs((int)all) - 1;
}

// Tiles of 8 x 8 elements of 16 bits from shared memory to registers, and products of 16 x 16 and 16 x 8 elements that are added to sums: of a
// whole warp, from sm_80 on. PTX ISA, "ldmatrix" and "Matrix fragments for mma.m16n8k16".
#ifndef RAIDO_ON_CPU
#define RAIDO_MATRIX_LOAD(name, words)                                                                                         \
  template <class T> RAIDO_INLINE void raido_matrix_load_4##name(u32& a, u32& b, u32& c, u32& d, const T* row) {               \
    u32 at = (u32)__cvta_generic_to_shared(row);                                                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" words ".shared.b16 {%0, %1, %2, %3}, [%4];"                                   \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));                                                              \
  }                                                                                                                            \
  template <class T> RAIDO_INLINE void raido_matrix_load_2##name(u32& a, u32& b, const T* row) {                               \
    u32 at = (u32)__cvta_generic_to_shared(row);                                                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" words ".shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(at));            \
  }
RAIDO_MATRIX_LOAD(, "")
RAIDO_MATRIX_LOAD(_transposed, ".trans")
#if __CUDA_ARCH__ < 800
#define RAIDO_BY_SHUFFLES  // an exported library on an older device
#else
#define RAIDO_MATRIX_MULTIPLY(dtype, widen)                                                                                      \
  template <class T>                                                                                                             \
  RAIDO_INLINE void raido_matrix_multiply_##dtype(T& s, T& t, T& u, T& v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {            \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #dtype "." #dtype ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "         \
        "{%0, %1, %2, %3};"                                                                                                      \
        : "+f"(s), "+f"(t), "+f"(u), "+f"(v) : "r"(a), "r"(b), "r"(c), "r"(d), "r"(x), "r"(y));                                  \
  }
#endif
#endif
#ifdef RAIDO_BY_SHUFFLES  // products one by one, their factors handed from thread to thread
struct raido_sums { f32 s, t, u, v; };
#define RAIDO_MATRIX_MULTIPLY(dtype, widen)                                                                                     \
  template <class T>                                                                                                            \
  __device__ __noinline__ raido_sums raido_products_##dtype(T s, T t, T u, T v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {     \
    i32 lane = (i32)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 32;                                 \
    i32 row = lane - lane % 4, column = 8 * (lane % 4);                                                                         \
    _Pragma("unroll 1") for (i32 k = 0; k < 16; ++k) {                                                                          \
      i32 pair = k % 8 / 2, shift = 16 * (k % 2);                                                                               \
      f32 upper = widen((u16)(__shfl_sync(0xffffffffu, k < 8 ? a : c, row + pair) >> shift));                                   \
      f32 lower = widen((u16)(__shfl_sync(0xffffffffu, k < 8 ? b : d, row + pair) >> shift));                                   \
      f32 first = widen((u16)(__shfl_sync(0xffffffffu, k < 8 ? x : y, column + pair) >> shift));                                \
      f32 second = widen((u16)(__shfl_sync(0xffffffffu, k < 8 ? x : y, column + 4 + pair) >> shift));                           \
      s = raido_fma(upper, first, s), t = raido_fma(upper, second, t);                                                          \
      u = raido_fma(lower, first, u), v = raido_fma(lower, second, v);                                                          \
    }                                                                                                                           \
    return {s, t, u, v};                                                                                                        \
  }                                                                                                                             \
  template <class T>                                                                                                            \
  RAIDO_INLINE void raido_matrix_multiply_##dtype(T& s, T& t, T& u, T& v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {           \
    raido_sums made = raido_products_##dtype<T>(s, t, u, v, a, b, c, d, x, y);                                                  \
    s = made.s, t = made.t, u = made.u, v = made.v;                                                                             \
  }
#endif
// Factors in tf32, 8 steps at once: the words of f32, whose 13 lowest bits are 0. PTX ISA, "Matrix fragments for mma.m16n8k8".
#ifdef RAIDO_BY_SHUFFLES
template <class T>
__device__ __noinline__ raido_sums raido_products_tf32(T s, T t, T u, T v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {
  i32 lane = (i32)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 32;
  i32 row = lane - lane % 4, column = 8 * (lane % 4);
  _Pragma("unroll 1") for (i32 k = 0; k < 8; ++k) {
    f32 upper = __uint_as_float(__shfl_sync(0xffffffffu, k < 4 ? a : c, row + k % 4));
    f32 lower = __uint_as_float(__shfl_sync(0xffffffffu, k < 4 ? b : d, row + k % 4));
    f32 first = __uint_as_float(__shfl_sync(0xffffffffu, k < 4 ? x : y, column + k % 4));
    f32 second = __uint_as_float(__shfl_sync(0xffffffffu, k < 4 ? x : y, column + 4 + k % 4));
    s = raido_fma(upper, first, s), t = raido_fma(upper, second, t);
    u = raido_fma(lower, first, u), v = raido_fma(lower, second, v);
  }
  return {s, t, u, v};
}
template <class T>
RAIDO_INLINE void raido_matrix_multiply_tf32(T& s, T& t, T& u, T& v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {
  raido_sums made = raido_products_tf32<T>(s, t, u, v, a, b, c, d, x, y);
  s = made.s, t = made.t, u = made.u, v = made.v;
}
#elif !defined RAIDO_ON_CPU
template <class T>
RAIDO_INLINE void raido_matrix_multiply_tf32(T& s, T& t, T& u, T& v, u32 a, u32 b, u32 c, u32 d, u32 x, u32 y) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(s), "+f"(t), "+f"(u), "+f"(v) : "r"(a), "r"(b), "r"(c), "r"(d), "r"(x), "r"(y));
}
#endif
#ifdef RAIDO_MATRIX_MULTIPLY
RAIDO_MATRIX_MULTIPLY(f16, raido_widen)
RAIDO_MATRIX_MULTIPLY(bf16, raido_widen_brain)
#endif

// Products of 64 x 16 and 16 x N elements (8 steps of tf32) that four warps add to sums together, of factors in shared memory: code for sm_90a.
// PTX ISA, "wgmma.mma_async" and "Matrix descriptor": a factor lies in blocks of 8 lines of 16 bytes; `along_steps` and `along_lines` are the
// bytes from a block to the next one. What threads have written to shared memory is seen by such instructions behind a fence and a barrier.
RAIDO_INLINE u64 raido_warpgroup_descriptor(const void* at, u32 along_steps, u32 along_lines) {
  const u32 address = (u32)__cvta_generic_to_shared(at);
  return (u64)(address >> 4) | (u64)(along_steps >> 4) << 16 | (u64)(along_lines >> 4) << 32;
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define RAIDO_WARPGROUPS
RAIDO_INLINE void raido_warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RAIDO_INLINE void raido_warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
RAIDO_INLINE void raido_warpgroup_await() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
RAIDO_INLINE void raido_barrier_of_warpgroups() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
#else
#ifndef RAIDO_ON_CPU  // an exported library on another device: each thread makes its sums one by one
RAIDO_INLINE void raido_warpgroup_fence() {}
RAIDO_INLINE void raido_warpgroup_commit() {}
RAIDO_INLINE void raido_warpgroup_await() {}
RAIDO_INLINE void raido_barrier_of_warpgroups() { __syncthreads(); }
RAIDO_INLINE const void* raido_shared_at(u32 address) { return (const void*)__cvta_shared_to_generic(address); }
RAIDO_INLINE void raido_warpgroup_add(f32& sum, f32 (*add)(f32, u64, u64, i32, i32), u64 a, u64 b, i32 row, i32 column) {
  sum = add(sum, a, b, row, column);
}
#endif
template <class T, bool TURNED> RAIDO_INLINE T raido_warpgroup_element(u64 factor, i32 line, i32 step) {
  const i32 together = 16 / sizeof(T), along_steps = (i32)(factor >> 16 & 0x3fff) << 4, along_lines = (i32)(factor >> 32 & 0x3fff) << 4;
  const i32 inside = TURNED ? step % 8 * 16 + line % 8 * (i32)sizeof(T) : line % 8 * 16 + step % together * (i32)sizeof(T);
  return *(const T*)raido_shared_at(((u32)(factor & 0x3fff) << 4) + line / 8 * along_lines + step / together * along_steps + inside);
}
#define RAIDO_WARPGROUP_SUM(dtype, T, steps, widen)                                                                              \
  template <bool A, bool B> __device__ __noinline__ f32 raido_warpgroup_sum_##dtype(f32 sum, u64 a, u64 b, i32 row, i32 column) { \
    const i32 thread = (i32)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 128;                         \
    row += thread / 32 * 16 + thread % 32 / 4, column += thread % 4 * 2;                                                         \
    for (i32 k = 0; k < steps; ++k)                                                                                              \
      sum = raido_fma(widen(raido_warpgroup_element<T, A>(a, row, k)), widen(raido_warpgroup_element<T, B>(b, column, k)), sum); \
    return sum;                                                                                                                  \
  }
RAIDO_WARPGROUP_SUM(f16, u16, 16, raido_widen)
RAIDO_WARPGROUP_SUM(bf16, u16, 16, raido_widen_brain)
RAIDO_WARPGROUP_SUM(tf32, u32, 8, __uint_as_float)
#endif

// Copies of 4, 8 or 16 bytes from memory to shared memory while the thread goes on, in groups that it awaits but for the last few: from sm_80 on.
// PTX ISA, "cp.async". Of 16 bytes nothing stays in the first cache: another block reads them, if anybody.
#if defined RAIDO_ON_CPU
#elif __CUDA_ARCH__ < 800
template <int N> RAIDO_INLINE void raido_copy(void* to, const void* from) {
  if (N == 16) *(ulonglong2*)to = *(const ulonglong2*)from;
  else if (N == 8) *(u64*)to = *(const u64*)from;
  else *(u32*)to = *(const u32*)from;
}
RAIDO_INLINE void raido_copy_commit() {}
template <int N> RAIDO_INLINE void raido_copy_await() {}
#else
template <int N> RAIDO_INLINE void raido_copy(void* to, const void* from) {
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if (N == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(N) : "memory");
}
RAIDO_INLINE void raido_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> RAIDO_INLINE void raido_copy_await() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#endif

// Up to 16 bytes of consecutive elements, moved at once: the first lies at a multiple of their size.
template <class T, int N> struct alignas(sizeof(T) * N) raido_elements { T at[N]; };
template <class T, int N> RAIDO_INLINE raido_elements<T, N> raido_load(const T* p) { return *(const raido_elements<T, N>*)p; }
template <class T, int N> RAIDO_INLINE void raido_store(T* p, raido_elements<T, N> v) { *(raido_elements<T, N>*)p = v; }
