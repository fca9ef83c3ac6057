// One pass of a radix sort of `source` by eight bits from `low` on, which reads every key once and writes it once (Adinets & Merrill, Onesweep,
// 2022); n < 2^30. Word 32 low + d of `places` is where the keys with digit d begin. Threads of a warp find those with the same digit by eight
// votes (Ashkiani et al., GPU multisplit, 2016); keys go through shared memory, so that neighbours write neighbouring places. Word 0 of `state`
// counts blocks as they begin. Word 256 (b + 1) + d is what block b has told of digit d: 0 nothing, or in its two highest bits 1 and below the
// keys that it has, or 2 and the place behind its last one.

// The threads of a warp for which a word is not 0. Around __ballot_sync the compiler makes the test twice.
__device__ __forceinline__ u32 vote(u32 word) {
#ifdef RAIDO_ON_CPU
  return __ballot_sync(0xffffffffu, word != 0);
#else
  u32 all;
  asm volatile("{.reg .pred set; setp.ne.u32 set, %1, 0; vote.sync.ballot.b32 %0, set, 0xffffffff;}" : "=r"(all) : "r"(word));
  return all;
#endif
}

extern "C" __global__ void __launch_bounds__(256) sort(const u32* __restrict__ source, const u32* __restrict__ places, u32* state, u32* __restrict__ target, i64 n, i64 low) {
  constexpr i32 length = 16, warps = 8;
  constexpr u32 counted = 1u << 30, known = 2u << 30, value = counted - 1;
  __shared__ alignas(16) u32 counts[2048];
  __shared__ alignas(16) u32 keys[4096];
  __shared__ alignas(16) u32 moves[256];
  __shared__ alignas(16) u32 totals[8];
  __shared__ alignas(16) i32 number[1];
  const i32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  if (t == 0) number[0] = (i32)atomicAdd(state, 1u);
#pragma unroll
  for (i32 w = 0; w < warps; ++w) counts[256 * w + t] = 0;
  __syncthreads();
  const i32 block = number[0], first = block * 256 * length;
  const bool whole = first + 256 * length <= (i32)n;
  const i32 count = whole ? 256 * length : (i32)n - first;
  u32 own[length], rank[length];
  const i32 begin = warp * 32 * length + lane;
  if (whole) {
#pragma unroll
    for (i32 k = 0; k < length; ++k) own[k] = source[first + begin + 32 * k];
  } else {
#pragma unroll
    for (i32 k = 0; k < length; ++k) own[k] = begin + 32 * k < count ? source[first + begin + 32 * k] : 0xffffffffu;
  }
  u32* const counters = counts + 256 * warp;
  const u32 earlier_lanes = (1u << lane) - 1;
#pragma unroll
  for (i32 k = 0; k < length; ++k) {
    const u32 digit = own[k] >> (u32)low & 255;
    u32 alike = 0xffffffffu;
#pragma unroll
    for (i32 bit = 0; bit < 8; ++bit) {
      const u32 set = digit & 1u << bit, votes = vote(set);
      alike &= set ? votes : ~votes;
    }
    const u32 before = __popc(alike & earlier_lanes);
    const u32 counter = counters[digit];
    __syncwarp();
    if (before == 0) counters[digit] = counter + __popc(alike);
    __syncwarp();
    rank[k] = counter + before;
  }
  __syncthreads();
  u32 total = 0;  // of the digit t: the keys of the warps before each give way to them
#pragma unroll
  for (i32 w = 0; w < warps; ++w) {
    const u32 here = counts[256 * w + t];
    counts[256 * w + t] = total;
    total += here;
  }
  u32* const told = state + 256 * (block + 1) + t;
  *(volatile u32*)told = counted | total;
  u32 sum = total;
#pragma unroll
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
  u32 start = sum - total;
#pragma unroll
  for (i32 w = 0; w < warps - 1; ++w)
    if (w < warp) start += totals[w];
#pragma unroll
  for (i32 w = 0; w < warps; ++w) counts[256 * w + t] += start;
  __syncthreads();
#pragma unroll
  for (i32 k = 0; k < length; ++k) keys[counters[own[k] >> (u32)low & 255] + rank[k]] = own[k];
  u32 earlier = 0, word = 0;
  const u32* before = told;
  for (i32 b = block; b > 0 && word < known; --b) {
    before -= 256;
    do word = *(const volatile u32*)before;
    while (word == 0);
    earlier += word & value;
  }
  if (word < known) earlier += places[32 * low + t];
  *(volatile u32*)told = known | (earlier + total);
  moves[t] = earlier - start;
  __syncthreads();
  if (whole) {
#pragma unroll
    for (i32 k = 0; k < length; ++k) {
      const u32 key = keys[k * 256 + t];
      target[moves[key >> (u32)low & 255] + k * 256 + t] = key;
    }
  } else {
    for (i32 i = t; i < count; i += 256) {
      const u32 key = keys[i];
      target[moves[key >> (u32)low & 255] + i] = key;
    }
  }
}
