// Mandelbrot and n-body with intrinsics, and threads around the kernels in divergent.ispc.
#include "common.h"

enum { LIMIT = 256 };

// Four vectors side by side, until no lane of theirs is inside.
void mandelbrot(const float *ci, const float *cr, int32_t *out, int64_t h, int64_t w) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t r = 0; r < h; r++)
        for (int64_t x = 0; x < w; x += 64) {
            v16f real[4], zr[4], zi[4];
            v16i steps[4];
            __mmask16 on[4], there[4];
            for (int v = 0; v < 4; v++) {
                there[v] = on[v] = first(w - x - 16 * v > 0 ? w - x - 16 * v : 0);
                real[v] = _mm512_maskz_loadu_ps(on[v], cr + x + 16 * v);
                zr[v] = zi[v] = ZERO;
                steps[v] = _mm512_setzero_si512();
            }
            const v16f imaginary = ALL(ci[r]), four = ALL(4);
            for (int k = 0; k < LIMIT; k++) {
                unsigned any = 0;
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++) {
                    v16f rr = MUL(zr[v], zr[v]), ii = MUL(zi[v], zi[v]), ri = MUL(zr[v], zi[v]);
                    any |= on[v] = _mm512_mask_cmp_ps_mask(on[v], ADD(rr, ii), four, _CMP_LE_OQ);
                    steps[v] = _mm512_mask_add_epi32(steps[v], on[v], steps[v], _mm512_set1_epi32(1));
                    zi[v] = ADD(ADD(ri, ri), imaginary);
                    zr[v] = ADD(_mm512_sub_ps(rr, ii), real[v]);
                }
                if (!any) break;
            }
            for (int v = 0; v < 4; v++) _mm512_mask_storeu_epi32(out + r * w + x + 16 * v, there[v], steps[v]);
        }
}

// Two vectors of bodies; the estimate of 1 / sqrt improved by one step of Newton's.
void nbody(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az, int64_t n) {
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n; b += 32) {
        v16f px[2], py[2], pz[2], sx[2], sy[2], sz[2];
        __mmask16 on[2];
        for (int v = 0; v < 2; v++) {
            on[v] = first(n - b - 16 * v > 0 ? n - b - 16 * v : 0);
            px[v] = _mm512_maskz_loadu_ps(on[v], x + b + 16 * v);
            py[v] = _mm512_maskz_loadu_ps(on[v], y + b + 16 * v);
            pz[v] = _mm512_maskz_loadu_ps(on[v], z + b + 16 * v);
            sx[v] = sy[v] = sz[v] = ZERO;
        }
        for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                v16f dx = _mm512_sub_ps(ALL(x[j]), px[v]), dy = _mm512_sub_ps(ALL(y[j]), py[v]),
                     dz = _mm512_sub_ps(ALL(z[j]), pz[v]);
                v16f near = FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, ALL(0.0025f)))), e = _mm512_rsqrt14_ps(near);
                e = MUL(e, _mm512_fnmadd_ps(MUL(ALL(0.5f), near), MUL(e, e), ALL(1.5f)));
                v16f s = MUL(MUL(ALL(m[j]), e), MUL(e, e));
                sx[v] = FMA(dx, s, sx[v]);
                sy[v] = FMA(dy, s, sy[v]);
                sz[v] = FMA(dz, s, sz[v]);
            }
        for (int v = 0; v < 2; v++) {
            _mm512_mask_storeu_ps(ax + b + 16 * v, on[v], sx[v]);
            _mm512_mask_storeu_ps(ay + b + 16 * v, on[v], sy[v]);
            _mm512_mask_storeu_ps(az + b + 16 * v, on[v], sz[v]);
        }
    }
}

void mandelbrot_row(float ci, const float *cr, int32_t *out, int32_t w);
void nbody_part(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az,
                int32_t begin, int32_t end, int32_t n);
void prices(const float *spot, const float *strike, const float *years, float *calls, float *puts, int32_t n);
void shade_row(const float *y, const float *xs, const float *dx, const float *dy, const float *dz, float *out, int32_t w,
               int32_t rays);

void mandelbrot_ispc(const float *ci, const float *cr, int32_t *out, int64_t h, int64_t w) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t y = 0; y < h; y++) mandelbrot_row(ci[y], cr, out + y * w, (int32_t)w);
}

void nbody_ispc(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az,
                int64_t n) {
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n; b += 64)
        nbody_part(x, y, z, m, ax, ay, az, (int32_t)b, (int32_t)smaller(b + 64, n), (int32_t)n);
}

void black_scholes_ispc(const float *spot, const float *strike, const float *years, float *calls, float *puts,
                        int64_t n) {
    enum { PIECE = 1 << 18 };
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += PIECE)
        prices(spot + i, strike + i, years + i, calls + i, puts + i, (int32_t)smaller(PIECE, n - i));
}

void ambient_occlusion_ispc(const float *ys, const float *xs, const float *dx, const float *dy, const float *dz,
                            float *out, int64_t h, int64_t w, int64_t rays) {
#pragma omp parallel for schedule(dynamic, 2)
    for (int64_t y = 0; y < h; y++) shade_row(ys + 2 * y, xs, dx, dy, dz, out + y * w, (int32_t)w, (int32_t)rays);
}
