/* One Vulkan device at work; raido_device.h says what each function promises.
 *
 * Memory.  A chunk is one allocation of the driver with one buffer over it; a range of a chunk is what callers see.  Freed ranges
 * are kept by size and handed out again: commands run in order, so a later command may use a range at once, while the CPU and
 * the driver wait for the last command that used it.
 * Commands.  A batch is a command buffer with an arena for what its commands read (arguments, staged data).  Batches are filled,
 * submitted and reused in turn; each has a number, and all up to `done` have run.  Between two commands that touch the same
 * range there is a barrier: ranges remember the barrier after which they were used last.
 */
#define _GNU_SOURCE
#include "raido_vulkan_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 4
#define BATCH_COMMANDS 64         /* then a batch is submitted: the device works while more is recorded */
#define BATCH_DESCRIPTORS 1024    /* of all sets of a batch */
#define ARENA_BYTES ((uint64_t)4 << 20)
#define CHUNK_BYTES ((uint64_t)16 << 20)
#define LARGE_BYTES ((uint64_t)4 << 20) /* from here on a range has a chunk of its own */
#define ALIGNMENT ((uint64_t)256)       /* the largest that Vulkan lets a device ask for descriptors */
#define SIZES 256                       /* four sizes of ranges for each power of two */
#define MARKS 64
#define FOREVER (~(uint64_t)0)
#define LAST_WAIT ((uint64_t)5000000000) /* nanoseconds for each batch, when a device is closed: a kernel may never end */

typedef struct Chunk {
  VkDeviceMemory memory;
  VkBuffer buffer;
  uint64_t size, used, address;
  uint32_t live; /* ranges in callers' hands */
  char* mapped;  /* NULL: the CPU cannot reach it */
  struct Chunk* next;
} Chunk;

struct RdBuffer {
  RdDevice* device;
  Chunk* chunk;
  uint64_t offset, room, bytes;
  uint64_t batch;   /* the last batch that used it */
  uint64_t barrier; /* the barrier after which it was used last */
  RdBuffer *next, *before;
};

typedef struct Batch {
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
  VkDescriptorPool descriptors;
  Chunk* arena;
  uint64_t number, arena_used;
  uint32_t count, sets;
  int submitted;
} Batch;

enum { WIDE, NARROW, CODES };

struct RdKernel {
  RdDevice* device;
  VkShaderModule modules[CODES];   /* NULL: there is no such code */
  VkPipeline pipelines[CODES];     /* NULL: not compiled yet */
  int exchanges;                   /* whether threads hand each other values, so that subgroups must be whole */
  VkPipelineLayout layout;
  VkDescriptorSetLayout set;
  int32_t addresses, inline_arguments;
  uint32_t pointers, argument_bytes, bindings, pushed, numbers, narrow_grid[3];
  uint64_t batch;
  RdKernel *next, *before;
  char* name;
  uint32_t offsets[]; /* of pointers, then of numbers, then the numbers' limits */
};

struct RdDevice {
  VkDevice device;
  DEVICE_FUNCTIONS(POINTER)
  pthread_mutex_t lock;
  RdVulkanInfo info;
  VkPhysicalDeviceMemoryProperties memory;
  VkQueue queue;
  uint32_t family;
  VkPipelineCache cache;
  uint64_t compiled; /* pipelines */
  VkQueryPool marks;
  double tick; /* seconds */
  uint64_t clock; /* the bits of a timestamp that count */
  uint32_t marked;
  int lost, staging;
  uint64_t limit, taken;
  Chunk *chunks, *open; /* open: ranges are cut from its end */
  RdBuffer *free[SIZES], *live;
  RdKernel* kernels;
  Batch batches[BATCHES], *now; /* now: being recorded, or NULL */
  uint64_t begun, done;         /* numbers of batches */
  uint64_t barrier;
};

static int32_t failed(RdDevice* d, VkResult result, const char* doing) {
  if (result == VK_ERROR_DEVICE_LOST) {
    d->lost = 1;
    return rd_fail(RD_LOST, "%s was lost while %s: a kernel did not end, or read where nothing is", d->info.name, doing);
  }
  int memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
  return rd_fail(memory ? RD_NO_MEMORY : RD_FAILED, "%s: %s while %s (%d)", d->info.name,
                        rd_vulkan_name_of(result), doing, result);
}

#define TRY(device, call, doing)                                     \
  do {                                                               \
    VkResult result_ = (call);                                       \
    if (result_ != VK_SUCCESS) return failed(device, result_, doing); \
  } while (0)

static int32_t usable(RdDevice* d) {
  if (!d->lost) return 0;
  return rd_fail(RD_LOST, "%s was lost by an earlier call; open it anew", d->info.name);
}

/* ---------------------------------------------------------------- memory */

static int find_type(RdDevice* d, uint32_t allowed, uint32_t wanted) {
  for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++)
    if ((allowed >> i & 1) && (d->memory.memoryTypes[i].propertyFlags & wanted) == wanted) return (int)i;
  return -1;
}

/* The memory for arrays is the device's own; for arenas it is what the CPU reaches, cached if possible. */
static int choose_type(RdDevice* d, uint32_t allowed, int for_cpu) {
  const uint32_t near = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const uint32_t seen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const uint32_t of_cpu[] = {seen | cached, seen}, unified[] = {near | seen | cached, near | seen, near, 0}, own[] = {near, 0};
  const uint32_t* wishes = for_cpu ? of_cpu : (d->info.features & RD_UNIFIED) ? unified : own;
  for (int i = 0; i < (for_cpu || wishes == own ? 2 : 4); i++) {
    int type = find_type(d, allowed, wishes[i]);
    if (type >= 0) return type;
  }
  return -1;
}

