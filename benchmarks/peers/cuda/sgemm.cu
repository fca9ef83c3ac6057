// c = a b: tiles of 64 × 64 for a block, of 8 × 8 in the registers of a thread, 8 steps of both factors in shared memory.
extern "C" __global__ void __launch_bounds__(64)
    sgemm(const f32* __restrict__ a, const f32* __restrict__ b, f32* __restrict__ c, i64 rows, i64 depth, i64 columns) {
  constexpr i32 tile = 64, steps = 8, side = 8, along = 8, threads = 64;
  __shared__ alignas(16) f32 left[512];
  __shared__ alignas(16) f32 right[512];
  const i32 n = (i32)rows, k = (i32)depth, m = (i32)columns;
  const i32 tx = threadIdx.x, ty = threadIdx.y, t = ty * along + tx, top = blockIdx.y * tile, first = blockIdx.x * tile;
  f32 sums[side][side] = {};
  for (i32 r = 0; r < k; r += steps) {
#pragma unroll
    for (i32 e = 0; e < tile * steps; e += threads) {
      const i32 y = (e + t) / steps, z = (e + t) % steps, x = (e + t) % tile, d = (e + t) / tile;
      left[z * tile + y] = top + y < n && r + z < k ? a[(top + y) * k + r + z] : 0;
      right[d * tile + x] = first + x < m && r + d < k ? b[(r + d) * m + first + x] : 0;
    }
    __syncthreads();
#pragma unroll
    for (i32 z = 0; z < steps; ++z) {
      f32 p[side], q[side];
#pragma unroll
      for (i32 i = 0; i < side; ++i) {
        p[i] = left[z * tile + ty * side + i];
        q[i] = right[z * tile + tx * side + i];
      }
#pragma unroll
      for (i32 i = 0; i < side; ++i)
#pragma unroll
        for (i32 j = 0; j < side; ++j) sums[i][j] = __fmaf_rn(p[i], q[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (i32 i = 0; i < side; ++i)
#pragma unroll
    for (i32 j = 0; j < side; ++j) {
      const i32 y = top + ty * side + i, x = first + tx * side + j;
      if (y < n && x < m) c[y * m + x] = sums[i][j];
    }
}
