// Sums, and the product of matrices.
#include "common.h"

static float sum_of(const float *x, int64_t n) {
    v16f s0 = ZERO, s1 = ZERO, s2 = ZERO, s3 = ZERO;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        for (int k = 0; k < 4; k++) _mm_prefetch((const char *)(x + i + 1024 + 16 * k), _MM_HINT_T0);
        s0 = ADD(s0, LOAD(x + i));
        s1 = ADD(s1, LOAD(x + i + 16));
        s2 = ADD(s2, LOAD(x + i + 32));
        s3 = ADD(s3, LOAD(x + i + 48));
    }
    for (; i < n; i += 16) s0 = ADD(s0, _mm512_maskz_loadu_ps(first(n - i), x + i));
    return _mm512_reduce_add_ps(ADD(ADD(s0, s1), ADD(s2, s3)));
}

static float dot_of(const float *x, const float *y, int64_t n) {
    v16f s[4] = {ZERO, ZERO, ZERO, ZERO};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) s[k] = FMA(LOAD(x + i + 16 * k), LOAD(y + i + 16 * k), s[k]);
    for (; i < n; i += 16)
        s[0] = FMA(_mm512_maskz_loadu_ps(first(n - i), x + i), _mm512_maskz_loadu_ps(first(n - i), y + i), s[0]);
    return _mm512_reduce_add_ps(ADD(ADD(s[0], s[1]), ADD(s[2], s[3])));
}

void sum(const float *x, float *out, int64_t n) {
    float s = 0;
#pragma omp parallel reduction(+ : s)
    {
        int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
        int64_t begin = n / 64 * t / threads * 64, end = t + 1 == threads ? n : n / 64 * (t + 1) / threads * 64;
        s += sum_of(x + begin, end - begin);
    }
    *out = s;
}

void dot(const float *x, const float *y, float *out, int64_t n) {
    float s = 0;
#pragma omp parallel reduction(+ : s)
    {
        int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
        int64_t begin = n / 64 * t / threads * 64, end = t + 1 == threads ? n : n / 64 * (t + 1) / threads * 64;
        s += dot_of(x + begin, y + begin, end - begin);
    }
    *out = s;
}

void row_sums(const float *a, float *out, int64_t h, int64_t w) {
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h; y++) out[y] = sum_of(a + y * w, w);
}

// Rows that fit a vector: the lanes past the end of the row are off.
void narrow_row_sums(const float *a, float *out, int64_t h, int64_t w) {
    const __mmask16 on = first(w);
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h; y++) out[y] = _mm512_reduce_add_ps(_mm512_maskz_loadu_ps(on, a + y * w));
}

// Sixteen rows at a time: a lane for each row, whose elements are gathered.
void narrow_row_sums_across(const float *a, float *out, int64_t h, int64_t w) {
    const v16i rows = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                         _mm512_set1_epi32((int)w));
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h / 16; y++) {
        v16f s = ZERO;
        for (int64_t x = 0; x < w; x++) s = ADD(s, _mm512_i32gather_ps(rows, a + 16 * y * w + x, 4));
        _mm512_storeu_ps(out + 16 * y, s);
    }
    for (int64_t y = h / 16 * 16; y < h; y++) out[y] = sum_of(a + y * w, w);
}

// Each thread reads its rows from end to end, eight at a time, into sums that stay in the first cache.
void column_sums(const float *a, float *out, int64_t h, int64_t w) {
    memset(out, 0, w * sizeof *out);
#pragma omp parallel
    {
        float *own = aligned_alloc(64, (w + 16) * sizeof *own / 64 * 64 + 64);
        memset(own, 0, w * sizeof *own);
#pragma omp for schedule(static)
        for (int64_t b = 0; b < h / 8; b++) {
            const float *r = a + 8 * b * w;
            for (int64_t x = 0; x < w; x += 16) {
                __mmask16 on = first(w - x);
                v16f s = _mm512_maskz_loadu_ps(on, own + x);
#pragma GCC unroll 8
                for (int k = 0; k < 8; k++) s = ADD(s, _mm512_maskz_loadu_ps(on, r + k * w + x));
                _mm512_mask_storeu_ps(own + x, on, s);
            }
        }
#pragma omp single
        for (int64_t y = h / 8 * 8; y < h; y++)
            for (int64_t x = 0; x < w; x++) own[x] += a[y * w + x];
#pragma omp critical
        for (int64_t x = 0; x < w; x++) out[x] += own[x];
        free(own);
    }
}

// Tiles of 12 × 32 results in registers, over panels of 32 columns of the right factor; m is a multiple of 32.
void sgemm(const float *a, const float *b, float *c, int64_t n, int64_t k, int64_t m) {
    float *panels = aligned_alloc(64, k * m * sizeof *panels);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < m / 32; p++)
            for (int64_t r = 0; r < k; r++) memcpy(panels + (p * k + r) * 32, b + r * m + p * 32, 128);
#pragma omp for schedule(static)
        for (int64_t y = 0; y < n; y += 12)
            for (int64_t p = 0; p < m / 32; p++) {
                const float *panel = panels + p * k * 32, *rows[12];
                v16f left[12], right[12];
                for (int i = 0; i < 12; i++) rows[i] = a + smaller(y + i, n - 1) * k, left[i] = right[i] = ZERO;
                for (int64_t r = 0; r < k; r++) {
                    v16f b0 = _mm512_load_ps(panel + r * 32), b1 = _mm512_load_ps(panel + r * 32 + 16);
#pragma GCC unroll 12
                    for (int i = 0; i < 12; i++) {
                        v16f f = ALL(rows[i][r]);
                        left[i] = FMA(f, b0, left[i]);
                        right[i] = FMA(f, b1, right[i]);
                    }
                }
                for (int i = 0; i < 12 && y + i < n; i++) {
                    _mm512_storeu_ps(c + (y + i) * m + p * 32, left[i]);
                    _mm512_storeu_ps(c + (y + i) * m + p * 32 + 16, right[i]);
                }
            }
    }
    free(panels);
}
