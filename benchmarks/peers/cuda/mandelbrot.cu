// How many iterations of z² + c stay within 2, at most 256: one point a thread.
extern "C" __global__ void __launch_bounds__(256)
    mandelbrot(const f32* __restrict__ ci, const f32* __restrict__ cr, i32* __restrict__ target, i64 h, i64 w) {
  const i32 x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x >= (i32)w || y >= (i32)h) return;
  const f32 re = cr[x], im = ci[y];
  f32 zr = 0, zi = 0;
  i32 steps = 0;
  for (; steps < 256; ++steps) {
    const f32 rr = zr * zr, ii = zi * zi;
    if (!(rr + ii <= 4)) break;
    zi = 2 * zr * zi + im;
    zr = rr - ii + re;
  }
  target[y * (i32)w + x] = steps;
}
