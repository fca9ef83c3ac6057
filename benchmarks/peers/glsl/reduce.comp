// The sum of each block's share of `source`: strided by the block, then a tree in shared memory.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

const int THREADS = 256;
layout(local_size_x = THREADS) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t target_; int64_t n; int64_t share; };
shared float partial[THREADS];

void main() {
  Floats source = Floats(source_); Floats target = Floats(target_);
  int t = int(gl_LocalInvocationIndex), begin = int(gl_WorkGroupID.x) * int(share);
  int end = min(begin + int(share), int(n)), whole = begin + (end - begin) / 4 * 4;
  vec4 sums = vec4(0);
  for (int i = begin + 4 * t; i < whole; i += 4 * THREADS) sums += Vectors(source).at[i / 4];
  float sum = sums.x + sums.y + sums.z + sums.w;
  if (whole + t < end) sum += source.at[whole + t];
  partial[t] = sum;
  barrier();
  for (int half_ = THREADS / 2; half_ > 0; half_ /= 2) {
    if (t < half_) partial[t] += partial[t + half_];
    barrier();
  }
  if (t == 0) target.at[gl_WorkGroupID.x] = partial[0];
}
