/* The most memory that this process may ever have: that of its control group and of those around it.
 *
 * The kernel refuses a mapping that is larger than the whole machine's memory and swap (vm.overcommit_memory = 0), and NumPy's
 * malloc passes that refusal on.  In a container the machine is the control group, of which the kernel's rule knows nothing: it
 * grants the mapping and kills the process that fills it.  So the runtime applies the same rule to the group's limit.
 */
#ifndef RAIDO_RUNTIME_LIMIT_H
#define RAIDO_RUNTIME_LIMIT_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef __linux__
#include <sys/sysinfo.h>

#define CGROUP_PATH_BYTES 1024

/* The number in a file of a control group, or UINT64_MAX: there is no such file, or it says "max". */
static uint64_t read_group_limit(const char* root, const char* group, const char* name) {
  char path[CGROUP_PATH_BYTES + 256];
  unsigned long long bytes;
  snprintf(path, sizeof path, "%s%s/%s", root, group, name);
  FILE* file = fopen(path, "re");
  if (!file) return UINT64_MAX;
  int found = fscanf(file, "%llu", &bytes);
  fclose(file);
  return found == 1 ? bytes : UINT64_MAX;
}

/* The smallest limit of a group and of all that it is part of; the root's is also that of a namespace of its own. */
static uint64_t smallest_group_limit(const char* root, char* group, const char* name) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    uint64_t limit = read_group_limit(root, group, name);
    if (limit < least) least = limit;
    char* last = strrchr(group, '/');
    if (!last) return least;
    *last = 0;
  }
}

/* In bytes; UINT64_MAX when nothing but the machine limits it.  Reads a few small files: only for blocks that take far longer to fill. */
static uint64_t memory_limit(void) {
  uint64_t least = UINT64_MAX;
  char line[CGROUP_PATH_BYTES];
  FILE* groups = fopen("/proc/self/cgroup", "re"); /* lines "hierarchy:controllers:/path"; no controllers: version 2 */
  if (!groups) return least;
  while (fgets(line, sizeof line, groups)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    uint64_t limit = UINT64_MAX;
    if (!controllers[1]) limit = smallest_group_limit("/sys/fs/cgroup", group, "memory.max");
    if (!strcmp(controllers + 1, "memory"))
      limit = smallest_group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    if (limit < least) least = limit;
  }
  fclose(groups);
  struct sysinfo machine;
  if (least == UINT64_MAX || sysinfo(&machine)) return least;
  uint64_t swap = (uint64_t)machine.totalswap * machine.mem_unit; /* what a group may swap is at most what there is */
  return least > UINT64_MAX - swap ? UINT64_MAX : least + swap;
}
#else
static uint64_t memory_limit(void) { return UINT64_MAX; }
#endif
#endif
