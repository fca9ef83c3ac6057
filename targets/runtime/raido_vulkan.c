/* The Vulkan library and what its devices are; raido_vulkan.h says what each function promises. */
#define _GNU_SOURCE
#include "raido_vulkan_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "VK_LAYER_KHRONOS_validation"
#define DEBUG_UTILS "VK_EXT_debug_utils"
#define VALIDATION_FEATURES "VK_EXT_validation_features" /* an extension of the layer */
#define MOST_DEVICES 64

const char* rd_vulkan_name_of(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "the CPU's memory is exhausted";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "the device's memory is exhausted";
    case VK_ERROR_INITIALIZATION_FAILED: return "the driver cannot be initialized";
    case VK_ERROR_DEVICE_LOST: return "the device is lost";
    case VK_ERROR_LAYER_NOT_PRESENT: return "the layer is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver fits";
    case VK_ERROR_TOO_MANY_OBJECTS: return "there are too many objects";
    default: return "the driver failed";
  }
}

/* ---------------------------------------------------------------- the library */

static VkBool32 note_message(VkDebugUtilsMessageSeverityFlagsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  Messages* messages = user;
  (void)severity, (void)types;
  pthread_mutex_lock(&messages->lock);
  messages->count++;
  uint64_t room = sizeof messages->text - messages->used;
  int length = snprintf(messages->text + messages->used, room, "%s\n", data->pMessage);
  messages->used += length < 0 ? 0 : (uint64_t)length < room ? (uint64_t)length : room - 1;
  pthread_mutex_unlock(&messages->lock);
  return 0;
}

int64_t rd_vulkan_messages(RdVulkan* vulkan, char* text, uint64_t room) {
  Messages* messages = &vulkan->messages;
  pthread_mutex_lock(&messages->lock);
  if (room) snprintf(text, room, "%s", messages->text);
  int64_t count = messages->count;
  pthread_mutex_unlock(&messages->lock);
  return count;
}

static int has_layer(PFN_vkEnumerateInstanceLayerProperties enumerate) {
  uint32_t count = 0;
  int found = 0;
  if (!enumerate || enumerate(&count, NULL) != VK_SUCCESS || !count) return 0;
  VkLayerProperties* layers = calloc(count, sizeof *layers);
  if (layers && enumerate(&count, layers) >= 0)
    for (uint32_t i = 0; i < count; i++) found |= !strcmp(layers[i].layerName, LAYER);
  free(layers);
  return found;
}

int32_t rd_vulkan_open(int32_t validate, RdVulkan** out) {
  void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL); /* stays: drivers have threads of their own */
  if (!library) return rd_fail(RD_FAILED, "there is no Vulkan on this machine: %s", dlerror());
  PFN_vkGetInstanceProcAddr find = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
  if (!find) return rd_fail(RD_FAILED, "libvulkan.so.1 is no Vulkan loader");
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
  PFN_vkEnumerateInstanceVersion version = (PFN_vkEnumerateInstanceVersion)find(NULL, "vkEnumerateInstanceVersion");
  uint32_t has = 0;
  if (!create || !version || version(&has) != VK_SUCCESS || has < VK_API_VERSION_1_2)
    return rd_fail(RD_FAILED, "libvulkan.so.1 is older than Vulkan 1.2");
  if (validate &&
      !has_layer((PFN_vkEnumerateInstanceLayerProperties)find(NULL, "vkEnumerateInstanceLayerProperties")))
    return rd_fail(RD_FAILED, "Vulkan's validation layer (%s) is not installed", LAYER);

  RdVulkan* vulkan = calloc(1, sizeof *vulkan);
  if (!vulkan) return rd_fail(RD_NO_MEMORY, "no memory");
  pthread_mutex_init(&vulkan->messages.lock, NULL);
  vulkan->find = find;
  VkDebugUtilsMessengerCreateInfoEXT listen = {
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
      .pfnUserCallback = note_message,
      .pUserData = &vulkan->messages};
  const int32_t hazards[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT}; /* missing barriers */
  VkValidationFeaturesEXT thorough = {VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, &listen, 1, hazards, 0, NULL};
  VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO, .pEngineName = "raido", .apiVersion = VK_API_VERSION_1_2};
  const char *layers[] = {LAYER}, *extensions[] = {DEBUG_UTILS, VALIDATION_FEATURES};
  VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pNext = validate ? &thorough : NULL,
                               .pApplicationInfo = &application,
                               .enabledLayerCount = validate ? 1 : 0,
                               .ppEnabledLayerNames = layers,
                               .enabledExtensionCount = validate ? 2 : 0,
                               .ppEnabledExtensionNames = extensions};
  VkResult result = create(&info, NULL, &vulkan->instance);
  if (result != VK_SUCCESS) {
    free(vulkan);
    return rd_fail(RD_FAILED, "Vulkan does not start: %s (%d)", rd_vulkan_name_of(result), result);
  }
