// The acceleration of every body by all, softened: a thread has a body, and blocks read the others through shared memory (Nyland, Harris & Prins,
// Fast N-body simulation with CUDA, 2007). Bodies beyond the last have no mass.
extern "C" __global__ void __launch_bounds__(256)
    nbody(const f32* __restrict__ x, const f32* __restrict__ y, const f32* __restrict__ z, const f32* __restrict__ m, f32* __restrict__ ax,
          f32* __restrict__ ay, f32* __restrict__ az, i64 n) {
  __shared__ alignas(16) f32 bodies[1024];
  const i32 count = (i32)n, t = threadIdx.x, i = blockIdx.x * 256 + t, own = i < count ? i : count - 1;
  const f32 px = x[own], py = y[own], pz = z[own];
  f32 sx = 0, sy = 0, sz = 0;
  for (i32 first = 0; first < count; first += 256) {
    const i32 j = first + t;
    bodies[4 * t] = j < count ? x[j] : 0;
    bodies[4 * t + 1] = j < count ? y[j] : 0;
    bodies[4 * t + 2] = j < count ? z[j] : 0;
    bodies[4 * t + 3] = j < count ? m[j] : 0;
    __syncthreads();
#pragma unroll 8
    for (i32 k = 0; k < 256; ++k) {
      const f32 dx = bodies[4 * k] - px, dy = bodies[4 * k + 1] - py, dz = bodies[4 * k + 2] - pz;
      const f32 near = dx * dx + dy * dy + dz * dz + 0.0025f;
      const f32 s = bodies[4 * k + 3] / (near * sqrtf(near));
      sx += dx * s;
      sy += dy * s;
      sz += dz * s;
    }
    __syncthreads();
  }
  if (i >= count) return;
  ax[i] = sx;
  ay[i] = sy;
  az[i] = sz;
}
