/* What the programs of an exported library ask of a Vulkan device; raido_program.h says how they are run. */
#ifndef RAIDO_VULKAN_PROGRAM_H
#define RAIDO_VULKAN_PROGRAM_H

#include "raido_vulkan.h"

/* The most that any kernel needs.  features: bits of RdVulkanInfo.features; masks of float widths as there.  subgroup: the threads of one,
 * exactly, where they exchange values. */
typedef struct RdVulkanNeeds {
  uint32_t features, threads, block[3], shared, arguments, bindings, subgroup;
  uint32_t denormals, infinities, round_to_even;
} RdVulkanNeeds;

RD_HIDDEN extern const RdVulkanNeeds rd_vulkan_needs;

/* A question that no driver answers: a kernel of one thread, of an array that it is given and one that it leaves, which must be the
 * expected bytes; else the device has no `lacking`. */
typedef struct RdVulkanProbe {
  RdKernelInfo kernel;
  const void *given, *expected;
  uint64_t given_bytes, expected_bytes;
  const char* lacking;
} RdVulkanProbe;

/* The last has no name. */
RD_HIDDEN extern const RdVulkanProbe rd_vulkan_probes[];

#endif
