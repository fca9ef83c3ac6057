// Scans, histograms, a filter, and a sparse matrix times a vector.
#include "common.h"

enum { BLOCK = 1 << 16 };

#define SHIFT(v, lanes) _mm512_alignr_epi32(v, _mm512_setzero_si512(), 16 - (lanes))
static inline v16i prefixes_i32(v16i v) {
    v = _mm512_add_epi32(v, SHIFT(v, 1));
    v = _mm512_add_epi32(v, SHIFT(v, 2));
    v = _mm512_add_epi32(v, SHIFT(v, 4));
    return _mm512_add_epi32(v, SHIFT(v, 8));
}
#define SHIFT_F32(v, lanes) _mm512_castsi512_ps(SHIFT(_mm512_castps_si512(v), lanes))
static inline v16f prefixes_f32(v16f v) {
    v = ADD(v, SHIFT_F32(v, 1));
    v = ADD(v, SHIFT_F32(v, 2));
    v = ADD(v, SHIFT_F32(v, 4));
    return ADD(v, SHIFT_F32(v, 8));
}

// One pass over memory: a block is summed up, waits for what came before it, and is scanned while the second cache holds it.
void scan_f32(const float *x, float *y, int64_t n) {
    Turns turns = {0, 0};
    float before = 0;
    const v16i last = _mm512_set1_epi32(15);
#pragma omp parallel
    for (int64_t b; (b = take(&turns)) * BLOCK < n;) {
        int64_t begin = b * BLOCK, end = smaller(begin + BLOCK, n), i = begin;
        v16f s[4] = {ZERO, ZERO, ZERO, ZERO};
        for (; i + 64 <= end; i += 64)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) s[k] = ADD(s[k], LOAD(x + i + 16 * k));
        for (; i < end; i += 16) s[0] = ADD(s[0], _mm512_maskz_loadu_ps(first(end - i), x + i));
        float total = _mm512_reduce_add_ps(ADD(ADD(s[0], s[1]), ADD(s[2], s[3])));
        wait_for(&turns, b);
        v16f carry = ALL(before);
        before += total;
        pass_on(&turns, b);
        for (i = begin; i + 32 <= end; i += 32) {
            v16f p = prefixes_f32(LOAD(x + i)), q = prefixes_f32(LOAD(x + i + 16));
            _mm512_stream_ps(y + i, ADD(p, carry));
            carry = ADD(carry, _mm512_permutexvar_ps(last, p));
            _mm512_stream_ps(y + i + 16, ADD(q, carry));
            carry = ADD(carry, _mm512_permutexvar_ps(last, q));
        }
        for (float c = _mm512_cvtss_f32(carry); i < end; i++) y[i] = c += x[i];
        _mm_sfence();
    }
}

void scan_i32(const int32_t *x, int32_t *y, int64_t n) {
    Turns turns = {0, 0};
    uint32_t before = 0;
    const v16i last = _mm512_set1_epi32(15);
#pragma omp parallel
    for (int64_t b; (b = take(&turns)) * BLOCK < n;) {
        int64_t begin = b * BLOCK, end = smaller(begin + BLOCK, n), i = begin;
        v16i s[4] = {};
        for (; i + 64 <= end; i += 64)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) s[k] = _mm512_add_epi32(s[k], _mm512_loadu_si512(x + i + 16 * k));
        for (; i < end; i += 16) s[0] = _mm512_add_epi32(s[0], _mm512_maskz_loadu_epi32(first(end - i), x + i));
        uint32_t total = _mm512_reduce_add_epi32(
            _mm512_add_epi32(_mm512_add_epi32(s[0], s[1]), _mm512_add_epi32(s[2], s[3])));
        wait_for(&turns, b);
        v16i carry = _mm512_set1_epi32((int)before);
        before += total;
        pass_on(&turns, b);
        for (i = begin; i + 32 <= end; i += 32) {
            v16i p = prefixes_i32(_mm512_loadu_si512(x + i)), q = prefixes_i32(_mm512_loadu_si512(x + i + 16));
            _mm512_stream_si512((void *)(y + i), _mm512_add_epi32(p, carry));
            carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, p));
            _mm512_stream_si512((void *)(y + i + 16), _mm512_add_epi32(q, carry));
            carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, q));
        }
        for (uint32_t c = _mm_cvtsi128_si32(_mm512_castsi512_si128(carry)); i < end; i++) y[i] = (int32_t)(c += x[i]);
        _mm_sfence();
    }
}

// Eight sets of bins in each thread, so that equal neighbours do not wait for each other; two values in one load.
void histogram_256(const int32_t *x, int32_t *bins, int64_t n) {
    memset(bins, 0, 256 * sizeof *bins);
#pragma omp parallel
    {
        int32_t own[8][256 + 16] = {};
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n / 16; i++) {
            const int64_t *pairs = (const int64_t *)(x + 16 * i);
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) own[k][(uint32_t)pairs[k]]++, own[(k + 4) & 7][(uint64_t)pairs[k] >> 32]++;
        }
#pragma omp single
        for (int64_t i = n / 16 * 16; i < n; i++) own[0][x[i]]++;
#pragma omp critical
        for (int b = 0; b < 256; b++)
            for (int k = 0; k < 8; k++) bins[b] += own[k][b];
    }
}

