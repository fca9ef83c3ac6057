/* Pipelines on disk, as entries of raido's cache of code (targets/cache.py): the same folder, names, form and rules of trust.
 *
 * The folder is RAIDO_CACHE_DIR, else raido in XDG_CACHE_HOME, else ~/.cache/raido. Only what belongs to this user or root, and nobody
 * else can write, is read or written in; links are not followed; an entry is written beside its place and renamed. Whatever fails, a
 * library works without.
 */
#define _GNU_SOURCE
#include "raido_vulkan_pipelines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "raido-cache-1"
#define OPEN_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define MOST_BYTES ((off_t)1 << 28)

/* ---------------------------------------------------------------- SHA-256 (FIPS 180-4) */

typedef struct Digest {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
} Digest;

typedef struct Hex {
  char text[65];
} Hex;

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void take_block(uint32_t* state, const uint8_t* block) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t b = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t a = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    uint32_t b = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    uint32_t one = v[7] + a + ((v[4] & v[5]) ^ (~v[4] & v[6])) + ROUND[i] + w[i];
    uint32_t two = b + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += one;
    v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

static Digest begin_digest(void) {
  return (Digest){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void digest(Digest* d, const void* data, uint64_t bytes) {
  for (const uint8_t *from = data, *end = from + bytes; from < end; from++) {
    d->block[d->bytes++ % 64] = *from;
    if (d->bytes % 64 == 0) take_block(d->state, d->block);
  }
}

static Hex end_digest(Digest* d) {
  uint64_t bits = 8 * d->bytes;
  uint8_t length[8];
  Hex hex;
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  digest(d, "\x80", 1);
  while (d->bytes % 64 != 56) digest(d, "", 1);
  digest(d, length, sizeof length);
  for (int i = 0; i < 8; i++) snprintf(hex.text + 8 * i, 9, "%08x", (unsigned)d->state[i]);
  return hex;
}

/* ---------------------------------------------------------------- the folder */

static int is_trusted(int descriptor, struct stat* status) {
  if (fstat(descriptor, status)) return 0;
  return (status->st_uid == geteuid() || status->st_uid == 0) && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* The descriptor of a trusted folder; -1 for any other. */
static int open_folder(int within, const char* path) {
  struct stat status;
  int found = openat(within, path, OPEN_FLAGS | O_RDONLY | O_DIRECTORY);
  if (found >= 0 && !is_trusted(found, &status)) {
    close(found);
    return -1;
  }
  return found;
}

/* Makes the folders of a path that are missing, for this user alone; root makes none where another user's would be. */
static void make_folders(char* path) {
  for (char* end = path;;) {
    end = strchr(end + 1, '/');
    if (end) *end = 0;
    struct stat above;
    if (access(path, F_OK)) {
      char* last = strrchr(path, '/');
      *last = 0;
      int usable = !stat(*path ? path : "/", &above) && (geteuid() || !above.st_uid);
      *last = '/';
      if (!usable || (mkdir(path, 0700) && errno != EEXIST)) return;
    }
    if (!end) return;
    *end = '/';
  }
}

static int open_cache(int make) {
  char path[4096], here[2048];
  const char* folder = secure_getenv("RAIDO_CACHE_DIR");
  const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  int length = -1;
  if (folder && *folder == '/')
    length = snprintf(path, sizeof path, "%s", folder);
  else if (folder && *folder)
    length = getcwd(here, sizeof here) ? snprintf(path, sizeof path, "%s/%s", here, folder) : -1;
  else if (xdg && *xdg == '/')
    length = snprintf(path, sizeof path, "%s/raido", xdg);
  else if (home && *home == '/')
    length = snprintf(path, sizeof path, "%s/.cache/raido", home);
  if (length < 1 || length >= (int)sizeof path) return -1;
  if (make) make_folders(path);
  return open_folder(AT_FDCWD, path);
}

/* The part of the cache that has the entries whose names begin as this one's. */
static int open_part(const char* key, int make) {
  char part[3] = {key[0], key[1], 0};
  int cache = open_cache(make);
  if (cache < 0) return -1;
  if (make) (void)!mkdirat(cache, part, 0700);
  int found = open_folder(cache, part);
  close(cache);
  return found;
}

/* ---------------------------------------------------------------- entries */

static Hex key_of(const RdVulkanInfo* info) {
  static const char hex[] = "0123456789abcdef", what[] = "16:vulkan pipelines96:";
  Digest d = begin_digest();
  digest(&d, what, sizeof what - 1);
  for (size_t i = 0; i < sizeof info->identity; i++) {
    digest(&d, &hex[info->identity[i] >> 4], 1);
    digest(&d, &hex[info->identity[i] & 15], 1);
  }
  return end_digest(&d);
}

/* A regular file as a whole; NULL where it is not to be trusted, or damaged. */
static char* read_file(int folder, const char* name, size_t* bytes) {
  struct stat status;
  int file = openat(folder, name, OPEN_FLAGS | O_RDONLY);
  char* text = NULL;
  if (file < 0) return NULL;
  if (is_trusted(file, &status) && S_ISREG(status.st_mode) && status.st_size > 0 && status.st_size <= MOST_BYTES)
    text = malloc((size_t)status.st_size);
  for (*bytes = 0; text && *bytes < (size_t)status.st_size;) {
    ssize_t got = read(file, text + *bytes, (size_t)status.st_size - *bytes);
    if (got <= 0) {
      free(text);
      text = NULL;
    } else {
      *bytes += (size_t)got;
    }
  }
  close(file);
  return text;
}

void* rd_pipelines_read(const RdVulkanInfo* info, uint64_t* bytes) {
  Hex key = key_of(info);
  char name[80], head[160];
  size_t size = 0;
  *bytes = 0;
  int folder = open_part(key.text, 0);
  if (folder < 0) return NULL;
  snprintf(name, sizeof name, "%s.entry", key.text);
  char* text = read_file(folder, name, &size);
  close(folder);
  char* body = text ? memchr(text, '\n', size) : NULL;
  char* data = body ? memchr(body + 1, '\n', size - (size_t)(body + 1 - text)) : NULL;
  if (data) {
    Digest d = begin_digest();
    digest(&d, body + 1, size - (size_t)(body + 1 - text));
    int length = snprintf(head, sizeof head, "%s %s %s", MAGIC, key.text, end_digest(&d).text);
    if (length == body - text && !memcmp(head, text, (size_t)length)) {
      *bytes = size - (size_t)(data + 1 - text);
      memmove(text, data + 1, *bytes);
      return text;
    }
  }
  free(text);
  return NULL;
}

static int write_all(int file, const void* data, uint64_t bytes) {
  for (const char* from = data; bytes;) {
    ssize_t put = write(file, from, bytes);
    if (put <= 0) return 0;
    from += put;
    bytes -= (uint64_t)put;
  }
  return 1;
}

void rd_pipelines_keep(const RdVulkanInfo* info, const void* data, uint64_t bytes) {
  static const char about[] = "{\"by\": \"an exported library\"}\n";
  Hex key = key_of(info);
  char name[80], beside[32], head[160];
  uint64_t number;
  Digest d = begin_digest();
  digest(&d, about, sizeof about - 1);
  digest(&d, data, bytes);
  int length = snprintf(head, sizeof head, "%s %s %s\n", MAGIC, key.text, end_digest(&d).text);
  snprintf(name, sizeof name, "%s.entry", key.text);
  if (getrandom(&number, sizeof number, 0) != sizeof number) return;
  snprintf(beside, sizeof beside, ".new-%016llx", (unsigned long long)number);
  int folder = open_part(key.text, 1);
  if (folder < 0) return;
  int file = openat(folder, beside, OPEN_FLAGS | O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (file >= 0) {
    int whole = write_all(file, head, (uint64_t)length) && write_all(file, about, sizeof about - 1) && write_all(file, data, bytes);
    if (close(file) || !whole || renameat(folder, beside, folder, name)) unlinkat(folder, beside, 0);
  }
  close(folder);
}
