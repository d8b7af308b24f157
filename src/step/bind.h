/* Inside step/: running one pass. */
#ifndef HAUL_STEP_BIND_H
#define HAUL_STEP_BIND_H

#include "step/program.h"

/* Binds the tensors of a pass and runs its node. With memory NULL, and before the store has
 * memory, tensors have shapes alone, which is what a recording stream needs. */
void haul_run_pass(const haul_program *program, char *memory, const haul_pass *pass,
                   haul_stream *stream, const haul_step_info *step);

#endif
