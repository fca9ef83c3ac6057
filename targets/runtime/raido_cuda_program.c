/* The CUDA device of an exported library: chosen by index or name, and asked whether it can run the library's kernels. */
#include "raido_cuda_program.h"

#include <string.h>

#include "raido_program.h"

static int32_t too_few(const RdCudaInfo* info, const char* what, uint32_t has, uint32_t needs) {
  return rd_fail(RD_BAD_DEVICE, "%s has at most %u %s, and the library needs %u", info->name, has, what, needs);
}

static int32_t check_device(const RdCudaInfo* info) {
  const RdCudaNeeds* needs = &rd_cuda_needs;
  if (needs->capability > info->capability)
    return rd_fail(RD_BAD_DEVICE, "%s has compute capability %u.%u, and the library needs %u.%u", info->name, info->capability / 10,
                   info->capability % 10, needs->capability / 10, needs->capability % 10);
  if (needs->threads > info->threads) return too_few(info, "threads a block", info->threads, needs->threads);
  for (int axis = 0; axis < 3; axis++)
    if (needs->block[axis] > info->block[axis])
      return too_few(info, "threads a block along an axis", info->block[axis], needs->block[axis]);
  if (needs->shared > info->shared) return too_few(info, "bytes of shared memory", info->shared, needs->shared);
  return 0;
}

/* The index of the device that is called so; the first is the default. */
static int32_t find(const char* which, int32_t* index, RdCudaInfo* found) {
  for (*index = 0; *index < rd_cuda_count(); ++*index) {
    if (rd_cuda_describe(*index, found)) return RD_BAD_DEVICE;
    if (!*which || rd_is_called(which, *index, found->name)) return 0;
  }
  if (*which) return rd_fail(RD_BAD_DEVICE, "there is no CUDA device called \"%s\"", which);
  return rd_fail(RD_BAD_DEVICE, "there is no CUDA device on this machine");
}

int32_t rd_library_open(const char* which, RdDevice** out) {
  int32_t index;
  RdCudaInfo info;
  if (rd_cuda_start() || find(which, &index, &info) || check_device(&info) || rd_cuda_open(index, 0, out)) return RD_BAD_DEVICE;
  return 0;
}

void rd_library_keep(RdDevice* device) { (void)device; } /* machine code is in the library; what PTX becomes the driver keeps itself */
