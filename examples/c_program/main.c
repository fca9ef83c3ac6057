/* Sharpens a gray picture with a library that raido exported: no Python and no TVM in this program.

     raido build sharpen.py:sharpen --schedule schedule -o libsharpen.so
     cc -O2 main.c -o main -L. -lsharpen -Wl,-rpath,'$ORIGIN'
     ./main before.pgm after.pgm 1.5

   The last argument is how strongly. Pictures are binary PGM, 8 bits. Prints the best of ten times. */

#define _POSIX_C_SOURCE 199309L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sharpen.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return fail(argv[0], "takes IN.pgm OUT.pgm STRENGTH");
  FILE* in = fopen(argv[1], "rb");
  if (!in) return fail(argv[1], "cannot be read");
  int w, h, white;
  if (fscanf(in, "P5 %d %d %d", &w, &h, &white) != 3 || w < 1 || h < 1 || white != 255 || fgetc(in) == EOF)
    return fail(argv[1], "is not a binary PGM of 8 bits");
  size_t n = (size_t)w * h;
  uint8_t *img = malloc(n), *sharp = malloc(n);
  if (!img || !sharp) return fail(argv[1], "is too large");
  if (fread(img, 1, n, in) != n) return fail(argv[1], "ends early");
  fclose(in);

  double best = 1e9;
  for (int round = 0; round < 10; round++) {
    double start = now();
    if (sharpen(img, strtof(argv[3], NULL), h, w, sharp) != SHARPEN_OK) return fail("sharpen", sharpen_message());
    double took = now() - start;
    if (took < best) best = took;
  }
  printf("%.9f\n", best);

  FILE* out = fopen(argv[2], "wb");
  if (!out) return fail(argv[2], "cannot be written");
  fprintf(out, "P5\n%d %d\n255\n", w, h);
  if (fwrite(sharp, 1, n, out) != n || fclose(out)) return fail(argv[2], "cannot be written");
  free(img);
  free(sharp);
  return 0;
}
