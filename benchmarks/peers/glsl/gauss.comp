// A filter of 9 × 9 weights, the edge repeated: a tile with its halo in shared memory, one element a thread.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require

const int SIDE = 16, RADIUS = 4, TILE = SIDE + 2 * RADIUS;
layout(local_size_x = SIDE, local_size_y = SIDE) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t target_; int64_t h; int64_t w; };
shared float tile[TILE * TILE];
const float weights[81] = float[](
  7.634473e-04, 1.8314149e-03, 3.4215336e-03, 4.978302e-03, 5.641155e-03, 4.978302e-03, 3.4215336e-03, 1.8314149e-03, 7.634473e-04,
  1.8314149e-03, 4.393336e-03, 8.207832e-03, 1.1942325e-02, 1.3532427e-02, 1.1942325e-02, 8.207832e-03, 4.393336e-03, 1.8314149e-03,
  3.4215336e-03, 8.207832e-03, 1.533425e-02, 2.2311203e-02, 2.5281904e-02, 2.2311203e-02, 1.533425e-02, 8.207832e-03, 3.4215336e-03,
  4.978302e-03, 1.1942325e-02, 2.2311203e-02, 3.2462608e-02, 3.6784954e-02, 3.2462608e-02, 2.2311203e-02, 1.1942325e-02, 4.978302e-03,
  5.641155e-03, 1.3532427e-02, 2.5281904e-02, 3.6784954e-02, 4.168281e-02, 3.6784954e-02, 2.5281904e-02, 1.3532427e-02, 5.641155e-03,
  4.978302e-03, 1.1942325e-02, 2.2311203e-02, 3.2462608e-02, 3.6784954e-02, 3.2462608e-02, 2.2311203e-02, 1.1942325e-02, 4.978302e-03,
  3.4215336e-03, 8.207832e-03, 1.533425e-02, 2.2311203e-02, 2.5281904e-02, 2.2311203e-02, 1.533425e-02, 8.207832e-03, 3.4215336e-03,
  1.8314149e-03, 4.393336e-03, 8.207832e-03, 1.1942325e-02, 1.3532427e-02, 1.1942325e-02, 8.207832e-03, 4.393336e-03, 1.8314149e-03,
  7.634473e-04, 1.8314149e-03, 3.4215336e-03, 4.978302e-03, 5.641155e-03, 4.978302e-03, 3.4215336e-03, 1.8314149e-03, 7.634473e-04);

void main() {
  Floats source = Floats(source_); Floats target = Floats(target_);
  int x = int(gl_GlobalInvocationID.x), y = int(gl_GlobalInvocationID.y);
  int height = int(h), width = int(w);
  int left = int(gl_WorkGroupID.x) * SIDE - RADIUS, top = int(gl_WorkGroupID.y) * SIDE - RADIUS;
  for (int k = int(gl_LocalInvocationIndex); k < TILE * TILE; k += SIDE * SIDE) {
    int row = clamp(top + k / TILE, 0, height - 1), column = clamp(left + k % TILE, 0, width - 1);
    tile[k] = source.at[row * width + column];
  }
  barrier();
  if (x >= width || y >= height) return;
  int first = int(gl_LocalInvocationID.y) * TILE + int(gl_LocalInvocationID.x);
  precise float sum = tile[first] * weights[0];
  [[unroll]] for (int k = 1; k < 81; k++) sum += tile[first + k / 9 * TILE + k % 9] * weights[k];
  target.at[y * width + x] = sum;
}
