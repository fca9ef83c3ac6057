/* What the programs of an exported library ask of a CUDA device; raido_program.h says how they are run. */
#ifndef RAIDO_CUDA_PROGRAM_H
#define RAIDO_CUDA_PROGRAM_H

#include "raido_cuda.h"

/* The most that any kernel needs, and the compute capability from which on there is code for all of them. */
typedef struct RdCudaNeeds {
  uint32_t capability, threads, block[3], shared;
} RdCudaNeeds;

RD_HIDDEN extern const RdCudaNeeds rd_cuda_needs;

#endif
