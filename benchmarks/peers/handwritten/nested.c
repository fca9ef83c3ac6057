// Loops over nested arrays and over arrays that change in place, as one writes them in C: plain loops, which gcc vectorises.
#include "common.h"

void rows_in_maps(const float *u, float *out, int64_t n, int64_t m) {
#pragma omp parallel for
    for (int64_t r = 0; r < n; r++) {
        const float *x = u + r * m;
        float *y = out + r * m;
        y[0] = x[0];
        for (int64_t i = 0; i + 1 < m; i++) y[i + 1] = x[i + 1] - 0.5f * y[i];
    }
}

void loops_in_loops(const int32_t *a, int32_t *out, int64_t n) {
    memcpy(out, a, n * n * sizeof *a);
    for (int64_t i = 0; i + 1 < n; i++)
        for (int64_t j = 0; j + 1 < n; j++)
            out[(i + 1) * n + j + 1] = (int32_t)((uint32_t)out[i * n + j] + (uint32_t)out[(i + 1) * n + j]);
}

void sum_of_scans(const float *x, const float *v, float *out, int64_t n, int64_t d) {
    float total = 0;
    for (int64_t i = 0; i < n; i++) {
        float run = 0, third = 0;
        for (int64_t k = 0; k < d; k++) {
            run += v[k] * x[i];
            if (k == 2) third = run;
        }
        total += third;
    }
    *out = total;
}

void product_chain(const float *ys, const float *B, const float *A, const float *X, float *out, int64_t m, int64_t n,
                   int64_t k, int64_t p) {
#pragma omp parallel for
    for (int64_t r = 0; r < m; r++) {
        float first[k], second[k];
        for (int64_t i = 0; i < k; i++) {
            float s = 0;
#pragma omp simd reduction(+ : s)
            for (int64_t j = 0; j < n; j++) s += B[i * n + j] * ys[r * n + j];
            first[i] = s;
        }
        for (int64_t i = 0; i < k; i++) {
            float s = 0;
            for (int64_t j = 0; j < k; j++) s += A[i * k + j] * first[j];
            second[i] = s;
        }
        for (int64_t i = 0; i < p; i++) {
            float s = 0;
            for (int64_t j = 0; j < k; j++) s += X[i * k + j] * second[j];
            out[r * p + i] = s;
        }
    }
}

void tiles_in_loops(const float *m, float *out, int64_t n) {
    static float tile[4096];
    memcpy(out, m, n * sizeof *m);
    for (int64_t d = 0; d < 4; d++)
        for (int64_t k = 0; k <= d; k++) {
            for (int64_t i = 0; i < 4096; i++) tile[i] = (float)k;
            for (int64_t t = 0; t < 64; t++) {
                for (int64_t i = 0; i < 4096; i++) tile[i] *= 0.5f;
                __asm__ volatile("" ::: "memory");
            }
            memcpy(out + k * 4096, tile, sizeof tile);
        }
}

void block_elimination(const float *m, float *out, int64_t n) {
    const int64_t c = 32, size = c * c, row = n * size;
    memcpy(out, m, n * row * sizeof *m);
    for (int64_t k = 0; k + 1 < n; k++) {
        float d[32][32];
        memcpy(d, out + k * row + k * size, sizeof d);
#pragma omp parallel for
        for (int64_t i = k + 1; i < n; i++) {
            float *left = out + i * row + k * size, product[32][32] = {{0}};
            for (int64_t r = 0; r < c; r++) {
                float *x = left + r * c;
                for (int64_t j = 1; j < c; j++) {  // each solved number leaves the ones after it
                    float solved = x[j - 1];
                    for (int64_t l = j; l < c; l++) x[l] -= d[j - 1][l] * solved;
                }
                for (int64_t j = 0; j < c; j++)
                    for (int64_t l = 0; l < c; l++) product[r][l] += x[j] * d[j][l];
            }
            for (int64_t j = k + 1; j < n; j++)
                for (int64_t e = 0; e < size; e++) out[i * row + j * size + e] -= ((float *)product)[e];
        }
    }
}

