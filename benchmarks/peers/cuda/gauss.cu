// A filter of 9 × 9 weights, the edge repeated: a tile with its halo in shared memory, one element a thread.
extern "C" __global__ void __launch_bounds__(256) gauss(const f32* __restrict__ source, f32* __restrict__ target, i64 h, i64 w) {
  constexpr i32 side = 16, radius = 4, tile_side = side + 2 * radius;
  constexpr f32 weights[81] = {
  7.634473e-04f, 1.8314149e-03f, 3.4215336e-03f, 4.978302e-03f, 5.641155e-03f, 4.978302e-03f, 3.4215336e-03f, 1.8314149e-03f, 7.634473e-04f,
  1.8314149e-03f, 4.393336e-03f, 8.207832e-03f, 1.1942325e-02f, 1.3532427e-02f, 1.1942325e-02f, 8.207832e-03f, 4.393336e-03f, 1.8314149e-03f,
  3.4215336e-03f, 8.207832e-03f, 1.533425e-02f, 2.2311203e-02f, 2.5281904e-02f, 2.2311203e-02f, 1.533425e-02f, 8.207832e-03f, 3.4215336e-03f,
  4.978302e-03f, 1.1942325e-02f, 2.2311203e-02f, 3.2462608e-02f, 3.6784954e-02f, 3.2462608e-02f, 2.2311203e-02f, 1.1942325e-02f, 4.978302e-03f,
  5.641155e-03f, 1.3532427e-02f, 2.5281904e-02f, 3.6784954e-02f, 4.168281e-02f, 3.6784954e-02f, 2.5281904e-02f, 1.3532427e-02f, 5.641155e-03f,
  4.978302e-03f, 1.1942325e-02f, 2.2311203e-02f, 3.2462608e-02f, 3.6784954e-02f, 3.2462608e-02f, 2.2311203e-02f, 1.1942325e-02f, 4.978302e-03f,
  3.4215336e-03f, 8.207832e-03f, 1.533425e-02f, 2.2311203e-02f, 2.5281904e-02f, 2.2311203e-02f, 1.533425e-02f, 8.207832e-03f, 3.4215336e-03f,
  1.8314149e-03f, 4.393336e-03f, 8.207832e-03f, 1.1942325e-02f, 1.3532427e-02f, 1.1942325e-02f, 8.207832e-03f, 4.393336e-03f, 1.8314149e-03f,
  7.634473e-04f, 1.8314149e-03f, 3.4215336e-03f, 4.978302e-03f, 5.641155e-03f, 4.978302e-03f, 3.4215336e-03f, 1.8314149e-03f, 7.634473e-04f};
  __shared__ alignas(16) f32 tile[576];
  const i32 x = blockIdx.x * side + threadIdx.x, y = blockIdx.y * side + threadIdx.y, height = (i32)h, width = (i32)w;
  const i32 left = blockIdx.x * side - radius, top = blockIdx.y * side - radius;
  for (i32 k = threadIdx.y * side + threadIdx.x; k < tile_side * tile_side; k += side * side) {
    i32 row = top + k / tile_side, column = left + k % tile_side;
    row = row < 0 ? 0 : row < height ? row : height - 1;
    column = column < 0 ? 0 : column < width ? column : width - 1;
    tile[k] = source[row * width + column];
  }
  __syncthreads();
  if (x >= width || y >= height) return;
  const f32* first = tile + threadIdx.y * tile_side + threadIdx.x;
  f32 sum = first[0] * weights[0];
#pragma unroll
  for (i32 k = 1; k < 81; ++k) sum += first[k / 9 * tile_side + k % 9] * weights[k];
  target[y * width + x] = sum;
}
