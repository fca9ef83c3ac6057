// The kernels that ISPC vectorises: a lane for each element, each going its own way.

export void mandelbrot_row(uniform float ci, const uniform float cr[], uniform int32 out[], uniform int32 w) {
    foreach (x = 0 ... w) {
        float zr = 0, zi = 0, real = cr[x];
        int steps = 0;
        while (zr * zr + zi * zi <= 4 && steps < 256) {
            float next = zr * zr - zi * zi + real;
            zi = 2 * zr * zi + ci;
            zr = next;
            steps++;
        }
        out[x] = steps;
    }
}

export void nbody_part(const uniform float x[], const uniform float y[], const uniform float z[], const uniform float m[],
                       uniform float ax[], uniform float ay[], uniform float az[], uniform int32 begin,
                       uniform int32 end, uniform int32 n) {
    foreach (i = begin ... end) {
        float px = x[i], py = y[i], pz = z[i], sx = 0, sy = 0, sz = 0;
        for (uniform int j = 0; j < n; j++) {
            float dx = x[j] - px, dy = y[j] - py, dz = z[j] - pz;
            float e = rsqrt(dx * dx + dy * dy + dz * dz + 0.0025f);
            float s = m[j] * e * e * e;
            sx += dx * s;
            sy += dy * s;
            sz += dz * s;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}

static inline float below(float d) {
    float k = 1 / (1 + 0.2316419f * abs(d));
    float p = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float c = 0.39894228f * exp(-0.5f * d * d) * p;
    return d > 0 ? 1 - c : c;
}

export void prices(const uniform float spot[], const uniform float strike[], const uniform float years[],
                   uniform float calls[], uniform float puts[], uniform int32 n) {
    foreach (i = 0 ... n) {
        float s = spot[i], x = strike[i], t = years[i];
        float spread = 0.3f * sqrt(t);
        float d1 = (log(s / x) + 0.065f * t) / spread;
        float later = x * exp(-0.02f * t);
        float n1 = below(d1), n2 = below(d1 - spread);
        calls[i] = s * n1 - later * n2;
        puts[i] = later * (1 - n2) - s * (1 - n1);
    }
}

struct Vector {
    float x, y, z;
};
static inline Vector vector(float x, float y, float z) {
    Vector v = {x, y, z};
    return v;
}
static inline float dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vector along(float s, Vector a, Vector b) { return vector(s * a.x + b.x, s * a.y + b.y, s * a.z + b.z); }
static inline Vector cross_product(Vector a, Vector b) {
    return vector(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
static inline Vector unit(Vector a) {
    float s = rsqrt(dot(a, a));
    return vector(s * a.x, s * a.y, s * a.z);
}
static inline Vector from_sphere(uniform int k, Vector p) {
    return k == 0   ? vector(p.x + 2, p.y, p.z + 3.5f)
           : k == 1 ? vector(p.x + 0.5f, p.y, p.z + 3)
                    : vector(p.x - 1, p.y, p.z + 2.2f);
}

static inline void meet(uniform int k, Vector ray, float &best, Vector &normal) {
    Vector eye = vector(0, 0, 0);
    Vector away = from_sphere(k, eye);
    float b = dot(away, ray);
    float inside = b * b - (dot(away, away) - 0.25f);
    cif(inside > 0) {
        float t = -b - sqrt(inside);
        if (t > 0 && t < best) {
            best = t;
            normal = unit(from_sphere(k, along(t, ray, eye)));
        }
    }
}

static inline bool met(uniform int k, Vector origin, Vector ray) {
    Vector away = from_sphere(k, origin);
    float b = dot(away, ray), c = dot(away, away) - 0.25f;
    return b * b > c && b < 0 && c > 0;
}

static inline float light(float x, float y, const uniform float dx[], const uniform float dy[], const uniform float dz[],
                          uniform int rays) {
    Vector ray = unit(vector(x, y, -1)), normal = vector(0, 1, 0);
    float best = ray.y < 0 ? -0.5f / ray.y : 1e17f, open = 0;
    meet(0, ray, best, normal);
    meet(1, ray, best, normal);
    meet(2, ray, best, normal);
    cif(best < 1e17f) {
        Vector up = abs(normal.x) < 0.6f   ? vector(1, 0, 0)
                    : abs(normal.y) < 0.6f ? vector(0, 1, 0)
                                           : vector(0, 0, 1);
        Vector b0 = unit(cross_product(up, normal));
        Vector b1 = unit(cross_product(normal, b0));
        Vector origin = along(1e-4f, normal, vector(best * ray.x, best * ray.y, best * ray.z));
        int hits = 0;
        for (uniform int i = 0; i < rays; i++) {
            Vector w = vector(dz[i] * normal.x, dz[i] * normal.y, dz[i] * normal.z);
            Vector way = along(dx[i], b0, along(dy[i], b1, w));
            bool hit = (origin.y + 0.5f) * way.y < 0 || met(0, origin, way) || met(1, origin, way) || met(2, origin, way);
            hits += hit ? 1 : 0;
        }
        open = 1 - (float)hits / rays;
    }
    return open;
}

export void shade_row(const uniform float y[], const uniform float xs[], const uniform float dx[],
                      const uniform float dy[], const uniform float dz[], uniform float out[], uniform int32 w,
                      uniform int32 rays) {
    foreach (c = 0 ... w) {
        float sum = 0;
        for (uniform int v = 0; v < 2; v++)
            for (uniform int u = 0; u < 2; u++) sum += light(xs[2 * c + u], y[v], dx, dy, dz, rays);
        out[c] = sum / 4;
    }
}
