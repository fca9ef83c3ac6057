// The inclusive scan of `source` in one pass (Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back, 2016): a row of
// elements a thread, a scan over the threads of each warp, one over the warps, and one over the blocks, which take numbers in the order in
// which they begin. Word 0 of `state` counts them. Word b + 1 is what block b has told: 0 nothing, or in the upper half 1 and in the lower
// one the sum of its elements, or 2 and the sum up to its last one.
struct alignas(16) Four { f32 at[4]; };

__device__ __forceinline__ void tell(i64* word, i32 known, f32 sum) {
  *(volatile i64*)word = (i64)known << 32 | (i64)__float_as_uint(sum);
}

// What comes before a block, by the threads of a warp: each looks at one block at a time.
__device__ __forceinline__ f32 look_back(const i64* state, i32 block, i32 lane) {
  f32 before = 0;
  for (i32 top = block;; top -= 32) {
    i64 word = 2ll << 32;
    if (lane < top)
      do word = *(const volatile i64*)(state + top - lane);
      while (word == 0);
    const u32 all = __ballot_sync(0xffffffffu, word >> 32 == 2);
    f32 sum = lane < __ffs((i32)all) || all == 0 ? __uint_as_float((u32)word) : 0;
#pragma unroll
    for (i32 distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    before += sum;
    if (all != 0) return before;
  }
}

extern "C" __global__ void __launch_bounds__(256) scan(const f32* __restrict__ source, i64* state, f32* __restrict__ target, i64 n) {
  constexpr i32 length = 16;
  __shared__ alignas(16) f32 totals[8];
  __shared__ alignas(16) i32 number[1];
  __shared__ alignas(16) f32 earlier[1];
  const i32 t = threadIdx.x, lane = t % 32;
  if (t == 0) number[0] = (i32)atomicAdd((u64*)state, 1ull);
  __syncthreads();
  const i32 block = number[0], first = (block * 256 + t) * length;
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
    if (lane >= distance) sum += other;
  }
  if (lane == 31) totals[t / 32] = sum;
  __syncthreads();
  f32 begin = __shfl_up_sync(0xffffffffu, sum, 1);
  if (lane == 0) begin = 0;
#pragma unroll
  for (i32 k = 0; k < 7; ++k)
    if (k < t / 32) begin += totals[k];
  if (t < 32) {
    f32 total = totals[0];
#pragma unroll
    for (i32 k = 1; k < 8; ++k) total += totals[k];
    if (t == 0) tell(state + block + 1, block == 0 ? 2 : 1, total);
    const f32 before = look_back(state, block, lane);
    if (t == 0 && block > 0) tell(state + block + 1, 2, before + total);
    if (t == 0) earlier[0] = before;
  }
  __syncthreads();
  begin += earlier[0];
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