static void free_chunk(RdDevice* d, Chunk* chunk) {
  if (chunk->buffer) d->DestroyBuffer(d->device, chunk->buffer, NULL);
  if (chunk->memory) d->FreeMemory(d->device, chunk->memory, NULL);
  d->taken -= chunk->size;
  free(chunk);
}

static VkResult make_chunk(RdDevice* d, uint64_t size, int for_cpu, Chunk** out) {
  int addresses = (d->info.features & RD_ADDRESSES) != 0;
  Chunk* chunk = calloc(1, sizeof *chunk);
  if (!chunk) return VK_ERROR_OUT_OF_HOST_MEMORY;
  chunk->size = size;
  d->taken += size;
  VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size};
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (addresses) info.usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  VkResult result = d->CreateBuffer(d->device, &info, NULL, &chunk->buffer);
  if (result == VK_SUCCESS) {
    VkMemoryRequirements needs;
    d->GetBufferMemoryRequirements(d->device, chunk->buffer, &needs);
    int type = choose_type(d, needs.memoryTypeBits, for_cpu);
    VkMemoryAllocateFlagsInfo flags = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = addresses ? VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT : 0};
    VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needs.size, (uint32_t)type};
    result = type < 0 ? VK_ERROR_FEATURE_NOT_PRESENT : d->AllocateMemory(d->device, &allocate, NULL, &chunk->memory);
    if (result == VK_SUCCESS) result = d->BindBufferMemory(d->device, chunk->buffer, chunk->memory, 0);
    int reached = for_cpu || ((d->info.features & RD_UNIFIED) && !d->staging);
    int mapped = reached && type >= 0 && (d->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    if (result == VK_SUCCESS && mapped)
      result = d->MapMemory(d->device, chunk->memory, 0, VK_WHOLE_SIZE, 0, (void**)&chunk->mapped);
  }
  if (result != VK_SUCCESS) {
    free_chunk(d, chunk);
    return result;
  }
  if (addresses) {
    VkBufferDeviceAddressInfo at = {VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = chunk->buffer};
    chunk->address = d->GetBufferDeviceAddress(d->device, &at);
  }
  *out = chunk;
  return VK_SUCCESS;
}

/* The next size of ranges that is not below `bytes`, and its number: 2^k times 4/4, 5/4, 6/4 or 7/4. */
static uint32_t size_of(uint64_t bytes, uint64_t* room) {
  uint64_t size = bytes < ALIGNMENT ? ALIGNMENT : bytes;
  uint32_t power = 63 - (uint32_t)__builtin_clzll(size);
  uint64_t quarter = (uint64_t)1 << (power - 2), steps = (size + quarter - 1) >> (power - 2); /* 4 to 8 */
  *room = steps * quarter;
  if (*room % ALIGNMENT) *room += ALIGNMENT - *room % ALIGNMENT;
  return (power - 8) * 4 + (uint32_t)steps - 4;
}

static void link_buffer(RdBuffer** list, RdBuffer* buffer) {
  buffer->before = NULL;
  buffer->next = *list;
  if (*list) (*list)->before = buffer;
  *list = buffer;
}

static void unlink_buffer(RdBuffer** list, RdBuffer* buffer) {
  if (buffer->before) buffer->before->next = buffer->next;
  else *list = buffer->next;
  if (buffer->next) buffer->next->before = buffer->before;
}

static int32_t finish(RdDevice* d, uint64_t number, uint64_t nanoseconds);

/* Gives back the chunks that nobody has a range of; everything has run. */
static void trim(RdDevice* d) {
  for (int size = 0; size < SIZES; size++)
    for (RdBuffer *buffer = d->free[size], *next; buffer; buffer = next) {
      next = buffer->next;
      if (buffer->chunk->live) continue;
      unlink_buffer(&d->free[size], buffer);
      free(buffer);
    }
  for (Chunk** at = &d->chunks; *at;) {
    Chunk* chunk = *at;
    if (chunk->live) {
      at = &chunk->next;
      continue;
    }
    *at = chunk->next;
    if (d->open == chunk) d->open = NULL;
    free_chunk(d, chunk);
  }
}

static VkResult make_room(RdDevice* d, uint64_t size, Chunk** out) {
  VkResult result = d->taken + size > d->limit ? VK_ERROR_OUT_OF_DEVICE_MEMORY : make_chunk(d, size, 0, out);
  if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY) return result;
  if (finish(d, d->begun, FOREVER)) return VK_ERROR_DEVICE_LOST;
  trim(d);
  return d->taken + size > d->limit ? VK_ERROR_OUT_OF_DEVICE_MEMORY : make_chunk(d, size, 0, out);
}

