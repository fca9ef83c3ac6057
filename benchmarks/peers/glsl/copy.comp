// target[i] = source[i]: sixteen bytes a thread.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t target_; int64_t n; };

void main() {
  Floats source = Floats(source_); Floats target = Floats(target_);
  int i = int(gl_GlobalInvocationID.x);
  int whole = int(n) / 4;
  if (i < whole) {
    Vectors(target).at[i] = Vectors(source).at[i];
  } else if (i == whole) {
    for (int k = 4 * whole; k < int(n); k++) target.at[k] = source.at[k];
  }
}
