/* Inside step/: making the objects of a program and placing them. */
#ifndef HAUL_STEP_OBJECTS_H
#define HAUL_STEP_OBJECTS_H

#include "step/program.h"

/* A pass of one micro-batch, before the schedule multiplies it. */
typedef struct haul_template {
    haul_pass *passes;
    int64_t count, capacity;
} haul_template;

/* Decides which nodes are rebuilt (program->nodes[].rebuilt). */
void haul_recompute_choose(haul_program *program);

/* True when each micro-batch has a pass of this kind for the node. */
bool haul_program_runs(const haul_program *program, haul_pass_kind kind, int node);

/* Adds an object for every value, gradient, saved tensor, scratch, constant and state. */
haul_status haul_objects_create(haul_program *program);

/* Gives the SLOT objects that live at all (begin is not -1) places below *bytes: the largest first,
 * each the lowest one where it overlaps none that lives at the same time. The best packing would be
 * NP-hard to find; this one has no gap at the peak of a usual step. */
haul_status haul_objects_pack(haul_object *objects, int64_t object_count, int64_t *bytes);

/* Sets life times from the sequence of one micro-batch, packs slots, lays out the classes. */
haul_status haul_objects_place(haul_program *program, const haul_template *sequence);

#endif
