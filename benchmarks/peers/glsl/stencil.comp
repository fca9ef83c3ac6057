// The mean of each element and its four neighbours, those beyond an edge being the edge's: one element a thread.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 32, local_size_y = 8) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Arguments { uint64_t source_; uint64_t target_; int64_t h; int64_t w; };

void main() {
  Floats source = Floats(source_); Floats target = Floats(target_);
  int x = int(gl_GlobalInvocationID.x), y = int(gl_GlobalInvocationID.y);
  int height = int(h), width = int(w);
  if (x >= width || y >= height) return;
  int row = y * width;
  int above = max(y - 1, 0) * width, below = min(y + 1, height - 1) * width;
  int left = max(x - 1, 0), right = min(x + 1, width - 1);
  precise float sum = source.at[row + x] + source.at[row + left] + source.at[row + right] +
                      source.at[above + x] + source.at[below + x];
  precise float mean = sum * 0.2;
  target.at[row + x] = mean;
}
