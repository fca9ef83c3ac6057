/* What the files of the Vulkan runtime share: the functions of Vulkan, found by name. */
#ifndef RAIDO_VULKAN_LIBRARY_H
#define RAIDO_VULKAN_LIBRARY_H

#include <pthread.h>

#include "raido_vulkan.h"
#include "raido_vulkan_api.h"

#define INSTANCE_FUNCTIONS(X)                                                                              \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2)                           \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties)                                       \
  X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) X(CreateDevice)          \
  X(GetDeviceProcAddr)

#define DEVICE_FUNCTIONS(X)                                                                                \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit)                                      \
  X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory)          \
  X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress)                                               \
  X(CreateShaderModule) X(DestroyShaderModule) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout)  \
  X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline)            \
  X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData)                                   \
  X(CreateCommandPool) X(DestroyCommandPool) X(ResetCommandPool) X(AllocateCommandBuffers)                 \
  X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdPushConstants)                         \
  X(CmdBindDescriptorSets) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer)                           \
  X(CmdResetQueryPool) X(CmdWriteTimestamp) X(CreateFence) X(DestroyFence) X(WaitForFences) X(ResetFences) \
  X(CreateDescriptorPool) X(DestroyDescriptorPool) X(ResetDescriptorPool) X(AllocateDescriptorSets)        \
  X(UpdateDescriptorSets) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults)

#define POINTER(name) PFN_vk##name name;

typedef struct Messages {
  pthread_mutex_t lock;
  int64_t count;
  uint64_t used;
  char text[8192];
} Messages;

struct RdVulkan {
  VkInstance instance;
  INSTANCE_FUNCTIONS(POINTER)
  PFN_vkGetInstanceProcAddr find;
  VkDebugUtilsMessengerEXT messenger;
  Messages messages;
  uint32_t count;
  VkPhysicalDevice* devices;
};

/* The features that kernels can use, chained for a question or for a device. */
typedef struct Features {
  VkPhysicalDeviceFeatures2 all;
  VkPhysicalDeviceVulkan11Features v11;
  VkPhysicalDeviceVulkan12Features v12;
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_floats;
  VkPhysicalDeviceSubgroupSizeControlFeaturesEXT subgroups;
} Features;

/* Extensions for atomic_floats and subgroups. */
#define ATOMIC_FLOAT "VK_EXT_shader_atomic_float"
#define SUBGROUP_SIZE "VK_EXT_subgroup_size_control"

RD_HIDDEN const char* rd_vulkan_name_of(VkResult result);
RD_HIDDEN int rd_vulkan_has_extension(RdVulkan* vulkan, VkPhysicalDevice device, const char* name);
/* Asks for all features; what a missing extension would have said is 0. */
RD_HIDDEN void rd_vulkan_features(RdVulkan* vulkan, VkPhysicalDevice device, Features* out);

#endif