static void shift_in_place(float *out, int64_t from, int64_t count) {
    for (int64_t i = from; i < from + count; i++) out[i] = out[i + 1] + 1.0f;
}

void shifted_slice(const float *a, float *out, int64_t n) {
    memcpy(out, a, n * sizeof *a);
    for (int64_t t = 0; t < 200; t++) shift_in_place(out, t, 16);
}

void counted_scatter(const float *a, float *out, int64_t n) {
    memcpy(out, a, n * sizeof *a);
    for (int64_t t = 0; t < 200; t++) shift_in_place(out, 0, smaller(t + 1, 16));
}

static void eliminate(float *m, int64_t k, int64_t n) {
#pragma omp parallel for
    for (int64_t i = k + 1; i < n; i++) {
        float factor = m[i * n + k] /= m[k * n + k];
        for (int64_t j = k + 1; j < n; j++) m[i * n + j] -= factor * m[k * n + j];
    }
}

void lu(const float *a, float *out, int64_t n) {
    memcpy(out, a, n * n * sizeof *a);
    for (int64_t k = 0; k + 1 < n; k++) eliminate(out, k, n);
}

void lu_pivots(const float *a, float *out, int64_t n) {
    memcpy(out, a, n * n * sizeof *a);
    for (int64_t k = 0; k + 1 < n; k++) {
        int64_t p = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabsf(out[i * n + k]) > fabsf(out[p * n + k])) p = i;
        for (int64_t j = 0; p != k && j < n; j++) {
            float other = out[k * n + j];
            out[k * n + j] = out[p * n + j];
            out[p * n + j] = other;
        }
        eliminate(out, k, n);
    }
}

void scan_of_sums(const float *a, float *out, int64_t k, int64_t w) {
    float run = 0;
    for (int64_t i = 0; i < k; i++) {
        float s = 0;
        for (int64_t j = 0; j < w; j++) s += a[i * w + j];
        out[i] = run += s;
    }
}

void scan_of_exp(const float *a, float *out, int64_t n) {
    double run = 0;
    for (int64_t i = 0; i < n; i++) out[i] = (float)(run += expf(a[i]) * sinf(a[i]));
}

void rows_of_a_matrix(const float *x, float *out, int64_t h, int64_t w) {
    memcpy(out, x, w * sizeof *x);
    for (int64_t i = 0; i + 1 < h; i++)
        for (int64_t j = 0; j < w; j++) out[(i + 1) * w + j] = 0.9f * out[i * w + j] + x[(i + 1) * w + j];
}

void wave(const float *u, float *out, int64_t h, int64_t w) {
    const float c = 0.5f, k = (c - 1) / (c + 1);
    const size_t bytes = h * w * sizeof *u;
    float *before = malloc(bytes), *now = malloc(bytes), *after = malloc(bytes);
    memcpy(before, u, bytes);
    memcpy(now, u, bytes);
    for (int64_t t = 0; t < 200; t++) {
#pragma omp parallel for
        for (int64_t y = 0; y < h; y++) {
            const float *p = now + y * w, *up = now + clamp(y - 1, h) * w, *down = now + clamp(y + 1, h) * w;
            const float *old = before + y * w;
            float *q = after + y * w;
            for (int64_t x = 1; x + 1 < w; x++) q[x] = 2 * p[x] - old[x] + c * c * (up[x] + down[x] + p[x - 1] + p[x + 1] - 4 * p[x]);
            q[0] = 2 * p[0] - old[0] + c * c * (up[0] + down[0] + p[0] + p[1] - 4 * p[0]);
            q[w - 1] = 2 * p[w - 1] - old[w - 1] + c * c * (up[w - 1] + down[w - 1] + p[w - 2] + p[w - 1] - 4 * p[w - 1]);
        }
        for (int64_t x = 0; x < w; x++) after[x] = now[w + x] + k * (after[w + x] - now[x]);
        for (int64_t x = 0; x < w; x++)
            after[(h - 1) * w + x] = now[(h - 2) * w + x] + k * (after[(h - 2) * w + x] - now[(h - 1) * w + x]);
        for (int64_t y = 0; y < h; y++) after[y * w] = now[y * w + 1] + k * (after[y * w + 1] - now[y * w]);
        for (int64_t y = 0; y < h; y++)
            after[y * w + w - 1] = now[y * w + w - 2] + k * (after[y * w + w - 2] - now[y * w + w - 1]);
        float *free_again = before;
        before = now, now = after, after = free_again;
    }
    memcpy(out, now, bytes);
    free(before), free(now), free(after);
}

