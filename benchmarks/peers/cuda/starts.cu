// The bins of each block of 256 give way to the sums of those before.
extern "C" __global__ void __launch_bounds__(256) starts(u32* bins) {
  __shared__ alignas(16) u32 totals[8];
  const i32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  const u32 own = bins[256 * blockIdx.x + t];
  u32 sum = own;
#pragma unroll
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
#pragma unroll
  for (i32 w = 0; w < 7; ++w)
    if (w < warp) sum += totals[w];
  bins[256 * blockIdx.x + t] = sum - own;
}
