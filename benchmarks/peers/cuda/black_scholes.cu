// The price of a call and of a put, at an interest of 2 % and a volatility of 30 %; the normal distribution by a polynomial: one of each a thread.
__device__ __forceinline__ f32 below(f32 d) {
  const f32 k = 1 / (1 + 0.2316419f * fabsf(d));
  const f32 p = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  const f32 c = 0.39894228f * expf(-0.5f * d * d) * p;
  return d > 0 ? 1 - c : c;
}

extern "C" __global__ void __launch_bounds__(256)
    black_scholes(const f32* __restrict__ spot, const f32* __restrict__ strike, const f32* __restrict__ years, f32* __restrict__ calls,
                  f32* __restrict__ puts, i64 n) {
  const i32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= (i32)n) return;
  const f32 s = spot[i], x = strike[i], t = years[i], spread = 0.3f * sqrtf(t);
  const f32 d1 = (logf(s / x) + 0.065f * t) / spread;
  const f32 later = x * expf(-0.02f * t), n1 = below(d1), n2 = below(d1 - spread);
  calls[i] = s * n1 - later * n2;
  puts[i] = later * (1 - n2) - s * (1 - n1);
}
