/* The version of the interface, the last error of each thread, and which code of a kernel a launch takes; raido_device.h says what each function promises. */
#include "raido_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

int32_t rd_device_version(void) { return RD_DEVICE_VERSION; }

const char* rd_error(void) { return last_error; }

int rd_is_small(const uint32_t most[3], const uint32_t grid[3], uint32_t numbers, const uint32_t* offsets, const uint32_t* limits,
                const char* arguments) {
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] > most[axis]) return 0;
  for (uint32_t i = 0; i < numbers; i++) {
    int64_t number;
    memcpy(&number, arguments + offsets[i], sizeof number);
    if (number < 0 || number > limits[i]) return 0;
  }
  return 1;
}

int32_t rd_fail(int32_t code, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  return code;
}
