// The inclusive scan of each block's share of `source`, begun with the scan of the blocks before it: a row of elements a thread, and
// a tree over the rows' totals in shared memory.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

const int THREADS = 256, ROW = 16;
layout(local_size_x = THREADS) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t before_; uint64_t target_; int64_t n; };
shared float totals[THREADS];

void main() {
  Floats source = Floats(source_); Floats before = Floats(before_); Floats target = Floats(target_);
  int t = int(gl_LocalInvocationIndex), first = (int(gl_WorkGroupID.x) * THREADS + t) * ROW;
  float row[ROW];
  float sum = 0;
  for (int k = 0; k < ROW; k++) {
    sum += first + k < int(n) ? source.at[first + k] : 0;
    row[k] = sum;
  }
  totals[t] = sum;
  barrier();
  for (int far = 1; far < THREADS; far *= 2) {
    float other = t >= far ? totals[t - far] : 0;
    barrier();
    totals[t] += other;
    barrier();
  }
  float begin = (t > 0 ? totals[t - 1] : 0) + (gl_WorkGroupID.x > 0 ? before.at[gl_WorkGroupID.x - 1] : 0);
  for (int k = 0; k < ROW; k++) {
    if (first + k < int(n)) target.at[first + k] = begin + row[k];
  }
}
