// c = a b: tiles of 64 × 64 for a block, of 8 × 8 in the registers of a thread, 8 steps of both factors in shared memory.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require

const int TILE = 64, DEPTH = 8, SIDE = 8, ALONG = TILE / SIDE, THREADS = ALONG * ALONG;
layout(local_size_x = ALONG, local_size_y = ALONG) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Arguments { uint64_t a_; uint64_t b_; uint64_t c_; int64_t rows; int64_t depth; int64_t columns; };
shared float left[DEPTH][TILE], right[DEPTH][TILE];

void main() {
  Floats a = Floats(a_); Floats b = Floats(b_); Floats c = Floats(c_);
  int n = int(rows), k = int(depth), m = int(columns);
  int tx = int(gl_LocalInvocationID.x), ty = int(gl_LocalInvocationID.y), t = int(gl_LocalInvocationIndex);
  int top = int(gl_WorkGroupID.y) * TILE, first = int(gl_WorkGroupID.x) * TILE;
  precise float sums[SIDE][SIDE];
  [[unroll]] for (int i = 0; i < SIDE * SIDE; i++) sums[i / SIDE][i % SIDE] = 0;
  for (int r = 0; r < k; r += DEPTH) {
    [[unroll]] for (int e = t; e < TILE * DEPTH; e += THREADS) {
      int y = e / DEPTH, z = e % DEPTH;
      left[z][y] = top + y < n && r + z < k ? a.at[(top + y) * k + r + z] : 0;
      int x = e % TILE, d = e / TILE;
      right[d][x] = first + x < m && r + d < k ? b.at[(r + d) * m + first + x] : 0;
    }
    barrier();
    for (int z = 0; z < DEPTH; z++) {
      float p[SIDE], q[SIDE];
      [[unroll]] for (int i = 0; i < SIDE; i++) p[i] = left[z][ty + i * ALONG];
      [[unroll]] for (int j = 0; j < SIDE; j++) q[j] = right[z][tx + j * ALONG];
      [[unroll]] for (int i = 0; i < SIDE; i++)
        [[unroll]] for (int j = 0; j < SIDE; j++) sums[i][j] += p[i] * q[j];
    }
    barrier();
  }
  [[unroll]] for (int i = 0; i < SIDE; i++)
    [[unroll]] for (int j = 0; j < SIDE; j++) {
      int y = top + ty + i * ALONG, x = first + tx + j * ALONG;
      if (y < n && x < m) c.at[y * m + x] = sums[i][j];
    }
}
