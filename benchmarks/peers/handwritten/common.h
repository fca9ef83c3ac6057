// What the handwritten programs share. Each function takes the arrays of its row, inputs first, then the sizes in the order in which
// the row's program names them. Arrays begin a line of the cache. gcc -O3 -march=native -fopenmp, AVX-512.
#pragma once
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef __m512 v16f;
typedef __m512i v16i;

#define LOAD(p) _mm512_loadu_ps(p)
#define ADD(a, b) _mm512_add_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ALL(x) _mm512_set1_ps(x)
#define ZERO _mm512_setzero_ps()

static inline __mmask16 first(int64_t lanes) { return lanes >= 16 ? 0xffff : (__mmask16)((1u << lanes) - 1); }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

// Blocks are taken in turn by ticket; whoever has taken one always runs, so that waiting for the block before ends.
typedef struct {
    _Atomic int64_t ticket, turn;
} Turns;

static inline int64_t take(Turns *t) { return atomic_fetch_add_explicit(&t->ticket, 1, memory_order_relaxed); }
static inline void wait_for(Turns *t, int64_t block) {
    while (atomic_load_explicit(&t->turn, memory_order_acquire) != block) _mm_pause();
}
static inline void pass_on(Turns *t, int64_t block) { atomic_store_explicit(&t->turn, block + 1, memory_order_release); }
