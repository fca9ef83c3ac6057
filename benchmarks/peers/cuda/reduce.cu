// The sum of each block's share of `source`: strided by the block, then a tree over the threads of a warp, and one over the warps. Whole
// shares of 8192 elements, eight times four for each thread, have code of their own.
struct alignas(16) Four { f32 at[4]; };

extern "C" __global__ void __launch_bounds__(256) reduce(const f32* __restrict__ source, f32* __restrict__ target, i64 n, i64 share) {
  __shared__ alignas(16) f32 partial[8];
  const i32 t = threadIdx.x, begin = blockIdx.x * (i32)share;
  const i32 end = begin + (i32)share < (i32)n ? begin + (i32)share : (i32)n, whole = begin + (end - begin) / 4 * 4;
  f32 sums[4] = {0, 0, 0, 0};
  if (end - begin == 8192) {
#pragma unroll
    for (i32 i = 0; i < 8; ++i) {
      const Four four = *(const Four*)(source + begin + 4 * t + 1024 * i);
#pragma unroll
      for (i32 k = 0; k < 4; ++k) sums[k] += four.at[k];
    }
  } else {
#pragma unroll 1
    for (i32 i = begin + 4 * t; i < whole; i += 1024) {
      const Four four = *(const Four*)(source + i);
#pragma unroll
      for (i32 k = 0; k < 4; ++k) sums[k] += four.at[k];
    }
  }
  f32 sum = sums[0] + sums[1] + sums[2] + sums[3];
  if (whole + t < end) sum += source[whole + t];
#pragma unroll
  for (i32 distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
  if (t % 32 == 0) partial[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = t < 8 ? partial[t] : 0;
#pragma unroll
    for (i32 distance = 4; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (t == 0) target[blockIdx.x] = sum;
  }
}