static int32_t new_buffer(RdDevice* d, uint64_t bytes, RdBuffer** out) {
  if (bytes > d->info.allocation)
    return rd_fail(RD_NO_MEMORY, "%s cannot hold an array of %llu bytes: its largest has %llu", d->info.name,
                          (unsigned long long)bytes, (unsigned long long)d->info.allocation);
  uint64_t room;
  uint32_t size = size_of(bytes, &room);
  if (room > d->info.allocation) room = bytes;
  RdBuffer* buffer = d->free[size];
  if (buffer && buffer->room >= bytes) {
    unlink_buffer(&d->free[size], buffer);
  } else {
    int large = room >= LARGE_BYTES;
    Chunk* chunk = large ? NULL : d->open;
    buffer = calloc(1, sizeof *buffer);
    if (!buffer) return rd_fail(RD_NO_MEMORY, "no memory");
    if (!chunk || chunk->size - chunk->used < room) {
      VkResult result = make_room(d, large ? room : CHUNK_BYTES, &chunk);
      if (result != VK_SUCCESS) {
        free(buffer);
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY) return failed(d, result, "allocating memory");
        return rd_fail(RD_NO_MEMORY, "%s has no %llu bytes left: %llu of %llu are taken", d->info.name,
                              (unsigned long long)bytes, (unsigned long long)d->taken, (unsigned long long)d->limit);
      }
      chunk->next = d->chunks;
      d->chunks = chunk;
      if (!large) d->open = chunk;
    }
    buffer->device = d;
    buffer->chunk = chunk;
    buffer->offset = chunk->used;
    buffer->room = room;
    chunk->used += room;
  }
  buffer->bytes = bytes;
  buffer->chunk->live++;
  link_buffer(&d->live, buffer);
  *out = buffer;
  return 0;
}

static void release_buffer(RdBuffer* buffer) {
  RdDevice* d = buffer->device;
  uint64_t room;
  unlink_buffer(&d->live, buffer);
  buffer->chunk->live--;
  link_buffer(&d->free[size_of(buffer->bytes, &room)], buffer);
}

/* ---------------------------------------------------------------- batches */

static int32_t wait_for(RdDevice* d, Batch* batch, uint64_t nanoseconds) {
  VkResult result = d->WaitForFences(d->device, 1, &batch->fence, 1, nanoseconds);
  if (result == VK_TIMEOUT) return RD_BUSY;
  TRY(d, result, "waiting for kernels");
  TRY(d, d->ResetFences(d->device, 1, &batch->fence), "waiting for kernels");
  batch->submitted = 0;
  if (batch->number > d->done) d->done = batch->number;
  return 0;
}

static void write_barrier(RdDevice* d, uint32_t after, uint32_t reads, uint32_t before) {
  VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                            .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                            .dstAccessMask = reads};
  d->CmdPipelineBarrier(d->now->commands, after, before, 0, 1, &memory, 0, NULL, 0, NULL);
}

#define ON_DEVICE (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)

static int32_t submit(RdDevice* d) {
  Batch* batch = d->now;
  if (!batch) return 0;
  write_barrier(d, ON_DEVICE, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
  TRY(d, d->EndCommandBuffer(batch->commands), "recording");
  VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &batch->commands};
  d->now = NULL;
  TRY(d, d->QueueSubmit(d->queue, 1, &info, batch->fence), "submitting kernels");
  batch->submitted = 1;
  return 0;
}

/* Submits, and waits for all batches up to that number. */
static int32_t finish(RdDevice* d, uint64_t number, uint64_t nanoseconds) {
  RD_PASS(usable(d));
  if (d->now && d->now->number <= number) RD_PASS(submit(d));
  for (uint64_t k = d->done + 1; k <= number; k++) {
    Batch* batch = &d->batches[k % BATCHES];
    if (batch->submitted && batch->number == k) RD_PASS(wait_for(d, batch, nanoseconds));
  }
  return 0;
}

static int32_t make_batch(RdDevice* d, Batch* batch) {
  VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = d->family};
  TRY(d, d->CreateCommandPool(d->device, &pool, NULL, &batch->pool), "making a command pool");
  VkCommandBufferAllocateInfo commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, batch->pool,
                                          VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  TRY(d, d->AllocateCommandBuffers(d->device, &commands, &batch->commands), "making a command buffer");
  VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, 0};
  TRY(d, d->CreateFence(d->device, &fence, NULL, &batch->fence), "making a fence");
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, BATCH_DESCRIPTORS};
  VkDescriptorPoolCreateInfo descriptors = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = BATCH_COMMANDS,
                                            .poolSizeCount = 1,
                                            .pPoolSizes = &size};
  TRY(d, d->CreateDescriptorPool(d->device, &descriptors, NULL, &batch->descriptors), "making a descriptor pool");
  return 0;
}

/* A batch to record into, with room for one more command. */
static int32_t begin(RdDevice* d) {
  RD_PASS(usable(d));
  if (d->now && d->now->count >= BATCH_COMMANDS) RD_PASS(submit(d));
  if (d->now) return 0;
  Batch* batch = &d->batches[(d->begun + 1) % BATCHES];
  if (batch->submitted) RD_PASS(wait_for(d, batch, FOREVER));
  TRY(d, d->ResetCommandPool(d->device, batch->pool, 0), "recording");
  if (batch->sets) TRY(d, d->ResetDescriptorPool(d->device, batch->descriptors, 0), "recording");
  VkCommandBufferBeginInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                   .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  TRY(d, d->BeginCommandBuffer(batch->commands, &info), "recording");
  batch->number = ++d->begun;
  batch->arena_used = batch->count = batch->sets = 0;
  d->now = batch;
  return 0;
}

