// The mean of each element and its eight neighbours, those beyond an edge being the edge's: one element a thread.
extern "C" __global__ void __launch_bounds__(256) box(const f32* __restrict__ source, f32* __restrict__ target, i64 h, i64 w) {
  const i32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, height = (i32)h, width = (i32)w;
  if (x >= width || y >= height) return;
  const i32 left = x > 0 ? x - 1 : 0, right = x + 1 < width ? x + 1 : width - 1;
  const f32* const above = source + (y > 0 ? y - 1 : 0) * width;
  const f32* const here = source + y * width;
  const f32* const below = source + (y + 1 < height ? y + 1 : height - 1) * width;
  const f32 sum = above[left] + above[x] + above[right] + here[left] + here[x] + here[right] + below[left] + below[x] + below[right];
  target[y * width + x] = sum * (1.0f / 9.0f);
}
