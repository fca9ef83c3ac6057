// The elements of `source` below 500, in order, in one pass: a row of elements a thread, whose counts are scanned over the threads of each
// warp, over the warps, and over the blocks as in `scan.cu`; the kept elements of a block are put together in shared memory, from which
// neighbouring threads store neighbouring ones. Word b + 1 of `state` is what block b has told: 0 nothing, or in the upper half 1 and in the
// lower one the count of its elements, or 2 and the count up to its last one.
struct alignas(16) Four { i32 at[4]; };

__device__ __forceinline__ void tell(i64* word, i32 known, i32 count) { *(volatile i64*)word = (i64)known << 32 | (i64)(u32)count; }

// What comes before a block, by the threads of a warp: each looks at one block at a time.
__device__ __forceinline__ i32 look_back(const i64* state, i32 block, i32 lane) {
  i32 before = 0;
  for (i32 top = block;; top -= 32) {
    i64 word = 2ll << 32;
    if (lane < top)
      do word = *(const volatile i64*)(state + top - lane);
      while (word == 0);
    const u32 all = __ballot_sync(0xffffffffu, word >> 32 == 2);
    i32 count = lane < __ffs((i32)all) || all == 0 ? (i32)word : 0;
#pragma unroll
    for (i32 distance = 16; distance > 0; distance /= 2) count += __shfl_xor_sync(0xffffffffu, count, distance);
    before += count;
    if (all != 0) return before;
  }
}

extern "C" __global__ void __launch_bounds__(256) filter(const i32* __restrict__ source, i64* state, i32* __restrict__ target, i64 n) {
  constexpr i32 length = 16;
  __shared__ alignas(16) i32 kept[4096];
  __shared__ alignas(16) i32 totals[8];
  __shared__ alignas(16) i32 number[1];
  __shared__ alignas(16) i32 earlier[1];
  const i32 t = threadIdx.x, lane = t % 32;
  if (t == 0) number[0] = (i32)atomicAdd((u64*)state, 1ull);
  __syncthreads();
  const i32 block = number[0], first = (block * 256 + t) * length;
  i32 row[length], count = 0;
  if (first + length <= (i32)n) {
#pragma unroll
    for (i32 k = 0; k < length; k += 4) *(Four*)(row + k) = *(const Four*)(source + first + k);
  } else {
#pragma unroll
    for (i32 k = 0; k < length; ++k) row[k] = first + k < (i32)n ? source[first + k] : 500;
  }
#pragma unroll
  for (i32 k = 0; k < length; ++k) count += row[k] < 500;
  i32 sum = count;
#pragma unroll
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const i32 other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) totals[t / 32] = sum;
  __syncthreads();
  i32 place = sum - count, total = 0;
#pragma unroll
  for (i32 k = 0; k < 8; ++k) {
    if (k < t / 32) place += totals[k];
    total += totals[k];
  }
#pragma unroll
  for (i32 k = 0; k < length; ++k)
    if (row[k] < 500) kept[place++] = row[k];
  if (t < 32) {
    if (t == 0) tell(state + block + 1, block == 0 ? 2 : 1, total);
    const i32 before = look_back(state, block, lane);
    if (t == 0 && block > 0) tell(state + block + 1, 2, before + total);
    if (t == 0) earlier[0] = before;
  }
  __syncthreads();
  i32* const begin = target + earlier[0];
  for (i32 k = t; k < total; k += 256) begin[k] = kept[k];
}
