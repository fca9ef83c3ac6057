// Jacobi sweeps with the edge repeated.
#include "common.h"

// Four rows at a time, which share their loads; results past the caches where rows begin a line of the cache.
static inline __attribute__((always_inline)) void sweep(const float *a, float *out, int64_t h, int64_t w, int box) {
    const float scale = box ? 1.0f / 9 : 0.2f;
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h; y += 4) {
        const float *r[6];
        int rows = (int)smaller(4, h - y);
        for (int k = 0; k < 6; k++) r[k] = a + clamp(y - 1 + k, h) * w;
#define POINT(k, x)                                                                                            \
    ({                                                                                                         \
        int64_t left = clamp((x) - 1, w), right = clamp((x) + 1, w);                                           \
        float s = r[k][x] + r[(k) + 1][x] + r[(k) + 2][x] + r[(k) + 1][left] + r[(k) + 1][right];              \
        if (box) s += r[k][left] + r[k][right] + r[(k) + 2][left] + r[(k) + 2][right];                         \
        out[(y + (k)) * w + (x)] = s * scale;                                                                  \
    })
        int64_t x = 0;
        for (; x < smaller(16, w); x++)
            for (int k = 0; k < rows; k++) POINT(k, x);
        if (rows == 4)
            for (; x + 17 <= w; x += 16) {
                v16f c[6], sides[6] = {};
#pragma GCC unroll 6
                for (int k = 0; k < 6; k++) c[k] = LOAD(r[k] + x);
#pragma GCC unroll 6
                for (int k = 0; k < 6; k++)
                    if (box || (k > 0 && k < 5)) sides[k] = ADD(LOAD(r[k] + x - 1), LOAD(r[k] + x + 1));
#pragma GCC unroll 4
                for (int k = 0; k < 4; k++) {
                    v16f s = ADD(ADD(ADD(c[k], c[k + 1]), c[k + 2]), sides[k + 1]);
                    if (box) s = ADD(s, ADD(sides[k], sides[k + 2]));
                    float *to = out + (y + k) * w + x;
                    if (w % 16) _mm512_storeu_ps(to, MUL(s, ALL(scale)));
                    else _mm512_stream_ps(to, MUL(s, ALL(scale)));
                }
            }
        for (; x < w; x++)
            for (int k = 0; k < rows; k++) POINT(k, x);
        _mm_sfence();
    }
}

void jacobi2d_5(const float *a, float *out, int64_t h, int64_t w) { sweep(a, out, h, w, 0); }
void jacobi2d_9(const float *a, float *out, int64_t h, int64_t w) { sweep(a, out, h, w, 1); }

// Row by row; the neighbours along the row from two more loads, at its ends from a permutation. w is a multiple of 16.
static inline __attribute__((always_inline)) void sweep3(const float *a, float *out, int64_t d, int64_t h, int64_t w,
                                                         int radius, int stream) {
    const v16f scale = ALL(1.0f / (6 * radius + 1));
    const v16i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma omp parallel for schedule(static)
    for (int64_t z = 0; z < d; z++)
        for (int64_t y = 0; y < h; y++) {
            const float *row = a + (z * h + y) * w, *other[8];
            float *to = out + (z * h + y) * w;
            for (int k = 0; k < radius; k++) {
                other[4 * k] = a + (clamp(z - 1 - k, d) * h + y) * w;
                other[4 * k + 1] = a + (clamp(z + 1 + k, d) * h + y) * w;
                other[4 * k + 2] = a + (z * h + clamp(y - 1 - k, h)) * w;
                other[4 * k + 3] = a + (z * h + clamp(y + 1 + k, h)) * w;
            }
            for (int64_t x = 0; x < w; x += 16) {
                v16f c = LOAD(row + x), s = c;
#pragma GCC unroll 8
                for (int k = 0; k < 4 * radius; k++) s = ADD(s, LOAD(other[k] + x));
#pragma GCC unroll 2
                for (int k = 1; k <= radius; k++) {
                    v16i left = _mm512_max_epi32(_mm512_sub_epi32(lane, _mm512_set1_epi32(k)), _mm512_setzero_si512());
                    v16i right = _mm512_min_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(k)), _mm512_set1_epi32(15));
                    s = ADD(s, x ? LOAD(row + x - k) : _mm512_permutexvar_ps(left, c));
                    s = ADD(s, x + 16 < w ? LOAD(row + x + k) : _mm512_permutexvar_ps(right, c));
                }
                if (stream) _mm512_stream_ps(to + x, MUL(s, scale));
                else _mm512_storeu_ps(to + x, MUL(s, scale));
            }
        }
    _mm_sfence();
}

void jacobi3d_7(const float *a, float *out, int64_t d, int64_t h, int64_t w) { sweep3(a, out, d, h, w, 1, 0); }
void jacobi3d_7_streamed(const float *a, float *out, int64_t d, int64_t h, int64_t w) { sweep3(a, out, d, h, w, 1, 1); }
void jacobi3d_13(const float *a, float *out, int64_t d, int64_t h, int64_t w) { sweep3(a, out, d, h, w, 2, 0); }
void jacobi3d_13_streamed(const float *a, float *out, int64_t d, int64_t h, int64_t w) { sweep3(a, out, d, h, w, 2, 1); }
