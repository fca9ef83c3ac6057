// A CUDA driver without a GPU: the functions of libcuda.so.1 that raido's runtime calls, over twins of kernels on the CPU.
//
// Machine code is the shared library of a twin (cuda_twin.py). Commands wait in their stream until somebody asks for them, as on a device.
// What a driver would refuse is refused: a call without context, a copy or free of what was never allocated, a block that is too large.
// fake_set changes what the driver is and has, fake_get counts what is alive.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "raido_cuda_api.h"

namespace {
typedef std::vector<std::function<CUresult()>> Commands;
struct Stream {
  std::deque<std::function<CUresult()>> commands;
  uint64_t given = 0, done = 0;  // commands, since it began
  Commands* recording = nullptr;
};
struct Event {
  std::chrono::steady_clock::time_point at;
  Stream* stream = nullptr;
  uint64_t moment = 0;  // of the stream: so many of its commands come before
  bool timed = true;
};
typedef void (*Run)(char*, const unsigned*, const unsigned*, unsigned, int);
struct Function {
  Run run;
  int declared, allowed;
  bool narrow;
};
struct Module {
  void* library;
  std::string prefix;
  std::map<std::string, Function> functions;
};

struct Block {
  size_t bytes;
  CUdevice device;
};
struct Registered {
  std::string path, prefix;
};

std::mutex lock;
std::map<std::string, Registered> registered;
std::map<std::string, int64_t> settings = {
    {"version", 13000}, {"devices", 2}, {"capability", 90}, {"memory", 1 << 30}, {"declared", 0}, {"fail_kernel", 0},
    {"fail_load", 0},   {"start", 0},   {"workers", 1},     {"seed", 1},        {"endless", 0}, {"fail_event", 0}};
std::map<std::string, int64_t> alive;
std::map<uint64_t, Block> blocks;
std::set<Stream*> streams;
Stream usual;  // the default stream
int64_t used;
CUresult sticky;
thread_local std::vector<CUcontext> contexts;
char the_contexts[8];

CUresult ready() { return contexts.empty() ? 201 : sticky; }  // CUDA_ERROR_INVALID_CONTEXT

bool inside(uint64_t address, size_t bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  auto block = std::prev(after);
  return address + bytes <= block->first + block->second.bytes;
}

CUdevice current() { return (CUdevice)((char*)contexts.back() - the_contexts); }

// A stream by its handle, nullptr where there is none such.
Stream* find(CUstream handle) {
  if ((uintptr_t)handle <= 2) return &usual;
  return streams.count((Stream*)handle) ? (Stream*)handle : nullptr;
}

// Puts a command into a stream, or into what is recorded there.
CUresult give(CUstream handle, std::function<CUresult()> command) {
  Stream* s = find(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (s->recording) return s->recording->push_back(command), 0;
  s->commands.push_back(command);
  s->given++;
  return 0;
}

CUresult run_one(Stream* stream) {
  auto command = stream->commands.front();
  stream->commands.pop_front();
  CUresult result = command();
  stream->done++;
  if (result) sticky = result;
  return result;
}

CUresult drain(Stream* stream) {
  while (!stream->commands.empty())
    if (CUresult result = run_one(stream)) return result;
  return sticky;
}

// Runs a stream up to a moment.
CUresult reach(Stream* stream, uint64_t moment) {
  while (stream->done < moment)
    if (CUresult result = run_one(stream)) return result;
  return sticky;
}
}  // namespace

#define DRIVER extern "C" __attribute__((visibility("default")))
#define HOLD std::lock_guard<std::mutex> hold(lock)
#define READY \
  HOLD;       \
  if (CUresult unready = ready()) return unready

DRIVER void fake_set(const char* name, int64_t value) { settings[name] = value; }
// The machine code that consists of a key alone: the twins in a library whose names begin with a prefix.
DRIVER void fake_register(const char* key, const char* path, const char* prefix) { registered[key] = {path, prefix}; }
DRIVER int64_t fake_get(const char* name) { return alive[name]; }
DRIVER void fake_recover() { sticky = 0; }

DRIVER CUresult cuInit(unsigned) { return (CUresult)settings["start"]; }
DRIVER CUresult cuDriverGetVersion(int* out) { return *out = (int)settings["version"], 0; }
DRIVER CUresult cuGetErrorName(CUresult, const char** out) { return *out = "CUDA_ERROR", 0; }
DRIVER CUresult cuGetErrorString(CUresult code, const char** out) {
  *out = code == 700 ? "an illegal memory access was encountered" : code == 2 ? "out of memory" : "something failed";
  return 0;
}
// NVRTC, in the same process, asks every driver for tables of functions that nobody documents.
DRIVER CUresult cuGetExportTable(const void**, const CUuuid*) { return 500; }
DRIVER CUresult cuDeviceGetCount(int* out) { return *out = (int)settings["devices"], 0; }
DRIVER CUresult cuDeviceGet(CUdevice* out, int index) {
  *out = index;
  return index >= 0 && index < settings["devices"] ? 0 : 101;
}
DRIVER CUresult cuDeviceGetName(char* out, int room, CUdevice device) {
  std::string name = "Imagined GPU " + std::to_string(device);
  std::strncpy(out, name.c_str(), (size_t)room);
  return 0;
}
DRIVER CUresult cuDeviceGetUuid_v2(CUuuid* out, CUdevice device) { return std::memset(out, device + 1, sizeof *out), 0; }
DRIVER CUresult cuDeviceTotalMem_v2(size_t* out, CUdevice) { return *out = (size_t)settings["memory"], 0; }
DRIVER CUresult cuDeviceGetAttribute(int* out, int which, CUdevice) {
  const std::map<int, int> values = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535},
                                     {10, 32}, {16, 132}, {97, 232448}};
  int capability = (int)settings["capability"];
  *out = which == 75 ? capability / 10 : which == 76 ? capability % 10 : values.at(which);
  return 0;
}

