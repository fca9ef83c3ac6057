/* The Vulkan device of an exported library: chosen by index or name, and asked whether it can run the library's kernels. */
#define _GNU_SOURCE
#include "raido_vulkan_program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raido_program.h"
#include "raido_vulkan_pipelines.h"

#define API_1_2 ((uint32_t)1 << 22 | (uint32_t)2 << 12)

static const struct {
  uint32_t bit;
  const char* name;
} FEATURES[] = {
    {RD_FLOAT16, "16-bit floats"},
    {RD_FLOAT64, "64-bit floats"},
    {RD_INT64, "64-bit integers"},
    {RD_INT16, "16-bit integers"},
    {RD_INT8, "8-bit integers"},
    {RD_STORAGE16, "16-bit elements of arrays"},
    {RD_STORAGE8, "8-bit elements of arrays"},
    {RD_ADDRESSES, "addresses of arrays"},
    {RD_INT64_ATOMICS, "atomic updates of 64-bit integers"},
    {RD_SHARED_INT64_ATOMICS, "atomic updates of 64-bit integers in shared memory"},
    {RD_FLOAT32_ADD, "atomic sums of 32-bit floats"},
    {RD_SHARED_FLOAT32_ADD, "atomic sums of 32-bit floats in shared memory"},
    {RD_FLOAT64_ADD, "atomic sums of 64-bit floats"},
    {RD_SHARED_FLOAT64_ADD, "atomic sums of 64-bit floats in shared memory"},
    {RD_EXCHANGES, "exchange of values within whole subgroups"},
};

static int32_t lacks(const RdVulkanInfo* info, const char* what) { return rd_fail(RD_BAD_DEVICE, "%s has no %s", info->name, what); }

static int32_t too_few(const RdVulkanInfo* info, const char* what, uint32_t has, uint32_t needs) {
  return rd_fail(RD_BAD_DEVICE, "%s has at most %u %s, and the library needs %u", info->name, has, what, needs);
}

static int32_t check_device(const RdVulkanInfo* info) {
  const RdVulkanNeeds* needs = &rd_vulkan_needs;
  for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++)
    if (needs->features & ~info->features & FEATURES[i].bit) return lacks(info, FEATURES[i].name);
  if (needs->denormals & ~info->denormals) return lacks(info, "denormal floats");
  if (needs->infinities & ~info->infinities) return lacks(info, "infinities and signs of zero");
  if (needs->round_to_even & ~info->round_to_even) return lacks(info, "rounding to the nearest even number");
  if (needs->features & RD_EXCHANGES && needs->subgroup != info->subgroup)
    return rd_fail(RD_BAD_DEVICE, "%s has subgroups of %u threads, and the library is for those of %u", info->name, info->subgroup, needs->subgroup);
  if (needs->threads > info->threads) return too_few(info, "threads a block", info->threads, needs->threads);
  for (int axis = 0; axis < 3; axis++)
    if (needs->block[axis] > info->block[axis])
      return too_few(info, "threads a block along an axis", info->block[axis], needs->block[axis]);
  if (needs->shared > info->shared) return too_few(info, "bytes of shared memory", info->shared, needs->shared);
  if (needs->arguments > info->arguments) return too_few(info, "bytes of arguments", info->arguments, needs->arguments);
  if (needs->bindings > info->bindings) return too_few(info, "arrays a kernel", info->bindings, needs->bindings);
  return 0;
}

/* The order in which devices are preferred: discrete, integrated, virtual, others, CPUs. */
static int rank_of(const RdVulkanInfo* info) {
  static const int ranks[] = {3, 1, 0, 2, 4}; /* by VkPhysicalDeviceType */
  return info->type < 5 ? ranks[info->type] : 3;
}

static int32_t find(RdVulkan* vulkan, const char* which, int32_t* index, RdVulkanInfo* found) {
  int best = 9;
  for (int32_t i = 0; i < rd_vulkan_count(vulkan); i++) {
    RdVulkanInfo info;
    if (rd_vulkan_describe(vulkan, i, &info) || info.api < API_1_2) continue;
    if (*which ? !rd_is_called(which, i, info.name) : rank_of(&info) >= best) continue;
    *index = i;
    *found = info;
    if (*which) return 0;
    best = rank_of(&info);
  }
  if (best < 9) return 0;
  if (*which) return rd_fail(RD_BAD_DEVICE, "there is no Vulkan device called \"%s\"", which);
  return rd_fail(RD_BAD_DEVICE, "there is no Vulkan device on this machine");
}

/* Runs a probe; 0 where it leaves what is expected. */
static int32_t ask(RdDevice* device, const RdVulkanProbe* probe, const RdVulkanInfo* info) {
  RdKernel* kernel = NULL;
  RdBuffer* arrays[2] = {NULL, NULL};
  const uint32_t grid[3] = {1, 1, 1};
  char found[64], arguments[16] = {0};
  int32_t code = rd_kernel_new(device, &probe->kernel, &kernel);
  if (!code) code = rd_buffer_new(device, probe->given_bytes, &arrays[0]);
  if (!code) code = rd_buffer_new(device, probe->expected_bytes, &arrays[1]);
  if (!code) code = rd_buffer_write(arrays[0], 0, probe->given, probe->given_bytes);
  if (!code) code = rd_kernel_launch(kernel, grid, arguments, arrays);
  if (!code) code = rd_buffer_read(arrays[1], 0, found, probe->expected_bytes);
  if (!code && memcmp(found, probe->expected, probe->expected_bytes)) code = lacks(info, probe->lacking);
  for (int i = 0; i < 2; i++)
    if (arrays[i]) rd_buffer_free(arrays[i]);
  if (kernel) rd_kernel_free(kernel);
  return code;
}

static RdVulkanInfo kept_for; /* the device that is open, and how many of its pipelines are kept */
static uint64_t kept;

void rd_library_keep(RdDevice* device) {
  uint64_t compiled = rd_device_compiled(device);
  if (compiled == kept) return;
  kept = compiled;
  int64_t bytes = rd_device_cache(device, NULL, 0);
  void* data = bytes > 0 ? malloc((size_t)bytes) : NULL;
  if (data && (bytes = rd_device_cache(device, data, (uint64_t)bytes)) > 0) rd_pipelines_keep(&kept_for, data, (uint64_t)bytes);
  free(data);
}

int32_t rd_library_open(const char* which, RdDevice** out) {
  static RdVulkan* vulkan; /* opened once in a process: the caller lets one thread in at a time */
  static pid_t owner;
  RdVulkanInfo info;
  RdDeviceOptions options = {0};
  if (!vulkan || owner != getpid()) {
    if (rd_vulkan_open(0, &vulkan)) return RD_BAD_DEVICE;
    owner = getpid();
  }
  int32_t code = find(vulkan, which, &options.index, &info);
  if (!code) code = check_device(&info);
  if (code) return RD_BAD_DEVICE;
  void* known = rd_pipelines_read(&info, &options.cache_bytes);
  options.cache = known;
  code = rd_device_open(vulkan, &options, out);
  if (code && known) { /* which may be the reason */
    options.cache = NULL;
    options.cache_bytes = 0;
    code = rd_device_open(vulkan, &options, out);
  }
  free(known);
  if (code) return RD_BAD_DEVICE;
  for (const RdVulkanProbe* probe = rd_vulkan_probes; probe->kernel.name && !code; probe++) code = ask(*out, probe, &info);
  if (!code) {
    kept_for = info;
    kept = rd_device_compiled(*out); /* the probes' are not worth a file */
    return 0;
  }
  rd_device_close(*out);
  return RD_BAD_DEVICE;
}