#define FIND(name) vulkan->name = (PFN_vk##name)find(vulkan->instance, "vk" #name);
  INSTANCE_FUNCTIONS(FIND)
  if (validate) {
    PFN_vkCreateDebugUtilsMessengerEXT start =
        (PFN_vkCreateDebugUtilsMessengerEXT)find(vulkan->instance, "vkCreateDebugUtilsMessengerEXT");
    if (start) start(vulkan->instance, &listen, NULL, &vulkan->messenger);
  }
  VkPhysicalDevice devices[MOST_DEVICES];
  uint32_t count = MOST_DEVICES;
  result = vulkan->EnumeratePhysicalDevices(vulkan->instance, &count, devices);
  vulkan->count = result < 0 ? 0 : count;
  vulkan->devices = calloc(vulkan->count + 1, sizeof *devices);
  if (!vulkan->devices) {
    rd_vulkan_close(vulkan);
    return rd_fail(RD_NO_MEMORY, "no memory");
  }
  memcpy(vulkan->devices, devices, vulkan->count * sizeof *devices);
  *out = vulkan;
  return 0;
}

void rd_vulkan_close(RdVulkan* vulkan) {
  if (vulkan->messenger) {
    PFN_vkDestroyDebugUtilsMessengerEXT stop =
        (PFN_vkDestroyDebugUtilsMessengerEXT)vulkan->find(vulkan->instance, "vkDestroyDebugUtilsMessengerEXT");
    stop(vulkan->instance, vulkan->messenger, NULL);
  }
  vulkan->DestroyInstance(vulkan->instance, NULL);
  pthread_mutex_destroy(&vulkan->messages.lock);
  free(vulkan->devices);
  free(vulkan);
}

int32_t rd_vulkan_count(RdVulkan* vulkan) { return (int32_t)vulkan->count; }

/* ---------------------------------------------------------------- devices */

int rd_vulkan_has_extension(RdVulkan* vulkan, VkPhysicalDevice device, const char* name) {
  uint32_t count = 0;
  int found = 0;
  if (vulkan->EnumerateDeviceExtensionProperties(device, NULL, &count, NULL) != VK_SUCCESS || !count) return 0;
  VkExtensionProperties* all = calloc(count, sizeof *all);
  if (all && vulkan->EnumerateDeviceExtensionProperties(device, NULL, &count, all) >= 0)
    for (uint32_t i = 0; i < count; i++) found |= !strcmp(all[i].extensionName, name);
  free(all);
  return found;
}

