// Counts equal elements below 256: bins of the block in shared memory, added to those of the device.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

const int THREADS = 256, EACH = 16;
layout(local_size_x = THREADS) in;
layout(buffer_reference, std430) buffer Integers { int at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t bins_; int64_t n; };
shared int counts[THREADS];

void main() {
  Integers source = Integers(source_); Integers bins = Integers(bins_);
  int t = int(gl_LocalInvocationIndex), first = int(gl_WorkGroupID.x) * THREADS * EACH + t;
  counts[t] = 0;
  barrier();
  for (int k = 0; k < EACH; k++) {
    int i = first + k * THREADS;
    if (i < int(n)) {
      int bin = source.at[i];
      if (uint(bin) < 256) atomicAdd(counts[bin], 1);
    }
  }
  barrier();
  if (counts[t] != 0) atomicAdd(bins.at[t], counts[t]);
}
