// The mean of each element of a volume and its six neighbours, those beyond a face being the face's: a block goes through 32 planes of a column
// of 32 x 8, of which the one that it is at is in shared memory, with its border, and those before and behind are in registers (Micikevicius,
// 3D finite difference computation on GPUs, 2009).
extern "C" __global__ void __launch_bounds__(256) star_shared(const f32* __restrict__ source, f32* __restrict__ target, i64 d, i64 h, i64 w) {
  __shared__ alignas(16) f32 tile[340];
  const i32 depth = (i32)d, height = (i32)h, width = (i32)w, plane = height * width;
  const i32 left = blockIdx.x * 32 - 1, above = blockIdx.y * 8 - 1, first = blockIdx.z * 32;
  const i32 x = left + 1 + threadIdx.x, y = above + 1 + threadIdx.y, last = first + 32 < depth ? first + 32 : depth;
  const bool inside = x < width && y < height;
  const i32 at = (y < height ? y : height - 1) * width + (x < width ? x : width - 1);
  f32 before = source[(first > 0 ? first - 1 : 0) * plane + at], here = source[first * plane + at];
  for (i32 z = first; z < last; ++z) {
    const f32 behind = source[(z + 1 < depth ? z + 1 : depth - 1) * plane + at];
    __syncthreads();
    for (i32 k = threadIdx.y * 32 + threadIdx.x; k < 340; k += 256) {
      const i32 j = above + k / 34, i = left + k % 34;
      const i32 row = j < 0 ? 0 : j < height ? j : height - 1, column = i < 0 ? 0 : i < width ? i : width - 1;
      tile[k] = source[z * plane + row * width + column];
    }
    __syncthreads();
    const f32* const t = tile + (threadIdx.y + 1) * 34 + threadIdx.x + 1;
    if (inside) target[z * plane + at] = (here + t[-1] + t[1] + t[-34] + t[34] + before + behind) * (1.0f / 7.0f);
    before = here, here = behind;
  }
}