void rd_vulkan_features(RdVulkan* vulkan, VkPhysicalDevice device, Features* out) {
  memset(out, 0, sizeof *out);
  out->all = (VkPhysicalDeviceFeatures2){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &out->v11};
  out->v11 = (VkPhysicalDeviceVulkan11Features){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &out->v12};
  out->v12 = (VkPhysicalDeviceVulkan12Features){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  out->atomic_floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT;
  out->subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT;
  if (rd_vulkan_has_extension(vulkan, device, ATOMIC_FLOAT)) out->v12.pNext = &out->atomic_floats;
  if (rd_vulkan_has_extension(vulkan, device, SUBGROUP_SIZE)) {
    out->subgroups.pNext = out->v12.pNext;
    out->v12.pNext = &out->subgroups;
  }
  vulkan->GetPhysicalDeviceFeatures2(device, &out->all);
}

static uint32_t mask_of(VkBool32 f16, VkBool32 f32, VkBool32 f64) { return (f16 ? 1 : 0) | (f32 ? 2 : 0) | (f64 ? 4 : 0); }

static uint32_t together(VkShaderFloatControlsIndependence independence) {
  if (independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL) return 0;
  return independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY ? 1 : 2;
}

static uint32_t feature_bits(const Features* f) {
  const VkPhysicalDeviceFeatures* core = &f->all.features;
  return (f->v12.shaderFloat16 ? RD_FLOAT16 : 0) | (core->shaderFloat64 ? RD_FLOAT64 : 0) | (core->shaderInt64 ? RD_INT64 : 0) |
         (core->shaderInt16 ? RD_INT16 : 0) | (f->v12.shaderInt8 ? RD_INT8 : 0) |
         (f->v11.storageBuffer16BitAccess ? RD_STORAGE16 : 0) | (f->v12.storageBuffer8BitAccess ? RD_STORAGE8 : 0) |
         (f->v12.bufferDeviceAddress ? RD_ADDRESSES : 0) | (f->v12.shaderBufferInt64Atomics ? RD_INT64_ATOMICS : 0) |
         (f->v12.shaderSharedInt64Atomics ? RD_SHARED_INT64_ATOMICS : 0) |
         (f->atomic_floats.shaderBufferFloat32AtomicAdd ? RD_FLOAT32_ADD : 0) |
         (f->atomic_floats.shaderSharedFloat32AtomicAdd ? RD_SHARED_FLOAT32_ADD : 0) |
         (f->atomic_floats.shaderBufferFloat64AtomicAdd ? RD_FLOAT64_ADD : 0) |
         (f->atomic_floats.shaderSharedFloat64AtomicAdd ? RD_SHARED_FLOAT64_ADD : 0);
}

int32_t rd_vulkan_describe(RdVulkan* vulkan, int32_t index, RdVulkanInfo* out) {
  if (index < 0 || (uint32_t)index >= vulkan->count)
    return rd_fail(RD_FAILED, "there is no Vulkan device %d: this machine has %u", index, vulkan->count);
  VkPhysicalDevice device = vulkan->devices[index];
  VkPhysicalDeviceVulkan12Properties v12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  VkPhysicalDeviceVulkan11Properties v11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &v12};
  VkPhysicalDeviceProperties2 all = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
  vulkan->GetPhysicalDeviceProperties2(device, &all);
  const VkPhysicalDeviceProperties* p = &all.properties;
  const VkPhysicalDeviceLimits* limits = &p->limits;
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "%s", p->deviceName);
  snprintf(out->driver, sizeof out->driver, "%.100s %.100s", v12.driverName, v12.driverInfo);
  out->api = p->apiVersion;
  if (p->apiVersion < VK_API_VERSION_1_2) return 0;
  memcpy(out->identity, v11.deviceUUID, 16);
  memcpy(out->identity + 16, v11.driverUUID, 16);
  memcpy(out->identity + 32, p->pipelineCacheUUID, 16);
  Features features;
  rd_vulkan_features(vulkan, device, &features);
  out->features = feature_bits(&features) | (limits->timestampComputeAndGraphics ? RD_TIMESTAMPS : 0);
  if (features.subgroups.computeFullSubgroups && (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
      (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT))
    out->features |= RD_EXCHANGES;
  VkPhysicalDeviceMemoryProperties memory;
  vulkan->GetPhysicalDeviceMemoryProperties(device, &memory);
  for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
    if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && memory.memoryHeaps[i].size > out->memory)
      out->memory = memory.memoryHeaps[i].size;
  out->type = (uint32_t)p->deviceType;
  if (p->deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || p->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
    out->features |= RD_UNIFIED;
  out->subgroup = v11.subgroupSize;
  out->allocation = v11.maxMemoryAllocationSize;
  out->binding = limits->maxStorageBufferRange;
  memcpy(out->grid, limits->maxComputeWorkGroupCount, sizeof out->grid);
  memcpy(out->block, limits->maxComputeWorkGroupSize, sizeof out->block);
  out->threads = limits->maxComputeWorkGroupInvocations;
  out->shared = limits->maxComputeSharedMemorySize;
  out->arguments = limits->maxPushConstantsSize;
  out->bindings = limits->maxPerStageDescriptorStorageBuffers;
  if (out->bindings > limits->maxPerStageResources) out->bindings = limits->maxPerStageResources;
  if (out->bindings > limits->maxDescriptorSetStorageBuffers) out->bindings = limits->maxDescriptorSetStorageBuffers;
  out->denormals =
      mask_of(v12.shaderDenormPreserveFloat16, v12.shaderDenormPreserveFloat32, v12.shaderDenormPreserveFloat64);
  out->infinities = mask_of(v12.shaderSignedZeroInfNanPreserveFloat16, v12.shaderSignedZeroInfNanPreserveFloat32,
                            v12.shaderSignedZeroInfNanPreserveFloat64);
  out->round_to_even =
      mask_of(v12.shaderRoundingModeRTEFloat16, v12.shaderRoundingModeRTEFloat32, v12.shaderRoundingModeRTEFloat64);
  out->denormals_together = together(v12.denormBehaviorIndependence);
  out->rounding_together = together(v12.roundingModeIndependence);
  return 0;
}
