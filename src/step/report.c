/* What people see of a program: its memory and its passes. */
#include "step/program.h"

#include "base/memory.h"

const char *haul_pass_kind_name(haul_pass_kind kind) {
    static const char *const names[] = {"F", "REBUILD", "B", "W", "VERDICT", "COMMIT"};
    return names[kind];
}

haul_status haul_program_print(const haul_program *program, haul_string *out) {
    for (int64_t i = 0; i < program->pass_count; i++) {
        const haul_pass *pass = &program->passes[i];
        if (pass->node < 0) {
            haul_string_append_format(out, "%5lld  %s\n", (long long)i,
                                      haul_pass_kind_name(pass->kind));
        } else {
            haul_string_append_format(
                out, "%5lld  %-8s micro-batch %-4d slot %-3d %s%s\n", (long long)i,
                haul_pass_kind_name(pass->kind), pass->micro_batch, pass->slot,
                program->chunk->nodes[pass->node].name, pass->accumulate ? " (adds)" : "");
        }
    }
    return haul_string_status(out);
}

static bool alive(const haul_object *object, int position) {
    return object->memory == HAUL_MEMORY_SLOT && object->begin >= 0 && object->begin <= position &&
           position <= object->end;
}

static int64_t alive_bytes(const haul_program *program, int position) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < program->object_count; i++) {
        bytes += alive(&program->objects[i], position) ? program->objects[i].bytes : 0;
    }
    return bytes;
}

static int fullest_position(const haul_program *program) {
    int last = 0, fullest = 0;
    int64_t most = -1;
    for (int64_t i = 0; i < program->object_count; i++) {
        last = program->objects[i].end > last ? program->objects[i].end : last;
    }
    for (int position = 0; position <= last; position++) {
        int64_t bytes = alive_bytes(program, position);
        if (bytes > most) {
            most = bytes;
            fullest = position;
        }
    }
    return fullest;
}

/* Of the node whose scratch and workspace together are largest, which decide. */
static haul_status tabulate_scratch(const haul_program *program, haul_memory_table *table) {
    int64_t scratch = 0, workspace = 0;
    for (int64_t n = 0; n < program->chunk->node_count; n++) {
        const haul_node_objects *node = &program->nodes[n];
        if (node->scratch_bytes + node->workspace_bytes > scratch + workspace) {
            scratch = node->scratch_bytes;
            workspace = node->workspace_bytes;
        }
    }
    HAUL_TRY(haul_memory_table_add(table, "scratch of nodes", "scratch", scratch));
    return haul_memory_table_add(table, "workspace of ops", "scratch", workspace);
}

haul_status haul_program_memory(const haul_program *program, haul_memory_table *table) {
    int fullest = fullest_position(program);
    for (int64_t i = 0; i < program->object_count; i++) {
        const haul_object *object = &program->objects[i];
        if (object->memory == HAUL_MEMORY_FOREVER) {
            HAUL_TRY(haul_memory_table_add(table, object->name, "constants", object->bytes));
        } else if (object->memory == HAUL_MEMORY_STEP) {
            HAUL_TRY(haul_memory_table_add(table, object->name, "losses",
                                           object->bytes * program->micro_batches));
        } else if (alive(object, fullest)) {
            HAUL_TRY(haul_memory_table_add(table, object->name, "activations at their peak",
                                           object->bytes * program->slots));
        }
    }
    int64_t gaps = program->class_bytes[HAUL_MEMORY_SLOT] - alive_bytes(program, fullest);
    HAUL_TRY(haul_memory_table_add(table, "gaps of the packing", "activations at their peak",
                                   gaps * program->slots));
    return tabulate_scratch(program, table);
}
