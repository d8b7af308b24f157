/* safetensors files: 8 bytes of header length N (little-endian), N bytes of JSON that maps each
 * name to {dtype, shape, data_offsets}, then the data without holes. */
#ifndef HAUL_CHECKPOINT_SAFETENSORS_H
#define HAUL_CHECKPOINT_SAFETENSORS_H

#include "base/file.h"
#include "checkpoint/hash.h"
#include "checkpoint/tensor.h"

enum { HAUL_SAFETENSORS_DIMENSIONS = 8 };

/* One tensor of an open file. The data may be unaligned for its dtype: copy, do not cast. */
typedef struct haul_safetensors_entry {
    const char *name;
    haul_dtype dtype; /* HAUL_DTYPES: one that haul does not compute with, such as BOOL */
    int ndim;
    int64_t shape[HAUL_SAFETENSORS_DIMENSIONS];
    int64_t bytes;
    const char *data;
} haul_safetensors_entry;

typedef struct haul_safetensors haul_safetensors;

/* Maps a file and validates its header in full: whatever passes can be read without further
 * checks. HAUL_ERROR_NO_INPUT when it cannot be opened, HAUL_ERROR_DATA when it is malformed. */
haul_status haul_safetensors_open(const char *path, haul_safetensors **out);
void haul_safetensors_close(haul_safetensors *file);

/* Entries are in file order and live as long as the file is open; find returns NULL for an
 * unknown name. */
int64_t haul_safetensors_count(const haul_safetensors *file);
const haul_safetensors_entry *haul_safetensors_at(const haul_safetensors *file, int64_t index);
const haul_safetensors_entry *haul_safetensors_find(const haul_safetensors *file, const char *name);

/* A value of __metadata__, or NULL. */
const char *haul_safetensors_metadata(const haul_safetensors *file, const char *key);

/* One string of __metadata__ to write. */
typedef struct haul_safetensors_pair {
    const char *key;
    const char *value;
} haul_safetensors_pair;

/* A file being written, hashed as it goes. */
typedef struct haul_safetensors_writer {
    haul_file_writer file;
    haul_hasher *hasher;
    int64_t data_bytes; /* declared and not yet written */
} haul_safetensors_writer;

/* Creates the file and writes its header. The data starts at a multiple of 64 bytes. Names must
 * differ and dtype sizes must not grow from one tensor to the next, so that every tensor is
 * aligned, which other readers need; haul_shards_plan (shards.h) takes care of both. */
haul_status haul_safetensors_create(const char *path, const haul_checkpoint_tensor *tensors,
                                    int64_t count, const haul_safetensors_pair *metadata,
                                    int64_t pairs, haul_safetensors_writer *out);

/* Appends the next bytes of data: tensor after tensor, in any cuts. */
haul_status haul_safetensors_write(haul_safetensors_writer *writer, const void *data,
                                   int64_t bytes);

/* Syncs and closes; `hash` covers the whole file. All declared bytes must be there. */
haul_status haul_safetensors_finish(haul_safetensors_writer *writer, haul_hash128 *hash);

/* Frees the writer and leaves an incomplete file; legal after finish. */
void haul_safetensors_abandon(haul_safetensors_writer *writer);

#endif