/* Room in the arena of a batch, which may be a new one: what lies in the arena belongs to the next command. */
static int32_t from_arena(RdDevice* d, uint64_t bytes, uint64_t* offset) {
  if (d->now && d->now->arena_used + bytes > ARENA_BYTES) RD_PASS(submit(d));
  RD_PASS(begin(d));
  if (!d->now->arena) TRY(d, make_chunk(d, ARENA_BYTES, 1, &d->now->arena), "allocating memory for arguments");
  *offset = d->now->arena_used;
  d->now->arena_used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return 0;
}

/* Before a command that uses these ranges: waits on the device for those that used them since the last barrier. */
static void order(RdDevice* d, RdBuffer* const* buffers, uint32_t count) {
  int again = 0;
  for (uint32_t i = 0; i < count; i++) again |= buffers[i]->batch && buffers[i]->barrier == d->barrier;
  if (again) {
    write_barrier(d, ON_DEVICE,
                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                      VK_ACCESS_TRANSFER_WRITE_BIT,
                  ON_DEVICE);
    d->barrier++;
  }
  for (uint32_t i = 0; i < count; i++) {
    buffers[i]->batch = d->now->number;
    buffers[i]->barrier = d->barrier;
  }
  d->now->count++;
}

/* ---------------------------------------------------------------- copies */

static int32_t check_range(RdBuffer* buffer, uint64_t offset, uint64_t bytes) {
  if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return 0;
  return rd_fail(RD_FAILED, "%llu bytes at %llu are not inside of an array of %llu bytes",
                        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
}

static void record_copy(RdDevice* d, VkBuffer from, uint64_t offset, VkBuffer to, uint64_t at, uint64_t bytes) {
  VkBufferCopy region = {offset, at, bytes};
  d->CmdCopyBuffer(d->now->commands, from, to, 1, &region);
}

static int32_t write_buffer(RdBuffer* buffer, uint64_t offset, const char* from, uint64_t bytes) {
  RdDevice* d = buffer->device;
  RD_PASS(check_range(buffer, offset, bytes));
  RD_PASS(usable(d));
  int idle = buffer->batch <= d->done;
  if (buffer->chunk->mapped && (idle || bytes > ARENA_BYTES)) {
    RD_PASS(finish(d, buffer->batch, FOREVER));
    memcpy(buffer->chunk->mapped + buffer->offset + offset, from, bytes);
    return 0;
  }
  while (bytes) {
    uint64_t part = bytes < ARENA_BYTES ? bytes : ARENA_BYTES, place;
    RD_PASS(from_arena(d, part, &place));
    memcpy(d->now->arena->mapped + place, from, part);
    order(d, &buffer, 1);
    record_copy(d, d->now->arena->buffer, place, buffer->chunk->buffer, buffer->offset + offset, part);
    from += part, offset += part, bytes -= part;
  }
  return 0;
}

static int32_t read_buffer(RdBuffer* buffer, uint64_t offset, char* to, uint64_t bytes) {
  RdDevice* d = buffer->device;
  RD_PASS(check_range(buffer, offset, bytes));
  if (buffer->chunk->mapped) {
    RD_PASS(finish(d, buffer->batch, FOREVER));
    memcpy(to, buffer->chunk->mapped + buffer->offset + offset, bytes);
    return 0;
  }
  while (bytes) {
    uint64_t part = bytes < ARENA_BYTES ? bytes : ARENA_BYTES, place;
    RD_PASS(from_arena(d, part, &place));
    Batch* batch = d->now;
    order(d, &buffer, 1);
    record_copy(d, buffer->chunk->buffer, buffer->offset + offset, batch->arena->buffer, place, part);
    RD_PASS(finish(d, batch->number, FOREVER));
    memcpy(to, batch->arena->mapped + place, part);
    to += part, offset += part, bytes -= part;
  }
  return 0;
}

static int32_t copy_buffer(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes) {
  RdDevice* d = to->device;
  RD_PASS(check_range(to, at, bytes));
  RD_PASS(check_range(from, offset, bytes));
  if (to == from && at < offset + bytes && offset < at + bytes && bytes)
    return rd_fail(RD_FAILED, "a copy inside of an array must not overlap itself");
  RD_PASS(begin(d));
  if (!bytes) return 0;
  RdBuffer* used[] = {to, from};
  order(d, used, 2);
  record_copy(d, from->chunk->buffer, from->offset + offset, to->chunk->buffer, to->offset + at, bytes);
  return 0;
}

/* ---------------------------------------------------------------- kernels */

static void destroy_kernel(RdDevice* d, RdKernel* kernel) {
  for (int code = 0; code < CODES; code++) {
    if (kernel->pipelines[code]) d->DestroyPipeline(d->device, kernel->pipelines[code], NULL);
    if (kernel->modules[code]) d->DestroyShaderModule(d->device, kernel->modules[code], NULL);
  }
  if (kernel->layout) d->DestroyPipelineLayout(d->device, kernel->layout, NULL);
  if (kernel->set) d->DestroyDescriptorSetLayout(d->device, kernel->set, NULL);
  free(kernel->name);
  free(kernel);
}

/* Whether SPIR-V declares that values go from thread to thread. */
static int declares_exchanges(const uint32_t* words, uint64_t count) {
  enum { HEADER = 5, OP_CAPABILITY = 17, GROUP_NON_UNIFORM_SHUFFLE_RELATIVE = 66 };
  for (uint64_t i = HEADER; i + 1 < count && (words[i] & 0xffff) == OP_CAPABILITY; i += 2)
    if (words[i + 1] == GROUP_NON_UNIFORM_SHUFFLE_RELATIVE) return 1;
  return 0;
}

static int32_t add_code(RdDevice* d, RdKernel* kernel, int which, const void* code, uint64_t bytes) {
  VkShaderModuleCreateInfo words = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
  kernel->exchanges |= declares_exchanges(code, bytes / 4);
  TRY(d, d->CreateShaderModule(d->device, &words, NULL, &kernel->modules[which]), "making a kernel");
  return 0;
}

static int32_t compile_code(RdDevice* d, RdKernel* kernel, int which) {
  if (kernel->pipelines[which]) return 0;
  VkPipelineShaderStageCreateInfo stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                           .flags = kernel->exchanges ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT : 0,
                                           .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                           .module = kernel->modules[which],
                                           .pName = kernel->name};
  VkComputePipelineCreateInfo pipeline = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .stage = stage, .layout = kernel->layout};
  TRY(d, d->CreateComputePipelines(d->device, d->cache, 1, &pipeline, NULL, &kernel->pipelines[which]), "compiling a kernel");
  d->compiled++;
  return 0;
}