DRIVER CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  *out = (CUcontext)&the_contexts[device];
  alive["contexts"]++;
  return 0;
}
DRIVER CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return alive["contexts"]--, 0; }
DRIVER CUresult cuCtxPushCurrent_v2(CUcontext context) { return contexts.push_back(context), 0; }
DRIVER CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  if (contexts.empty()) return 201;
  *out = contexts.back();
  contexts.pop_back();
  return 0;
}

DRIVER CUresult cuStreamCreate(CUstream* out, unsigned) {
  READY;
  alive["streams"]++;
  Stream* made = new Stream;
  streams.insert(made);
  *out = (CUstream)made;
  return 0;
}
DRIVER CUresult cuStreamDestroy_v2(CUstream stream) {
  HOLD;
  drain((Stream*)stream);
  streams.erase((Stream*)stream);
  alive["streams"]--;
  delete (Stream*)stream;
  return 0;
}
DRIVER CUresult cuCtxSynchronize() {
  READY;
  alive["waits for all"]++;
  for (Stream* stream : streams)
    if (CUresult result = drain(stream)) return result;
  return drain(&usual);
}
DRIVER CUresult cuStreamQuery(CUstream stream) {
  READY;
  Stream* s = (Stream*)stream;
  if (settings["endless"]) return CUDA_ERROR_NOT_READY;
  if (s->commands.empty()) return 0;
  CUresult result = run_one(s);
  return result ? result : CUDA_ERROR_NOT_READY;
}
DRIVER CUresult cuStreamSynchronize(CUstream stream) {
  READY;
  return drain((Stream*)stream);
}
DRIVER CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  READY;
  Event* e = (Event*)event;
  Stream* other = e->stream;
  uint64_t moment = e->moment;
  return other ? give(stream, [=] { return reach(other, moment); }) : 0;
}

// Graphs: what a stream is given while it records.
DRIVER CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  READY;
  ((Stream*)stream)->recording = new Commands;
  return 0;
}
DRIVER CUresult cuStreamIsCapturing(CUstream stream, int* out) {
  READY;
  Stream* s = find(stream);
  return s ? (*out = s->recording != nullptr, 0) : CUDA_ERROR_INVALID_HANDLE;
}
DRIVER CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  HOLD;
  *out = (CUgraph)((Stream*)stream)->recording;
  ((Stream*)stream)->recording = nullptr;
  alive["graphs"]++;
  return sticky;
}
DRIVER CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  READY;
  alive["graphs"]++;
  *out = (CUgraphExec) new Commands(*(Commands*)graph);
  return 0;
}
DRIVER CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  READY;
  alive["graph launches"]++;
  for (auto& command : *(Commands*)graph)
    if (CUresult result = give(stream, command)) return result;
  return 0;
}
DRIVER CUresult cuGraphExecDestroy(CUgraphExec graph) { return alive["graphs"]--, delete (Commands*)graph, 0; }
DRIVER CUresult cuGraphDestroy(CUgraph graph) { return alive["graphs"]--, delete (Commands*)graph, 0; }

DRIVER CUresult cuPointerGetAttribute(void* out, int attribute, CUdeviceptr address) {
  READY;
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || !inside(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  *(int*)out = std::prev(blocks.upper_bound(address))->second.device;
  return 0;
}
DRIVER CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  READY;
  if (!bytes) return 1;
  if (used + (int64_t)bytes > settings["memory"]) return CUDA_ERROR_OUT_OF_MEMORY;
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(block, 0xA5, bytes);
  blocks[(uint64_t)block] = {bytes, current()};
  used += (int64_t)bytes;
  alive["blocks"]++;
  *out = (CUdeviceptr)block;
  return 0;
}
DRIVER CUresult cuMemFree_v2(CUdeviceptr address) {
  HOLD;
  auto found = blocks.find(address);
  if (found == blocks.end()) return 1;
  used -= (int64_t)found->second.bytes;
  alive["blocks"]--;
  blocks.erase(found);
  std::free((void*)address);
  return 0;
}
DRIVER CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  READY;
  if (!inside(to, bytes)) return 1;
  return give(stream, [=] { return std::memcpy((void*)to, from, bytes), 0; });
}
DRIVER CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  READY;
  if (!inside(from, bytes)) return 1;
  return give(stream, [=] { return std::memcpy(to, (void*)from, bytes), 0; });
}
DRIVER CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  READY;
  if (!inside(to, bytes) || !inside(from, bytes)) return 1;
  return give(stream, [=] { return std::memmove((void*)to, (void*)from, bytes), 0; });
}

