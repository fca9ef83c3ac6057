// The mean of each element of a volume and its six neighbours, those beyond a face being the face's: one element a thread.
extern "C" __global__ void __launch_bounds__(256) star(const f32* __restrict__ source, f32* __restrict__ target, i64 d, i64 h, i64 w) {
  const i32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
  const i32 depth = (i32)d, height = (i32)h, width = (i32)w, plane = height * width;
  if (x >= width || y >= height) return;
  const i32 left = x > 0 ? -1 : 0, right = x + 1 < width ? 1 : 0, above = y > 0 ? -width : 0, below = y + 1 < height ? width : 0;
  const i32 before = z > 0 ? -plane : 0, behind = z + 1 < depth ? plane : 0, at = z * plane + y * width + x;
  const f32* const here = source + at;
  target[at] = (here[0] + here[left] + here[right] + here[above] + here[below] + here[before] + here[behind]) * (1.0f / 7.0f);
}