static int32_t build_kernel(RdDevice* d, RdKernel* kernel, const RdKernelInfo* info) {
  VkDescriptorSetLayoutBinding bindings[BATCH_DESCRIPTORS];
  for (uint32_t i = 0; i < kernel->bindings; i++)
    bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  VkDescriptorSetLayoutCreateInfo set = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                         .bindingCount = kernel->bindings,
                                         .pBindings = bindings};
  if (kernel->bindings) TRY(d, d->CreateDescriptorSetLayout(d->device, &set, NULL, &kernel->set), "making a kernel");
  VkPushConstantRange pushed = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel->pushed};
  VkPipelineLayoutCreateInfo layout = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = kernel->bindings ? 1 : 0,
                                       .pSetLayouts = &kernel->set,
                                       .pushConstantRangeCount = kernel->pushed ? 1 : 0,
                                       .pPushConstantRanges = &pushed};
  TRY(d, d->CreatePipelineLayout(d->device, &layout, NULL, &kernel->layout), "making a kernel");
  RD_PASS(add_code(d, kernel, WIDE, info->code, info->bytes));
  if (info->narrow) RD_PASS(add_code(d, kernel, NARROW, info->narrow, info->narrow_bytes));
  RD_PASS(compile_code(d, kernel, info->narrow ? NARROW : WIDE)); /* the other when a launch needs it */
  return 0;
}

static int32_t new_kernel(RdDevice* d, const RdKernelInfo* info, RdKernel** out) {
  RD_PASS(usable(d));
  RdKernel* kernel = calloc(1, sizeof *kernel + (info->pointers + 2 * (uint64_t)info->numbers) * sizeof(uint32_t));
  char* name = strdup(info->name);
  if (!kernel || !name) {
    free(kernel);
    free(name);
    return rd_fail(RD_NO_MEMORY, "no memory");
  }
  kernel->name = name;
  kernel->device = d;
  kernel->addresses = info->addresses;
  kernel->inline_arguments = info->inline_arguments;
  kernel->pointers = info->pointers;
  kernel->argument_bytes = info->argument_bytes;
  kernel->numbers = info->numbers;
  memcpy(kernel->narrow_grid, info->narrow_grid, sizeof kernel->narrow_grid);
  memcpy(kernel->offsets, info->offsets, info->pointers * sizeof(uint32_t));
  for (uint32_t i = 0; i < info->numbers; i++) {
    kernel->offsets[info->pointers + i] = info->number_offsets[i];
    kernel->offsets[info->pointers + info->numbers + i] = info->narrow_limits[i];
  }
  kernel->bindings = info->addresses ? 0 : info->pointers + !info->inline_arguments;
  kernel->pushed = info->inline_arguments ? (info->argument_bytes + 3) / 4 * 4 : info->addresses ? 8 : 0;
  int32_t code = kernel->bindings > BATCH_DESCRIPTORS
                     ? rd_fail(RD_FAILED, "a kernel has at most %d descriptors", BATCH_DESCRIPTORS)
                     : build_kernel(d, kernel, info);
  if (code) {
    destroy_kernel(d, kernel);
    return code;
  }
  kernel->next = d->kernels;
  if (d->kernels) d->kernels->before = kernel;
  d->kernels = kernel;
  *out = kernel;
  return 0;
}

int rd_kernel_takes(const RdKernel* kernel, uint32_t arrays, uint32_t bytes) {
  return kernel->pointers == arrays && kernel->argument_bytes <= bytes;
}

static void release_kernel(RdKernel* kernel) {
  RdDevice* d = kernel->device;
  if (!d->lost) finish(d, kernel->batch, FOREVER);
  if (kernel->before) kernel->before->next = kernel->next;
  else d->kernels = kernel->next;
  if (kernel->next) kernel->next->before = kernel->before;
  destroy_kernel(d, kernel);
}

