// target[i] = 0.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 256) in;
layout(buffer_reference, std430) buffer Integers { int at[]; };
layout(push_constant) uniform Arguments { uint64_t target_; int64_t n; };

void main() {
  Integers target = Integers(target_);
  int i = int(gl_GlobalInvocationID.x);
  if (i < int(n)) target.at[i] = 0;
}
