/* Programs for a device as data: kernels, constants and plans, run on arrays of the caller.  Linked into exported libraries.
 *
 * A library has one device, opened at the first call and kept; rd_library_choose changes which.  Any thread may call.
 */
#ifndef RAIDO_PROGRAM_H
#define RAIDO_PROGRAM_H

#include "raido_device.h"

enum { RD_BAD_DEVICE = -4 }; /* there is no device, or none that can run the program */

/* An array that is on the device before the plans run. */
typedef struct RdConstant {
  uint32_t slot;
  uint64_t bytes;
  const void* data;
} RdConstant;

/* An array that the plan allocates and the caller gets; `bytes` is a register. */
typedef struct RdMade {
  uint32_t slot, bytes;
} RdMade;

typedef struct RdWords {
  const int64_t* words;
  uint64_t count;
} RdWords;

/* The plans run one after another, over the same registers and slots: the first takes the caller's arrays to the device, the second
 * is the program, the third brings results back. sizes and counts are the registers of what the caller gives and gets. */
typedef struct RdProgram {
  const RdKernelInfo* kernels;
  const RdConstant* constants;
  RdWords plans[3];
  const uint32_t *sizes, *counts;
  const RdMade* made;
  uint32_t kernel_count, constant_count, size_count, count_count, made_count, register_count, slot_count, array_count;
} RdProgram;

/* What a program has on the library's device. All zeros at first; `opened` numbers the device. */
typedef struct RdLoaded {
  uint64_t opened;
  RdKernel** kernels;
  RdBuffer** constants;
} RdLoaded;

/* Runs a program. Arrays are those of the plans; made[k] receives an array of rd_alloc. Returns 0 or a code of raido_device.h, or
 * RD_BAD_DEVICE; rd_error() then has a sentence. */
RD_HIDDEN int32_t rd_program_run(const RdProgram* program, RdLoaded* loaded, void* const* arrays, const int64_t* sizes,
                                 void** const* made, int64_t* const* counts);

/* The device of later calls: "" for the one that is best, an index, or a part of a name. RD_BAD_DEVICE where there is none such. */
RD_HIDDEN int32_t rd_library_choose(const char* which);

/* Whether a device is called so: by its index, or by a part of its name in any case of letters. */
RD_HIDDEN int rd_is_called(const char* which, int32_t index, const char* name);

/* Opens a device as rd_library_choose names it, if it can run the library's programs: one function for each device API. */
RD_HIDDEN int32_t rd_library_open(const char* which, RdDevice** out);

/* Keeps, for later processes, what the driver has compiled for the device, if there is more of it than before. One thread at a time. */
RD_HIDDEN void rd_library_keep(RdDevice* device);

#endif