/* A set of descriptors for a launch; the arguments, where they are in memory, are the last one. */
static int32_t bind_arrays(RdKernel* kernel, RdBuffer* const* buffers, uint64_t place) {
  RdDevice* d = kernel->device;
  VkDescriptorSet set;
  VkDescriptorSetAllocateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, d->now->descriptors, 1, &kernel->set};
  TRY(d, d->AllocateDescriptorSets(d->device, &info, &set), "binding arrays");
  VkDescriptorBufferInfo arrays[BATCH_DESCRIPTORS];
  for (uint32_t i = 0; i < kernel->pointers; i++) {
    uint64_t bytes = buffers[i]->bytes ? (buffers[i]->bytes + 3) / 4 * 4 : 4;
    arrays[i] = (VkDescriptorBufferInfo){buffers[i]->chunk->buffer, buffers[i]->offset, bytes};
  }
  if (!kernel->inline_arguments)
    arrays[kernel->pointers] = (VkDescriptorBufferInfo){d->now->arena->buffer, place, kernel->argument_bytes};
  VkWriteDescriptorSet write = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                .dstSet = set,
                                .descriptorCount = kernel->bindings,
                                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                .pBufferInfo = arrays};
  d->UpdateDescriptorSets(d->device, 1, &write, 0, NULL);
  d->CmdBindDescriptorSets(d->now->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set, 0, NULL);
  d->now->sets += kernel->bindings;
  return 0;
}

static int32_t check_launch(RdKernel* kernel, const uint32_t grid[3], RdBuffer* const* buffers) {
  const RdVulkanInfo* info = &kernel->device->info;
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] > info->grid[axis])
      return rd_fail(RD_FAILED, "kernel %s: %u blocks along %c, and %s takes at most %u", kernel->name, grid[axis],
                            "xyz"[axis], info->name, info->grid[axis]);
  for (uint32_t i = 0; i < kernel->pointers; i++) {
    if (buffers[i]->device != kernel->device)
      return rd_fail(RD_FAILED, "kernel %s: array %u is on another device", kernel->name, i);
    if (!kernel->addresses && buffers[i]->bytes > info->binding)
      return rd_fail(RD_FAILED, "kernel %s: array %u has %llu bytes, and a descriptor of %s reaches %llu",
                            kernel->name, i, (unsigned long long)buffers[i]->bytes, info->name, (unsigned long long)info->binding);
  }
  return 0;
}

/* The code for a launch: the narrow one where everything that its indices are made of is small. */
static int choose_code(const RdKernel* kernel, const uint32_t grid[3], const char* arguments, RdBuffer* const* buffers) {
  if (!kernel->modules[NARROW]) return WIDE;
  for (uint32_t i = 0; i < kernel->pointers; i++)
    if (buffers[i]->bytes > INT32_MAX) return WIDE;
  const uint32_t *numbers = kernel->offsets + kernel->pointers, *limits = numbers + kernel->numbers;
  return rd_is_small(kernel->narrow_grid, grid, kernel->numbers, numbers, limits, arguments) ? NARROW : WIDE;
}

static int32_t launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments, RdBuffer* const* buffers) {
  RdDevice* d = kernel->device;
  RD_PASS(check_launch(kernel, grid, buffers));
  if (d->now && d->now->sets + kernel->bindings > BATCH_DESCRIPTORS) RD_PASS(submit(d));
  RD_PASS(begin(d));
  if (!grid[0] || !grid[1] || !grid[2]) return 0;
  int code = choose_code(kernel, grid, arguments, buffers);
  RD_PASS(compile_code(d, kernel, code));
  uint64_t place = 0;
  char small[256], *block = small; /* push constants are bytes of the launch: 128 or 256 on every device known */
  if (!kernel->inline_arguments) {
    RD_PASS(from_arena(d, kernel->argument_bytes, &place));
    block = d->now->arena->mapped + place;
  } else if (kernel->argument_bytes > sizeof small) {
    return rd_fail(RD_FAILED, "kernel %s: a launch carries at most %zu bytes", kernel->name, sizeof small);
  }
  if (kernel->argument_bytes) memcpy(block, arguments, kernel->argument_bytes);
  for (uint32_t i = 0; kernel->addresses && i < kernel->pointers; i++) {
    uint64_t address = buffers[i]->chunk->address + buffers[i]->offset;
    memcpy(block + kernel->offsets[i], &address, sizeof address);
  }
  order(d, buffers, kernel->pointers);
  kernel->batch = d->now->number;
  d->CmdBindPipeline(d->now->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipelines[code]);
  if (kernel->bindings) RD_PASS(bind_arrays(kernel, buffers, place));
  uint64_t address = d->now->arena ? d->now->arena->address + place : 0;
  if (kernel->pushed)
    d->CmdPushConstants(d->now->commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel->pushed,
                        kernel->inline_arguments ? (void*)block : &address);
  d->CmdDispatch(d->now->commands, grid[0], grid[1], grid[2]);
  return 0;
}

/* ---------------------------------------------------------------- devices */

