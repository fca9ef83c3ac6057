// The inclusive scan of each block's share of `source`, begun with the scan of the blocks before it: a row of elements a thread, a
// scan over the threads of each warp, and one over the warps.
struct alignas(16) Four { f32 at[4]; };

extern "C" __global__ void __launch_bounds__(256)
    scan(const f32* __restrict__ source, const f32* before, f32* target, i64 n) {
  constexpr i32 length = 16;
  __shared__ alignas(16) f32 totals[8];
  const i32 t = threadIdx.x, first = (blockIdx.x * 256 + t) * length;
  const bool whole = first + length <= (i32)n;
  f32 row[length];
  if (whole) {
#pragma unroll
    for (i32 k = 0; k < length; k += 4) *(Four*)(row + k) = *(const Four*)(source + first + k);
  } else {
#pragma unroll
    for (i32 k = 0; k < length; ++k) row[k] = first + k < (i32)n ? source[first + k] : 0;
  }
#pragma unroll
  for (i32 k = 1; k < length; ++k) row[k] += row[k - 1];
  f32 sum = row[length - 1];
#pragma unroll
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const f32 other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (t % 32 >= distance) sum += other;
  }
  if (t % 32 == 31) totals[t / 32] = sum;
  __syncthreads();
  f32 begin = __shfl_up_sync(0xffffffffu, sum, 1);
  if (t % 32 == 0) begin = 0;
#pragma unroll
  for (i32 k = 0; k < 7; ++k)
    if (k < t / 32) begin += totals[k];
  if (blockIdx.x > 0) begin += before[blockIdx.x - 1];
#pragma unroll
  for (i32 k = 0; k < length; ++k) row[k] += begin;
  if (whole) {
#pragma unroll
    for (i32 k = 0; k < length; k += 4) *(Four*)(target + first + k) = *(const Four*)(row + k);
  } else {
#pragma unroll
    for (i32 k = 0; k < length; ++k)
      if (first + k < (i32)n) target[first + k] = row[k];
  }
}
