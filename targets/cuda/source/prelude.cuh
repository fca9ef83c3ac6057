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

// Atomic updates give the element before them. 64-bit integers are `long long` to CUDA's overloads.
RAIDO_INLINE i32 raido_atomic_add(i32* p, i32 v) { return atomicAdd(p, v); }
RAIDO_INLINE u32 raido_atomic_add(u32* p, u32 v) { return atomicAdd(p, v); }
RAIDO_INLINE i64 raido_atomic_add(i64* p, i64 v) { return (i64)atomicAdd((u64*)p, (u64)v); }
RAIDO_INLINE u64 raido_atomic_add(u64* p, u64 v) { return atomicAdd(p, v); }
RAIDO_INLINE f32 raido_atomic_add(f32* p, f32 v) { return atomicAdd(p, v); }
RAIDO_INLINE f64 raido_atomic_add(f64* p, f64 v) { return atomicAdd(p, v); }
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

// The value of the thread `distance` later among so many neighbours; all threads of a warp come by.
template <class T> RAIDO_INLINE T raido_exchange(T v, i32 distance, i32 width) { return __shfl_down_sync(0xffffffffu, v, distance, width); }

// Up to 16 bytes of consecutive elements, moved at once: the first lies at a multiple of their size.
template <class T, int N> struct alignas(sizeof(T) * N) raido_elements { T at[N]; };
template <class T, int N> RAIDO_INLINE raido_elements<T, N> raido_load(const T* p) { return *(const raido_elements<T, N>*)p; }
template <class T, int N> RAIDO_INLINE void raido_store(T* p, raido_elements<T, N> v) { *(raido_elements<T, N>*)p = v; }