static int32_t find_family(RdVulkan* vulkan, VkPhysicalDevice device, uint32_t* family, uint32_t* clock_bits) {
  VkQueueFamilyProperties all[32];
  uint32_t count = 32;
  vulkan->GetPhysicalDeviceQueueFamilyProperties(device, &count, all);
  for (uint32_t i = 0; i < count; i++)
    if (all[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
      *family = i;
      *clock_bits = all[i].timestampValidBits;
      return 0;
    }
  return rd_fail(RD_FAILED, "the device runs no compute kernels");
}

static int32_t create_device(RdVulkan* vulkan, const RdDeviceOptions* options, RdDevice* d) {
  VkPhysicalDevice physical = vulkan->devices[options->index];
  uint32_t clock_bits = 0;
  RD_PASS(find_family(vulkan, physical, &d->family, &clock_bits));
  if (!clock_bits) d->info.features &= ~(uint32_t)RD_TIMESTAMPS;
  Features has, use;
  rd_vulkan_features(vulkan, physical, &has);
  memset(&use, 0, sizeof use);
  use.all = (VkPhysicalDeviceFeatures2){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &use.v11};
  use.all.features.robustBufferAccess = options->robust ? has.all.features.robustBufferAccess : 0;
  use.all.features.shaderFloat64 = has.all.features.shaderFloat64;
  use.all.features.shaderInt64 = has.all.features.shaderInt64;
  use.all.features.shaderInt16 = has.all.features.shaderInt16;
  use.v11 = (VkPhysicalDeviceVulkan11Features){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &use.v12};
  use.v11.storageBuffer16BitAccess = has.v11.storageBuffer16BitAccess;
  use.v12 = (VkPhysicalDeviceVulkan12Features){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                               .pNext = NULL};
  use.v12.storageBuffer8BitAccess = has.v12.storageBuffer8BitAccess;
  use.v12.shaderBufferInt64Atomics = has.v12.shaderBufferInt64Atomics;
  use.v12.shaderSharedInt64Atomics = has.v12.shaderSharedInt64Atomics;
  use.v12.shaderFloat16 = has.v12.shaderFloat16;
  use.v12.shaderInt8 = has.v12.shaderInt8;
  use.v12.bufferDeviceAddress = has.v12.bufferDeviceAddress;
  const char* extensions[2];
  uint32_t count = 0;
  void** last = &use.v12.pNext;
  if (rd_vulkan_has_extension(vulkan, physical, ATOMIC_FLOAT)) {
    use.atomic_floats = has.atomic_floats;
    *last = &use.atomic_floats;
    last = &use.atomic_floats.pNext;
    extensions[count++] = ATOMIC_FLOAT;
  }
  if (rd_vulkan_has_extension(vulkan, physical, SUBGROUP_SIZE)) {
    use.subgroups = has.subgroups;
    *last = &use.subgroups;
    last = &use.subgroups.pNext;
    extensions[count++] = SUBGROUP_SIZE;
  }
  *last = NULL;
  float priority = 1;
  VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueFamilyIndex = d->family,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = &use.all,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &queue,
                             .enabledExtensionCount = count,
                             .ppEnabledExtensionNames = extensions};
  TRY(d, vulkan->CreateDevice(physical, &info, NULL, &d->device), "opening it");
#define FIND(name) d->name = (PFN_vk##name)vulkan->GetDeviceProcAddr(d->device, "vk" #name);
  DEVICE_FUNCTIONS(FIND)
  vulkan->GetPhysicalDeviceMemoryProperties(physical, &d->memory);
  d->GetDeviceQueue(d->device, d->family, 0, &d->queue);
  VkPhysicalDeviceProperties2 all = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = NULL};
  vulkan->GetPhysicalDeviceProperties2(physical, &all);
  d->tick = all.properties.limits.timestampPeriod * 1e-9;
  d->clock = clock_bits < 64 ? ((uint64_t)1 << clock_bits) - 1 : UINT64_MAX;
  return 0;
}

static int32_t set_up(RdVulkan* vulkan, const RdDeviceOptions* options, RdDevice* d) {
  RD_PASS(rd_vulkan_describe(vulkan, options->index, &d->info));
  if (d->info.api < VK_API_VERSION_1_2)
    return rd_fail(RD_FAILED, "%s has Vulkan %u.%u, and raido needs 1.2", d->info.name, d->info.api >> 22,
                          d->info.api >> 12 & 1023);
  d->staging = options->staging;
  d->limit = options->memory ? options->memory : d->info.memory;
  RD_PASS(create_device(vulkan, options, d));
  VkPipelineCacheCreateInfo cache = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                     .initialDataSize = options->cache_bytes,
                                     .pInitialData = options->cache};
  TRY(d, d->CreatePipelineCache(d->device, &cache, NULL, &d->cache), "reading a pipeline cache");
  VkQueryPoolCreateInfo marks = {VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = MARKS};
  if (d->info.features & RD_TIMESTAMPS) TRY(d, d->CreateQueryPool(d->device, &marks, NULL, &d->marks), "making timestamps");
  for (int i = 0; i < BATCHES; i++) RD_PASS(make_batch(d, &d->batches[i]));
  return 0;
}

int32_t rd_device_open(RdVulkan* vulkan, const RdDeviceOptions* options, RdDevice** out) {
  RdDevice* d = calloc(1, sizeof *d);
  if (!d) return rd_fail(RD_NO_MEMORY, "no memory");
  pthread_mutex_init(&d->lock, NULL);
  int32_t code = set_up(vulkan, options, d);
  if (code) {
    rd_device_close(d);
    return code;
  }
  *out = d;
  return 0;
}

void rd_device_close(RdDevice* d) {
  if (d->device) {
    if (!d->lost && finish(d, d->begun, LAST_WAIT) == RD_BUSY) return; /* what still runs must not be freed */
    d->DeviceWaitIdle(d->device);
    for (RdKernel *kernel = d->kernels, *next; kernel; kernel = next) {
      next = kernel->next;
      destroy_kernel(d, kernel);
    }
    for (int i = 0; i < BATCHES; i++) {
      Batch* batch = &d->batches[i];
      if (batch->arena) free_chunk(d, batch->arena);
      if (batch->descriptors) d->DestroyDescriptorPool(d->device, batch->descriptors, NULL);
      if (batch->fence) d->DestroyFence(d->device, batch->fence, NULL);
      if (batch->pool) d->DestroyCommandPool(d->device, batch->pool, NULL);
    }
    while (d->live) release_buffer(d->live);
    trim(d);
    if (d->marks) d->DestroyQueryPool(d->device, d->marks, NULL);
    if (d->cache) d->DestroyPipelineCache(d->device, d->cache, NULL);
    d->DestroyDevice(d->device, NULL);
  }
  pthread_mutex_destroy(&d->lock);
  free(d);
}