void plate(const float *u, float *out, int64_t h, int64_t w) {
    const size_t bytes = h * w * sizeof *u;
    float *now = malloc(bytes), *after = malloc(bytes);
    memcpy(now, u, bytes);
    memcpy(after, u, bytes);
    for (int64_t t = 0; t < 200; t++) {
#pragma omp parallel for
        for (int64_t y = 1; y < h - 1; y++) {
            const float *p = now + y * w, *up = p - w, *down = p + w;
            float *q = after + y * w;
            for (int64_t x = 1; x < w - 1; x++) q[x] = (up[x] + down[x] + p[x - 1] + p[x + 1]) / 4;
        }
        float *free_again = now;
        now = after, after = free_again;
    }
    memcpy(out, now, bytes);
    free(now), free(after);
}

void queens(const int32_t *places, int32_t *out, int64_t n) {
    enum { size = 10, full = (1 << size) - 1 };
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = 0; i < n; i++) {
        const int first = 1 << places[i] % size, second = 1 << places[i] / size % size;
        int free[size], columns[size], left[size], right[size], found = 0;
        columns[0] = first | second, left[0] = first << 2 | second << 1, right[0] = first >> 2 | second >> 1;
        free[0] = full & ~(columns[0] | left[0] | right[0]);
        int top = second & (first | first << 1 | first >> 1) ? -1 : 0;
        while (top >= 0) {
            const int f = free[top], bit = f & -f;
            if (!f) {
                top--;
                continue;
            }
            free[top] = f & ~bit;
            const int c = columns[top] | bit, a = (left[top] | bit) << 1, b = (right[top] | bit) >> 1;
            if (c == full) {
                found++;
                continue;
            }
            top++;
            columns[top] = c, left[top] = a, right[top] = b, free[top] = full & ~(c | a | b);
        }
        out[i] = found;
    }
}

void byte_code(const int32_t *code, const int32_t *xs, int32_t *out, int64_t m, int64_t n) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t i = 0; i < n; i++) {
        int32_t registers[24] = {xs[i]};
        int64_t at = 0;
        for (int steps = 0; steps < 1000 && at < m; steps++) {
            const int32_t word = code[at], a = word >> 4 & 7, b = word >> 8 & 7, number = word >> 16;
            int64_t next = 1;
            switch (word & 15) {
            case 0: registers[a] = number; break;
            case 1: registers[a] += registers[b]; break;
            case 2: registers[a] -= registers[b]; break;
            case 3: registers[a] *= registers[b]; break;
            case 4: registers[a] >>= 1; break;
            case 5: registers[a] &= registers[b]; break;
            case 6: next = registers[a] ? number : 1; break;
            case 7: next = registers[a] ? 1 : number; break;
            case 8: next = number; break;
            }
            at += next;
        }
        out[i] = registers[1];
    }
}

void insertion_sorts(const float *rows, float *out, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        float a[32];
        for (int k = 0; k < 32; k++) {
            const float value = rows[i * 32 + k];
            int j = k;
            for (; j > 0 && a[j - 1] > value; j--) a[j] = a[j - 1];
            a[j] = value;
        }
        memcpy(out + i * 32, a, sizeof a);
    }
}
