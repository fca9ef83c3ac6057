// Counts the digits of eight bits of n keys: bin 256 p + d is how many have digit d at bits 8 p and on; all are 0 before.
extern "C" __global__ void __launch_bounds__(256) digits(const u32* __restrict__ source, u32* bins, i64 n) {
  constexpr i32 length = 64;
  __shared__ alignas(16) u32 own[1024];
  const i32 t = threadIdx.x, first = (i32)blockIdx.x * 256 * length;
  const i32 end = first + 256 * length < (i32)n ? first + 256 * length : (i32)n;
#pragma unroll
  for (i32 p = 0; p < 4; ++p) own[256 * p + t] = 0;
  __syncthreads();
  for (i32 i = first + t; i < end; i += 256) {
    const u32 key = source[i];
#pragma unroll
    for (i32 p = 0; p < 4; ++p) atomicAdd(&own[256 * p + (key >> 8 * p & 255)], 1u);
  }
  __syncthreads();
#pragma unroll
  for (i32 p = 0; p < 4; ++p) atomicAdd(&bins[256 * p + t], own[256 * p + t]);
}