// A set of bins in each thread.
void histogram_1e6(const int32_t *x, int32_t *bins, int64_t n) {
    enum { BINS = 1000000 };
    static int32_t *own;
    int threads = omp_get_max_threads();
    if (!own) own = aligned_alloc(1 << 21, ((int64_t)threads * BINS * 4 | ((1 << 21) - 1)) + 1);
#pragma omp parallel
    {
        int32_t *mine = own + (int64_t)omp_get_thread_num() * BINS;
        memset(mine, 0, BINS * sizeof *mine);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n / 4; i++)
            for (int k = 0; k < 4; k++) mine[x[4 * i + k]]++;
#pragma omp single
        for (int64_t i = n / 4 * 4; i < n; i++) mine[x[i]]++;
#pragma omp for schedule(static)
        for (int64_t b = 0; b < BINS; b++) {
            int32_t sum = 0;
            for (int t = 0; t < threads; t++) sum += own[(int64_t)t * BINS + b];
            bins[b] = sum;
        }
    }
}

static inline int64_t keep(const int32_t *x, int32_t *y, int64_t n) {
    const v16i limit = _mm512_set1_epi32(500);
    int64_t o = 0;
    for (int64_t i = 0; i < n; i += 16) {
        v16i v = _mm512_maskz_loadu_epi32(first(n - i), x + i);
        __mmask16 on = _mm512_mask_cmplt_epi32_mask(first(n - i), v, limit);
        int count = __builtin_popcount(on);
        _mm512_mask_storeu_epi32(y + o, first(count), _mm512_maskz_compress_epi32(on, v));
        o += count;
    }
    return o;
}

static inline int64_t count_kept(const int32_t *x, int64_t n) {
    const v16i limit = _mm512_set1_epi32(500);
    int64_t count = 0, i = 0;
    for (; i + 16 <= n; i += 16) count += __builtin_popcount(_mm512_cmplt_epi32_mask(_mm512_loadu_si512(x + i), limit));
    for (; i < n; i++) count += x[i] < 500;
    return count;
}

// As the scan: counted, then, in its turn, moved to the front of what is left. Returns how many there are.
int64_t filter_chain(const int32_t *x, int32_t *y, int64_t n) {
    Turns turns = {0, 0};
    int64_t before = 0;
#pragma omp parallel
    for (int64_t b; (b = take(&turns)) * BLOCK < n;) {
        int64_t begin = b * BLOCK, size = smaller(BLOCK, n - begin), own = count_kept(x + begin, size);
        wait_for(&turns, b);
        int64_t start = before;
        before += own;
        pass_on(&turns, b);
        keep(x + begin, y + start, size);
    }
    return before;
}

// Two passes over memory: each thread counts its half, then moves it.
int64_t filter_two_passes(const int32_t *x, int32_t *y, int64_t n) {
    int64_t counts[256] = {}, total = 0;
#pragma omp parallel reduction(+ : total)
    {
        int64_t threads = omp_get_num_threads(), t = omp_get_thread_num(), start = 0;
        int64_t begin = n / 16 * t / threads * 16, end = t + 1 == threads ? n : n / 16 * (t + 1) / threads * 16;
        counts[t] = count_kept(x + begin, end - begin);
#pragma omp barrier
        for (int64_t k = 0; k < t; k++) start += counts[k];
        total += keep(x + begin, y + start, end - begin);
    }
    return total;
}

void spmv(const int64_t *offsets, const int32_t *columns, const float *values, const float *x, float *y, int64_t m,
          int64_t k_numbers, int64_t n) {
    (void)k_numbers, (void)n;
#pragma omp parallel for schedule(dynamic, 2048)
    for (int64_t r = 0; r < m - 1; r++) {
        v16f s = ZERO;
        int64_t k = offsets[r], end = offsets[r + 1];
        for (; k + 16 <= end; k += 16)
            s = FMA(LOAD(values + k), _mm512_i32gather_ps(_mm512_loadu_si512(columns + k), x, 4), s);
        if (k < end) {
            __mmask16 on = first(end - k);
            v16i c = _mm512_maskz_loadu_epi32(on, columns + k);
            s = FMA(_mm512_maskz_loadu_ps(on, values + k), _mm512_mask_i32gather_ps(ZERO, on, c, x, 4), s);
        }
        y[r] = _mm512_reduce_add_ps(s);
    }
}

static inline float segment_of(const float *x, int64_t n) {
    v16f s[4] = {ZERO, ZERO, ZERO, ZERO};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) s[k] = ADD(s[k], LOAD(x + i + 16 * k));
    for (; i < n; i += 16) s[0] = ADD(s[0], _mm512_maskz_loadu_ps(first(n - i), x + i));
    return _mm512_reduce_add_ps(ADD(ADD(s[0], s[1]), ADD(s[2], s[3])));
}

// Threads take short segments as they become free; each long one is then shared by all.
void segments(const int64_t *offsets, const float *x, float *out, int64_t m, int64_t k) {
    enum { LONG = 1 << 18, PIECE = 1 << 16 };
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 2048)
        for (int64_t s = 0; s < m - 1; s++) {
            int64_t size = offsets[s + 1] - offsets[s];
            if (size < LONG) out[s] = segment_of(x + offsets[s], size);
        }
    }
    if (k < LONG) return;
    for (int64_t s = 0; s < m - 1; s++) {
        int64_t begin = offsets[s], size = offsets[s + 1] - begin;
        if (size < LONG) continue;
        float sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
        for (int64_t p = 0; p < (size + PIECE - 1) / PIECE; p++)
            sum += segment_of(x + begin + p * PIECE, smaller(PIECE, size - p * PIECE));
        out[s] = sum;
    }
}
