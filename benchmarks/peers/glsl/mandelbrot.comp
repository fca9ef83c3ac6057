// How many rounds of z² + c stay within 2, at most 256: one point a thread.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 16, local_size_y = 16) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(buffer_reference, std430) buffer Integers { int at[]; };
layout(push_constant) uniform Arguments { uint64_t ci_; uint64_t cr_; uint64_t target_; int64_t h; int64_t w; };

void main() {
  Floats ci = Floats(ci_); Floats cr = Floats(cr_); Integers target = Integers(target_);
  int x = int(gl_GlobalInvocationID.x), y = int(gl_GlobalInvocationID.y);
  if (x >= int(w) || y >= int(h)) return;
  float re = cr.at[x], im = ci.at[y];
  precise float zr = 0, zi = 0;
  int steps = 0;
  for (; steps < 256; steps++) {
    precise float rr = zr * zr, ii = zi * zi;
    precise float away = rr + ii;
    if (!(away <= 4)) break;
    zi = 2 * zr * zi + im;
    zr = rr - ii + re;
  }
  target.at[y * int(w) + x] = steps;
}