/* ---------------------------------------------------------------- what callers call: one at a time */

#define LOCKED(device, call)                \
  do {                                      \
    pthread_mutex_lock(&(device)->lock);    \
    int32_t code_ = (call);                 \
    pthread_mutex_unlock(&(device)->lock);  \
    return code_;                           \
  } while (0)

int32_t rd_device_finish(RdDevice* device, uint64_t nanoseconds) {
  LOCKED(device, finish(device, device->begun, nanoseconds));
}

uint64_t rd_device_taken(RdDevice* device) {
  pthread_mutex_lock(&device->lock);
  uint64_t taken = device->taken;
  pthread_mutex_unlock(&device->lock);
  return taken;
}

static int32_t finish_and_trim(RdDevice* d) {
  RD_PASS(finish(d, d->begun, FOREVER));
  trim(d);
  return 0;
}

int32_t rd_device_trim(RdDevice* device) { LOCKED(device, finish_and_trim(device)); }

int64_t rd_device_cache(RdDevice* device, void* out, uint64_t room) {
  size_t size = 0;
  pthread_mutex_lock(&device->lock);
  VkResult result = device->GetPipelineCacheData(device->device, device->cache, &size, NULL);
  if (result == VK_SUCCESS && size <= room) result = device->GetPipelineCacheData(device->device, device->cache, &size, out);
  pthread_mutex_unlock(&device->lock);
  return result == VK_SUCCESS ? (int64_t)size : 0;
}

uint64_t rd_device_compiled(RdDevice* device) {
  pthread_mutex_lock(&device->lock);
  uint64_t compiled = device->compiled;
  pthread_mutex_unlock(&device->lock);
  return compiled;
}

static int32_t mark(RdDevice* d, uint32_t* out) {
  if (!d->marks) return rd_fail(RD_FAILED, "%s has no timestamps", d->info.name);
  RD_PASS(begin(d));
  *out = d->marked++;
  d->CmdResetQueryPool(d->now->commands, d->marks, *out % MARKS, 1);
  d->CmdWriteTimestamp(d->now->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, d->marks, *out % MARKS);
  d->now->count++;
  return 0;
}

int32_t rd_device_mark(RdDevice* device, uint32_t* out) { LOCKED(device, mark(device, out)); }

static int32_t elapsed(RdDevice* d, uint32_t from, uint32_t to, double* seconds) {
  uint64_t times[2];
  const uint32_t which[] = {from, to};
  RD_PASS(finish(d, d->begun, FOREVER));
  for (int i = 0; i < 2; i++) {
    if (which[i] >= d->marked || which[i] + MARKS < d->marked)
      return rd_fail(RD_FAILED, "moment %u is not kept", which[i]);
    TRY(d, d->GetQueryPoolResults(d->device, d->marks, which[i] % MARKS, 1, sizeof times[i], &times[i], sizeof times[i],
                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "reading timestamps");
  }
  *seconds = (double)((times[1] - times[0]) & d->clock) * d->tick;
  return 0;
}

int32_t rd_device_elapsed(RdDevice* device, uint32_t from, uint32_t to, double* seconds) {
  LOCKED(device, elapsed(device, from, to, seconds));
}

int32_t rd_buffer_new(RdDevice* device, uint64_t bytes, RdBuffer** out) {
  LOCKED(device, usable(device) ? RD_LOST : new_buffer(device, bytes, out));
}

void rd_buffer_free(RdBuffer* buffer) {
  RdDevice* device = buffer->device;
  pthread_mutex_lock(&device->lock);
  release_buffer(buffer);
  pthread_mutex_unlock(&device->lock);
}

int32_t rd_buffer_write(RdBuffer* buffer, uint64_t offset, const void* from, uint64_t bytes) {
  LOCKED(buffer->device, write_buffer(buffer, offset, from, bytes));
}

int32_t rd_buffer_read(RdBuffer* buffer, uint64_t offset, void* to, uint64_t bytes) {
  LOCKED(buffer->device, read_buffer(buffer, offset, to, bytes));
}

int32_t rd_buffer_copy(RdBuffer* to, uint64_t at, RdBuffer* from, uint64_t offset, uint64_t bytes) {
  LOCKED(to->device, copy_buffer(to, at, from, offset, bytes));
}

int32_t rd_kernel_new(RdDevice* device, const RdKernelInfo* info, RdKernel** out) {
  LOCKED(device, new_kernel(device, info, out));
}

void rd_kernel_free(RdKernel* kernel) {
  RdDevice* device = kernel->device;
  pthread_mutex_lock(&device->lock);
  release_kernel(kernel);
  pthread_mutex_unlock(&device->lock);
}

int32_t rd_device_repeat(RdDevice* device, int32_t (*body)(void* context), void* context, uint64_t times) {
  (void)device;
  for (; times; times--) RD_PASS(body(context));
  return 0;
}

int32_t rd_kernel_launch(RdKernel* kernel, const uint32_t grid[3], const void* arguments, RdBuffer* const* buffers) {
  LOCKED(kernel->device, launch(kernel, grid, arguments, buffers));
}
