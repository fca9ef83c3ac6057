/* The pipelines that a driver has compiled, kept on disk between the processes that load exported libraries. */
#ifndef RAIDO_VULKAN_PIPELINES_H
#define RAIDO_VULKAN_PIPELINES_H

#include "raido_vulkan.h"

/* The pipelines of earlier processes for a device, in memory that the caller frees; NULL where none are kept that can be trusted. */
RD_HIDDEN void* rd_pipelines_read(const RdVulkanInfo* info, uint64_t* bytes);

/* Writes pipelines for later processes, whole or not at all; nothing is said where that is not possible. */
RD_HIDDEN void rd_pipelines_keep(const RdVulkanInfo* info, const void* data, uint64_t bytes);

#endif