DRIVER CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  READY;
  if (settings["fail_load"]) return (CUresult)settings["fail_load"];
  auto found = registered.find((const char*)image);
  if (found != registered.end()) {
    void* library = dlopen(found->second.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return CUDA_ERROR_INVALID_IMAGE;
    alive["modules"]++;
    *out = (CUmodule) new Module{library, found->second.prefix, {}};
    return 0;
  }
  if (std::memcmp(image, "\177ELF", 4)) return CUDA_ERROR_INVALID_IMAGE;
  uint64_t sections;  // the table of sections ends the file
  uint16_t size, count;
  std::memcpy(&sections, (const char*)image + 40, 8);
  std::memcpy(&size, (const char*)image + 58, 2);
  std::memcpy(&count, (const char*)image + 60, 2);
  int file = memfd_create("twin", 0);
  size_t bytes = sections + (uint64_t)size * count;
  if (write(file, image, bytes) != (ssize_t)bytes) return 1;
  void* library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: the loader knows it by its path
  if (!library) return CUDA_ERROR_INVALID_IMAGE;
  alive["modules"]++;
  alive["loads"]++;
  *out = (CUmodule) new Module{library, "", {}};
  return 0;
}
DRIVER CUresult cuModuleUnload(CUmodule module) { return alive["modules"]--, delete (Module*)module, 0; }
DRIVER CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  READY;
  Module* m = (Module*)module;
  Run run = (Run)dlsym(m->library, ("twin_" + m->prefix + name).c_str());
  if (!run) return 500;
  *out = (CUfunction) & (m->functions[name] = {run, (int)settings["declared"], 0, std::strstr(name, "raido_narrow_") == name});
  return 0;
}
DRIVER CUresult cuFuncGetAttribute(int* out, int, CUfunction function) { return *out = ((Function*)function)->declared, 0; }
DRIVER CUresult cuFuncSetAttribute(CUfunction function, int, int value) {
  alive["attributes"]++;
  return ((Function*)function)->allowed = value, 0;
}
DRIVER CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, CUstream stream, void** parameters, void** extra) {
  READY;
  Function* f = (Function*)function;
  if (parameters || bx * by * bz > 1024 || !(bx * by * bz) || !gx || !gy || !gz) return 1;
  if (shared > 49152 && (int)shared > f->allowed) return 1;
  std::vector<char> block;
  if (extra) {
    if (extra[0] != (void*)1 || extra[2] != (void*)2 || extra[4]) return 1;
    block.assign((char*)extra[1], (char*)extra[1] + *(size_t*)extra[3]);
  }
  CUresult failure = (CUresult)settings["fail_kernel"];
  alive["launches"]++;
  alive["narrow launches"] += f->narrow;
  return give(stream, [=]() mutable {
    if (failure) return failure;
    unsigned grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    f->run(block.data(), grid, threads, (unsigned)settings["seed"]++, (int)settings["workers"]);
    return (CUresult)0;
  });
}

DRIVER CUresult cuEventCreate(CUevent* out, unsigned flags) {
  READY;
  if (settings["fail_event"]) return CUDA_ERROR_OUT_OF_MEMORY;
  alive["events"]++;
  Event* made = new Event;
  made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  *out = (CUevent)made;
  return 0;
}
DRIVER CUresult cuEventDestroy_v2(CUevent event) { return alive["events"]--, delete (Event*)event, 0; }
DRIVER CUresult cuEventRecord(CUevent event, CUstream stream) {
  READY;
  Event* e = (Event*)event;
  // An event may be destroyed, or recorded again, before this moment comes: those that time are kept longer.
  CUresult result = give(stream, [e, timed = e->timed] {
    if (timed) e->at = std::chrono::steady_clock::now();
    return 0;
  });
  if (result) return result;
  e->stream = find(stream);
  e->moment = e->stream->given;
  return 0;
}
DRIVER CUresult cuEventSynchronize(CUevent event) {
  READY;
  Event* e = (Event*)event;
  return reach(e->stream, e->moment);
}
DRIVER CUresult cuEventQuery(CUevent event) {
  READY;
  Event* e = (Event*)event;
  return e->stream && e->stream->done < e->moment ? CUDA_ERROR_NOT_READY : 0;
}
DRIVER CUresult cuEventElapsedTime(float* out, CUevent from, CUevent to) {
  *out = std::chrono::duration<float, std::milli>(((Event*)to)->at - ((Event*)from)->at).count();
  return 0;
}
