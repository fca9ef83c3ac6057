/* The version of the interface, and the last error of each thread; raido_device.h says what each function promises. */
#include "raido_device.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[1024];

int32_t rd_device_version(void) { return RD_DEVICE_VERSION; }

const char* rd_error(void) { return last_error; }

int32_t rd_fail(int32_t code, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  return code;
}
